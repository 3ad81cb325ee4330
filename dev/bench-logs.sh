#!/usr/bin/env bash
# bench-logs.sh [LOG]   measures the logs, on real servers, and prints a table; about 5 minutes, or less for one log:
# `embedded`, `Kafka` or `Pravega`.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo run --quiet --release --package weir-tests --example bench_logs -- "$@"
