#!/usr/bin/env bash
# fetch.sh VERSION   puts the jars of a runnable Flink into the cache and prints the folder that holds lib/.
#
# Works for 1.18.1, 1.20.3, 2.0.1 and 2.3.0 (about 80 MB each: no Table API, no metric reporters). Needs mvn and flock.
# Environment: WEIR_CACHE (default ~/.cache/weir).
set -euo pipefail

version=${1:?usage: fetch.sh VERSION, for example 2.3.0}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
case $version in
  1.* | 2.0.*) profiles=() ;;
  *) profiles=(-P application) ;;
esac
fetch_jars "Flink $version" "flink-$version" "$here/pom.xml" -Dflink.version="$version" "${profiles[@]}"
