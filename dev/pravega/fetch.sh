#!/usr/bin/env bash
# fetch.sh   puts the jars of a runnable Pravega 0.13.0 into the cache and prints the folder that holds lib/.
#
# About 75 MB. Needs mvn and flock. A folder counts as complete only when its marker, written last, names the pom.xml it was
# made from; anything else is fetched again. Runs at the same time wait for one another, since Maven's local repository does
# not like company.
# Environment: WEIR_CACHE (default ~/.cache/weir).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${WEIR_CACHE:-$HOME/.cache/weir}
dir=$cache/pravega-0.13.0
marker=$dir/complete
want=$(sha256sum < "$here/pom.xml" | cut -c1-16)

is_complete() { [ "$(cat "$marker" 2>/dev/null)" = "$want" ]; }

copy_jars() { # TARGET_LIB
  mvn -B -ntp -q -U -f "$here/pom.xml" -Dstyle.color=never \
    org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$1"
}

mkdir -p "$cache"
exec 9> "$cache/pravega-fetch.lock"
is_complete || flock 9
if ! is_complete; then
  rm -rf "$dir"
  mkdir -p "$dir/lib"
  log=$cache/pravega-fetch.log
  for attempt in 1 2 3; do
    if copy_jars "$dir/lib" > "$log" 2>&1 9>&-; then break; fi
    echo "fetch.sh: Pravega: attempt $attempt of 3 failed:" >&2
    grep -m3 'ERROR' "$log" >&2 || tail -n 3 "$log" >&2
    if [ "$attempt" = 3 ]; then
      echo "fetch.sh: Pravega could not be fetched; the whole output is in $log" >&2
      exit 1
    fi
    sleep $((attempt * 3))
  done
  echo "$want" > "$marker"
fi
echo "$dir"
