#!/usr/bin/env bash
# pure.sh   fails if a crate that is to be pure has an async runtime, a socket or a database in its tree.
set -euo pipefail
cd "$(dirname "$0")/.."

status=0
for crate in weir-schemas weir-sizing weir-engine weir-governor; do
  found=$(cargo tree --quiet --package "$crate" --edges normal --prefix none --format '{p}' |
    grep -E '^(tokio|async-std|futures|hyper|reqwest|sqlx|mio|rdkafka)[ -]' | sort -u || true)
  if [ -n "$found" ]; then
    echo "$crate is to be pure, but depends on:" "$found" >&2
    status=1
  fi
done
exit $status
