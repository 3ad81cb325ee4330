#!/usr/bin/env bash
# build-job.sh VERSION   compiles job/ against that Flink and prints the path of the jar.
#
# The jar is kept in the cache under the hash of the sources and the version, so a second run costs nothing.
# Environment: WEIR_CACHE (default ~/.cache/weir). Needs a JDK 17.
set -euo pipefail

version=${1:?usage: build-job.sh VERSION, for example 2.3.0}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${WEIR_CACHE:-$HOME/.cache/weir}
flink=$("$here/fetch.sh" "$version")

hash=$(cd "$here/job" && find . -name '*.java' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
hash=${hash:0:16}
jar=$cache/jobs/wordcount-$version-$hash.jar
if [ ! -e "$jar" ]; then
  mkdir -p "$cache/jobs"
  classes=$(mktemp -d)
  trap 'rm -rf "$classes" "$jar.$$"' EXIT
  find "$here/job" -name '*.java' -print0 \
    | xargs -0 javac --release 11 -Xlint:all,-options,-classfile,-processing,-serial \
      -cp "$flink/lib/*" -d "$classes" >&2
  jar --create --file "$jar.$$" --main-class io.weir.jobs.WordCountJob -C "$classes" .
  mv "$jar.$$" "$jar"
fi
echo "$jar"
