#!/usr/bin/env bash
# demo-flink.sh   shows Weir scaling a real job on a real Flink cluster of this machine, then takes everything down again.
set -euo pipefail
cd "$(dirname "$0")/.."

RUN_DIR=$(mktemp -d -t weir-demo-flink-XXXXXX)
export RUN_DIR
weir=""
weir_bin=${CARGO_TARGET_DIR:-target}/debug/weir
finish() {
  [ -z "$weir" ] || kill -INT "$weir" 2>/dev/null || true
  dev/flink/cluster.sh stop >/dev/null 2>&1 || true
  rm -rf "$RUN_DIR"
}
trap finish EXIT

cargo build --quiet --package weir --features weir/pravega
echo "starting Flink 2.3.0 (the first time it is fetched)"
url=$(VERSION=2.3.0 TMS=2 SLOTS=8 REFRESH_MS=1000 CHECKPOINT_MS=5000 COOLDOWN=5s dev/flink/cluster.sh start)
echo "Flink's own page: $url"
printf '[default]\nmode = "auto"\nshrink_after_ms = 20000\n' >"$RUN_DIR/weir.toml"
"$weir_bin" run --config "$RUN_DIR/weir.toml" --data "$RUN_DIR/data" --flink "demo=$url" --listen none --log warn &
weir=$!
dev/flink/cluster.sh submit --rate 800 --rate-file "$RUN_DIR/rate" --words 2 --flat-cap 500 --count-cap 500 --splits 4 \
  --result-dir "$RUN_DIR/result" >"$RUN_DIR/job"

# follow SECONDS   prints what Weir decides and does, as it happens.
seen=1
follow() {
  for ((second = 0; second < $1; second++)); do
    "$weir_bin" history wordcount --limit 1000 --data "$RUN_DIR/data" >"$RUN_DIR/history" 2>/dev/null || true
    tail -n +"$((seen + 1))" "$RUN_DIR/history"
    seen=$(($(wc -l <"$RUN_DIR/history") > seen ? $(wc -l <"$RUN_DIR/history") : seen))
    sleep 1
  done
}

for phase in 800:45 1600:45 400:60; do
  rate=${phase%:*}
  echo
  echo "--- $rate lines/s are offered"
  [ "$rate" = 800 ] || dev/flink/rate.sh "$RUN_DIR/rate" "$rate" >/dev/null
  follow "${phase#*:}"
done
echo
"$weir_bin" explain wordcount --data "$RUN_DIR/data"
dev/flink/rate.sh "$RUN_DIR/rate" end >/dev/null
python3 dev/flink/rescale.py "$url" "$(cat "$RUN_DIR/job")" --wait FINISHED
dev/flink/check_counts.py "$RUN_DIR/result" --words 2 --rate 800 --rate-file "$RUN_DIR/rate"
