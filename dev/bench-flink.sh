#!/usr/bin/env bash
# bench-flink.sh   measures the scenario on a real Flink cluster and prints a table; about 17 minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --bin weir
exec cargo run --quiet --package weir-tests --example bench_flink
