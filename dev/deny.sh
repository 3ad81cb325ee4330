#!/usr/bin/env bash
# deny.sh CHECK...   runs cargo-deny (licenses, bans, sources, advisories); builds it once, into the cache.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
tools=${WEIR_CACHE:-$HOME/.cache/weir}/cargo-deny-$version
if [ ! -x "$tools/bin/cargo-deny" ]; then
  echo "building cargo-deny $version, once" >&2
  # Checked by its version alone: what it is built with does not matter here, so it is built quickly.
  CARGO_TARGET_DIR="$tools/build" cargo install --quiet --locked --debug --root "$tools" "cargo-deny@$version"
  rm -rf "$tools/build"
fi
exec "$tools/bin/cargo-deny" --log-level error check --hide-inclusion-graph "$@"
