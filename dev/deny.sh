#!/usr/bin/env bash
# deny.sh CHECK...   runs cargo-deny (licenses, bans, sources, advisories); builds it once, into the cache.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
tools=${WEIR_CACHE:-$HOME/.cache/weir}/cargo-deny-$version
if [ ! -x "$tools/bin/cargo-deny" ]; then
  echo "building cargo-deny $version, once" >&2
  # Checked by its version alone: what it is built with does not matter here, so it is built quickly.
  for attempt in 1 2 3; do
    if CARGO_TARGET_DIR="$tools/build" cargo install --quiet --locked --debug --root "$tools" "cargo-deny@$version"; then break; fi
    echo "deny.sh: cargo-deny: attempt $attempt of 3 failed" >&2
    if [ "$attempt" = 3 ]; then exit 1; fi
    sleep $((attempt * 3))
  done
  rm -rf "$tools/build"
fi
exec "$tools/bin/cargo-deny" --log-level error check --hide-inclusion-graph "$@"
