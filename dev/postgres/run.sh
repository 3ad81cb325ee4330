#!/usr/bin/env bash
# run.sh start|stop|kill|pause|resume|url   one PostgreSQL server of our own, on 127.0.0.1 and a port of its own.
#
# start   makes the server's folder where it is missing, starts the server, waits until it answers, prints its address
# stop    ends it in good order          kill    ends it as a crash of the machine would (all its processes, -9)
# pause   stops all its processes, so that it is there and says nothing          resume  lets them go on
# url     prints its address, without a database: postgres://weir@127.0.0.1:PORT
#
# The user "weir" may do everything and needs no password; "guarded" needs "open sesame". Root cannot run PostgreSQL: then it
# runs as "nobody". With FSYNC=on it survives a crash of the machine and not only its own; tests do not need that.
# With TLS_DIR, a folder with cert.pem, key.pem and ca.pem, it speaks TLS too, and "certified" comes in by a certificate of that
# authority alone.
# Environment: RUN_DIR (the folder of this server), TLS_DIR (at the first start), FSYNC (default off), START_SECONDS (default 60).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
command=${1:?usage: run.sh start|stop|kill|pause|resume|url}
dir=${RUN_DIR:?RUN_DIR names the folder of the server}
data=$dir/data

as_user() {
  if [ "$(id -u)" = 0 ]; then
    setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups env HOME="$dir" "$@"
  else
    "$@"
  fi
}

url() { echo "postgres://weir@127.0.0.1:$(cat "$dir/port")"; }

# The server's process and those that it started, if it runs.
processes() {
  local main
  main=$(head -n 1 "$data/postmaster.pid" 2> /dev/null) || return 0
  # Not another's of the same number, nor one that is dead and only not buried yet.
  grep -q '^Name:[[:space:]]*postgres$' "/proc/$main/status" 2> /dev/null || return 0
  if grep -qs '^State:[[:space:]]*Z' "/proc/$main/status"; then return 0; fi
  echo "$main" $(ps -o pid= --ppid "$main" || true)
}

# signal NAME   sends a signal to all of them, the first one first: it would start others anew.
signal() {
  local all
  all=$(processes)
  if [ -n "$all" ]; then kill "-$1" $all 2> /dev/null || true; fi
}

make() {
  mkdir -p "$dir"
  if [ "$(id -u)" = 0 ]; then chown nobody "$dir"; fi
  as_user "$bin/initdb" --pgdata "$data" --username weir --auth trust --no-sync --encoding UTF8 --locale C.UTF-8 > "$dir/initdb.log" 2>&1 || {
    tail -n 20 "$dir/initdb.log" >&2
    exit 1
  }
  echo "hostssl all certified 127.0.0.1/32 cert
host all certified 127.0.0.1/32 reject
host all guarded 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust" | as_user tee "$data/pg_hba.conf" > /dev/null
  [ -z "${TLS_DIR:-}" ] || add_tls
  free_ports 1 > "$dir/port"
}

# The key has to be the server's own, and nobody else's to read.
add_tls() {
  local file
  for file in cert.pem key.pem ca.pem; do
    as_user bash -c 'umask 077; cat > "$1"' copy "$data/$file" < "$TLS_DIR/$file"
  done
  echo "ssl = on
ssl_cert_file = 'cert.pem'
ssl_key_file = 'key.pem'
ssl_ca_file = 'ca.pem'" | as_user tee -a "$data/postgresql.conf" > /dev/null
}

start() {
  bin=$("$here/fetch.sh")
  local first=no
  if [ ! -s "$data/PG_VERSION" ]; then
    first=yes
    make
  fi
  # What its processes leave behind after a kill is no server.
  [ -n "$(processes)" ] || rm -f "$data/postmaster.pid"
  as_user setsid "$bin/postgres" -D "$data" -p "$(cat "$dir/port")" -c listen_addresses=127.0.0.1 \
    -c unix_socket_directories= -c fsync="${FSYNC:-off}" -c max_connections=300 -c shared_buffers=64MB \
    -c log_line_prefix='%m [%p] ' >> "$dir/postgres.log" 2>&1 < /dev/null &
  local deadline=$((SECONDS + ${START_SECONDS:-60}))
  until "$bin/psql" -X -q -t -d "$(url)/postgres" -c "SELECT 1" > /dev/null 2>&1; do
    if [ "$SECONDS" -ge "$deadline" ] || ! kill -0 $! 2> /dev/null; then
      echo "run.sh: PostgreSQL did not start:" >&2
      tail -n 20 "$dir/postgres.log" >&2
      exit 1
    fi
    sleep 0.1
  done
  if [ "$first" = yes ]; then
    "$bin/psql" -X -q -d "$(url)/postgres" -c "CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 'open sesame'" \
      -c "CREATE ROLE certified LOGIN SUPERUSER"
  fi
  url
}

case $command in
  start) start ;;
  stop)
    signal CONT
    main=$(processes | cut -d ' ' -f 1)
    if [ -n "$main" ]; then
      kill -INT "$main"
      for _ in $(seq 100); do [ -n "$(processes)" ] || exit 0; sleep 0.1; done
      signal KILL
    fi
    ;;
  kill)
    signal KILL
    for _ in $(seq 200); do [ -n "$(processes)" ] || exit 0; sleep 0.05; done
    echo "run.sh: PostgreSQL does not end" >&2
    exit 1
    ;;
  pause) signal STOP ;;
  resume) signal CONT ;;
  url) url ;;
  *)
    sed -n 2p "$0" >&2
    exit 64
    ;;
esac
