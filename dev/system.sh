#!/usr/bin/env bash
# system.sh   makes sure that what the C sources among the dependencies need to build is there: pkg-config and OpenSSL's headers.
#
# Missing packages are installed with apt-get, which only root may do; elsewhere it says which they are.
set -euo pipefail

if pkg-config --exists openssl 2> /dev/null; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
  echo "system.sh: OpenSSL's headers and pkg-config are missing: install libssl-dev and pkg-config (Debian), or openssl-devel and pkgconf (Fedora)" >&2
  exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for attempt in 1 2 3; do
  if { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends libssl-dev pkg-config; } > "$log" 2>&1; then
    exit 0
  fi
  echo "system.sh: libssl-dev, pkg-config: attempt $attempt of 3 failed:" >&2
  tail -n 3 "$log" >&2
  if [ "$attempt" -lt 3 ]; then sleep $((attempt * 3)); fi
done
exit 1
