#!/usr/bin/env bash
# fetch.sh   puts the jars of a runnable Pravega 0.13.0 into the cache and prints the folder that holds lib/.
#
# About 75 MB. Needs mvn and flock.
# Environment: WEIR_CACHE (default ~/.cache/weir).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
fetch_jars "Pravega 0.13.0" pravega-0.13.0 "$here/pom.xml"
