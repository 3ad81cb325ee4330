#!/usr/bin/env bash
# bench-flink.sh [PART]   measures the scenario on a real Flink cluster and prints a table; about 17 minutes, or 8 for one
# part: `second` (metrics every second) or `default` (Flink's default refresh).
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --package weir --features weir/pravega
exec cargo run --quiet --package weir-tests --example bench_flink -- "$@"
