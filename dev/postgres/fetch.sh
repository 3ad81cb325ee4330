#!/usr/bin/env bash
# fetch.sh   prints the folder with the programs of a PostgreSQL server (initdb, postgres), 13 or newer.
#
# One that is installed is used: on PATH, or where Debian and Fedora put it. Else the package `postgresql` is installed with
# apt-get, which only root may do, and without a server of its own being started.
set -euo pipefail

# Prints the folder of the newest server there is.
find_bin() {
  local found
  for found in "$(command -v postgres || true)" $(ls -d /usr/lib/postgresql/*/bin/postgres /usr/pgsql-*/bin/postgres 2>/dev/null | sort -rV); do
    [ -n "$found" ] || continue
    found=$(dirname "$(readlink -f "$found")")
    if [ -x "$found/initdb" ]; then
      echo "$found"
      return 0
    fi
  done
  return 1
}

if find_bin; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
  echo "fetch.sh: there is no PostgreSQL server here: install one (package postgresql), or put postgres and initdb on PATH" >&2
  exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for attempt in 1 2 3; do
  # Its folders are made without a cluster, which nobody would use.
  if mkdir -p /etc/postgresql-common/createcluster.d &&
    echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.d/weir-tests.conf &&
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql; } > "$log" 2>&1; then
    break
  fi
  echo "fetch.sh: postgresql: attempt $attempt of 3 failed:" >&2
  tail -n 3 "$log" >&2
  if [ "$attempt" = 3 ]; then exit 1; fi
  sleep $((attempt * 3))
done
find_bin || {
  echo "fetch.sh: postgresql was installed, but its programs were not found" >&2
  exit 1
}
