#!/usr/bin/env bash
# fetch.sh   puts the jars of a Kafka broker into the cache and prints the folder that holds lib/.
#
# About 70 MB, without Kafka's command-line tools. Needs mvn and flock.
# Environment: WEIR_CACHE (default ~/.cache/weir), VERSION (default 4.3.1).
set -euo pipefail

version=${VERSION:-4.3.1}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
fetch_jars "Kafka $version" "kafka-$version" "$here/pom.xml" -Dkafka.version="$version"
