#!/usr/bin/env bash
# selftest.sh VERSION...   proves the harness on real clusters: a loaded job is rescaled, loses a TaskManager,
# is given another rate, ends, and must have counted every word exactly. About a minute for each version.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
RUN_DIR=$(mktemp -d)
export RUN_DIR
trap '"$here/cluster.sh" stop; rm -rf "$RUN_DIR"' EXIT

for VERSION in "${@:?usage: selftest.sh VERSION...}"; do
  export VERSION
  rm -rf "${RUN_DIR:?}"/*
  url=$(SLOTS=4 "$here/cluster.sh" start)
  load=(--rate 800 --rate-file "$RUN_DIR/rate" --words 2 --keys 500 --hot 0.05)
  job=$("$here/cluster.sh" submit "${load[@]}" --flat-cap 500 --count-cap 500 --result-dir "$RUN_DIR/result")
  python3 "$here/rescale.py" "$url" "$job" source=1 flatmap=2 count=4
  python3 "$here/rescale.py" "$url" "$job" source=2 flatmap=3 count=6
  "$here/rate.sh" "$RUN_DIR/rate" 300 > /dev/null
  "$here/cluster.sh" kill-tm tm2 KILL
  "$here/cluster.sh" add-tm > /dev/null
  python3 "$here/rescale.py" "$url" "$job" source=1 flatmap=2 count=3
  "$here/rate.sh" "$RUN_DIR/rate" end > /dev/null
  python3 "$here/rescale.py" "$url" "$job" --wait FINISHED
  echo "Flink $VERSION: $("$here/check_counts.py" "$RUN_DIR/result" "${load[@]}")"
  "$here/cluster.sh" stop
done
