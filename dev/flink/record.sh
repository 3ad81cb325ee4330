#!/usr/bin/env bash
# record.sh OUT VERSION...   records real answers of Flink's REST API into OUT/VERSION/, with an index.json for each.
#
# For each version it drives two small clusters (adaptive scheduler; default scheduler without checkpoints) through the
# states that the decoder and the contract tests need. Paths, ports and host names of this machine are replaced by neutral
# ones (record.py). Recorded ids and times are those of the recording: compare by index.json, never by value.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${1:?usage: record.sh OUT VERSION...}
shift

RUN_DIR=$(mktemp -d)
export RUN_DIR
trap '"$here/cluster.sh" stop; rm -rf "$RUN_DIR"' EXIT

for VERSION in "$@"; do
  export VERSION
  echo "recording Flink $VERSION"
  for scheduler in adaptive default; do
    rm -rf "${RUN_DIR:?}"/*
    if [ "$scheduler" = adaptive ]; then checkpoint=5000; else checkpoint=; fi
    SLOTS=4 SCHEDULER=$scheduler CHECKPOINT_MS=$checkpoint "$here/cluster.sh" start > /dev/null
    python3 "$here/record.py" "$scheduler" "$out/$VERSION"
    "$here/cluster.sh" stop
  done
done
