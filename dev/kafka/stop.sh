#!/usr/bin/env bash
# stop.sh [SIGNAL]   ends the broker that run.sh started in DATA: TERM, and KILL after 10 s; or with KILL at once, as a crash.
set -euo pipefail

: "${DATA:?set DATA to the folder of the broker}"
pid=$(cat "$DATA/pid" 2> /dev/null) || exit 0

# A process id may have been given to someone else since: ours has this folder in its command line.
is_alive() { tr '\0' ' ' 2> /dev/null < "/proc/$pid/cmdline" | grep -qF "$(cd "$DATA" && pwd)/server.properties"; }

if is_alive; then kill "-${1:-TERM}" "$pid" 2> /dev/null || true; fi
for ((i = 0; i < 100; i++)); do is_alive || break; sleep 0.1; done
if is_alive; then kill -KILL "$pid" 2> /dev/null || true; fi
while is_alive; do sleep 0.05; done
rm -f "$DATA/pid"
