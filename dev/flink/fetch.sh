#!/usr/bin/env bash
# fetch.sh VERSION   puts the jars of a runnable Flink into the cache and prints the folder that holds lib/.
#
# Works for 1.18.1, 1.20.3, 2.0.1 and 2.3.0 (about 80 MB each: no Table API, no metric reporters). Needs mvn and flock.
# A folder counts as complete only when its marker, written last, names the pom.xml it was made from; anything else is
# fetched again. Runs at the same time wait for one another, since Maven's local repository does not like company.
# Environment: WEIR_CACHE (default ~/.cache/weir).
set -euo pipefail

version=${1:?usage: fetch.sh VERSION, for example 2.3.0}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${WEIR_CACHE:-$HOME/.cache/weir}
dir=$cache/flink-$version
marker=$dir/complete
want=$(sha256sum < "$here/pom.xml" | cut -c1-16)

is_complete() { [ "$(cat "$marker" 2>/dev/null)" = "$want" ]; }

case $version in
  1.* | 2.0.*) profiles=() ;;
  *) profiles=(-P application) ;;
esac

copy_jars() { # TARGET_LIB
  mvn -B -ntp -q -U -f "$here/pom.xml" -Dstyle.color=never -Dflink.version="$version" "${profiles[@]}" \
    org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$1"
}

mkdir -p "$cache"
exec 9> "$cache/flink-fetch.lock"
is_complete || flock 9
if ! is_complete; then
  rm -rf "$dir"
  mkdir -p "$dir/lib"
  log=$cache/flink-fetch-$version.log
  for attempt in 1 2 3; do
    if copy_jars "$dir/lib" > "$log" 2>&1 9>&-; then break; fi
    echo "fetch.sh: Flink $version: attempt $attempt of 3 failed:" >&2
    grep -m3 'ERROR' "$log" >&2 || tail -n 3 "$log" >&2
    if [ "$attempt" = 3 ]; then
      echo "fetch.sh: Flink $version could not be fetched; the whole output is in $log" >&2
      exit 1
    fi
    sleep $((attempt * 3))
  done
  echo "$want" > "$marker"
fi
echo "$dir"
