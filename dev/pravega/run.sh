#!/usr/bin/env bash
# run.sh COMMAND   a real Pravega 0.13.0 in one process on 127.0.0.1, without containers.
#
#   start    start, or start again on the same data and ports; wait until it serves; print the controller's address
#   kill     end it as a crash does
#   pause    stop it in its tracks (SIGSTOP) | resume   let it go on
#   stop     end it, even after a failed start
#   url      print the controller's address
#   rest METHOD PATH [JSON]   ask the management interface, such as `rest DELETE v1/scopes/a/streams/b`
#
# RUN_DIR (required) holds data, settings, log and process id; later commands find the rest there. The first `start` reads:
#   MODE           durable     durable: ZooKeeper, BookKeeper and files, which outlive the process (SingleNode.java);
#                              memory: Pravega's own emulator, which forgets everything when it ends
#   TLS_DIR                    memory only: folder with cert.pem (for the name localhost), key.pem and ca.pem, which signed
#                              it: TLS for all, and the log-in USER_NAME, USER_PASSWORD
#   USER_NAME      weir        USER_PASSWORD  required with TLS_DIR
#   HEAP           640m        RETENTION_MINUTES  1 (Pravega: 30)
#   START_SECONDS  100         how long to wait until it serves; it is started twice at most
#   WEIR_CACHE                 see fetch.sh
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
: "${RUN_DIR:?set RUN_DIR to the folder of this server}"
mkdir -p "$RUN_DIR/tmp"
RUN_DIR=$(cd "$RUN_DIR" && pwd)
user=${USER_NAME:-weir}

die() { echo "run.sh: $*" >&2; exit 1; }

# Set by load_settings.
mode='' parts='' tls_dir='' scheme='' host='' rpc='' rest='' store='' store_rest='' zk='' bookie=''

load_settings() {
  [ -e "$RUN_DIR/settings" ] || die "no server was started in $RUN_DIR"
  # shellcheck source=/dev/null
  . "$RUN_DIR/settings"
}

save_settings() {
  local free
  read -r -a free <<< "$(free_ports 6)"
  cat > "$RUN_DIR/settings" <<EOS
mode=${MODE:-durable}
parts=$("$here/fetch.sh")
tls_dir=${TLS_DIR:-}
scheme=$([ -n "${TLS_DIR:-}" ] && echo tls || echo tcp)
host=$([ -n "${TLS_DIR:-}" ] && echo localhost || echo 127.0.0.1)
rpc=${free[0]}
rest=${free[1]}
store=${free[2]}
store_rest=${free[3]}
zk=${free[4]}
bookie=${free[5]}
EOS
}

url() { echo "$scheme://$host:$rpc"; }

# Not what is dead and only not buried yet.
runs() { grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2> /dev/null; } # PID

alive() { [ -s "$RUN_DIR/pid" ] && runs "$(cat "$RUN_DIR/pid")"; }

ask() { # PATH [CURL OPTION...]   the management interface, whoever signed its certificate
  local protocol=http path=$1
  shift
  [ -z "$tls_dir" ] || protocol=https
  curl -fsk -m "${ASK_SECONDS:-20}" -u "$user:${USER_PASSWORD:-}" "$@" "$protocol://$host:$rest/$path"
}

# The first answers come before anything can be stored. The system's own scope is listed once the containers are up.
serves() {
  # What is not up yet may take a question and never answer it.
  local ASK_SECONDS=3
  ask ping > /dev/null && ask v1/scopes | grep -q '"_system"' &&
    [ "$(ask v1/health/readiness)" = true ]
}

wait_until_it_serves() {
  local end=$((SECONDS + ${START_SECONDS:-100}))
  until serves 2> /dev/null; do
    alive || { tail -n 20 "$RUN_DIR/server.log" >&2; die "the server ended; see $RUN_DIR/server.log"; }
    [ $SECONDS -lt $end ] || return 1
    sleep 0.3
  done
}

options=()

durable_options() {
  local key
  for key in bookkeeper.ensemble.size bookkeeper.write.quorum.size bookkeeper.ack.quorum.size \
    pravegaservice.container.count controller.container.count; do
    options+=("-D$key=1")
  done
  for key in pravegaservice bookkeeper controller; do
    options+=("-D$key.zk.connect.uri=127.0.0.1:$zk")
  done
  options+=(
    "-Dpravega.configurationFile=$RUN_DIR/empty.properties" "-Dnode.folder=$RUN_DIR/data"
    "-Dnode.zk.port=$zk" "-Dnode.bookie.port=$bookie"
    -Dbookkeeper.ledger.path=/weir/ledgers -Dpravegaservice.dataLog.impl.name=BOOKKEEPER
    -Dpravegaservice.storage.impl.name=FILESYSTEM "-Dfilesystem.root=$RUN_DIR/data/files"
    -Dpravegaservice.cache.size.max=100663296 "-Dpravegaservice.service.listener.port=$store"
    -Dpravegaservice.service.published.host.nameOrIp=127.0.0.1
    "-Dcontroller.service.rpc.listener.port=$rpc" "-Dcontroller.service.rpc.published.port=$rpc"
    -Dcontroller.service.rpc.published.host.nameOrIp=127.0.0.1
    "-Dcontroller.service.rest.listener.port=$rest" -Dcontroller.service.rest.listener.host.ip=127.0.0.1
    "-DautoScale.controller.connect.uri=$(url)"
  )
}

memory_options() {
  options+=(
    "-Dsinglenode.configurationFile=$RUN_DIR/empty.properties" "-Dsinglenode.zk.port=$zk"
    "-Dsinglenode.segmentStore.port=$store" "-Dsinglenode.controller.rpc.port=$rpc"
    "-Dsinglenode.controller.rest.port=$rest" -Dsinglenode.admin.gateway.enable=false
    "-Dpravegaservice.service.published.host.nameOrIp=$host"
  )
  [ -z "$tls_dir" ] || tls_options
}

tls_options() {
  local security=singlenode.security
  make_stores
  options+=(
    "-D$security.tls.enable=true" "-D$security.tls.certificate.location=$tls_dir/cert.pem"
    "-D$security.tls.privateKey.location=$tls_dir/key.pem"
    "-D$security.tls.keyStore.location=$RUN_DIR/keys.jks" "-D$security.tls.keyStore.pwd.location=$RUN_DIR/keys.pwd"
    "-D$security.tls.trustStore.location=$RUN_DIR/trust.jks"
    "-D$security.auth.enable=true" "-D$security.auth.credentials.username=$user"
    "-D$security.auth.credentials.pwd=${USER_PASSWORD:?set USER_PASSWORD}"
    "-D$security.auth.pwdAuthHandler.accountsDb.location=$RUN_DIR/accounts"
    # Pravega's own calls check names as well.
    "-Djavax.net.ssl.trustStore=$RUN_DIR/trust.jks" "-Djavax.net.ssl.trustStorePassword=$store_password"
  )
}

# A part of the emulator knows no other. With another one it talks to no ZooKeeper, and gives up only after 45 s.
store_password=1111_aaaa

# The management interface wants Java's own kind of key files, and the log-in a file of salted hashes.
make_stores() {
  local p12=$RUN_DIR/keys.p12
  [ ! -e "$RUN_DIR/accounts" ] || return 0
  echo -n "$store_password" > "$RUN_DIR/keys.pwd"
  openssl pkcs12 -export -in "$tls_dir/cert.pem" -inkey "$tls_dir/key.pem" -out "$p12" -passout "pass:$store_password"
  keytool -importkeystore -noprompt -srckeystore "$p12" -srcstoretype PKCS12 -srcstorepass "$store_password" \
    -destkeystore "$RUN_DIR/keys.jks" -deststoretype JKS -deststorepass "$store_password" > /dev/null 2>&1
  keytool -importcert -noprompt -alias weir -file "$tls_dir/ca.pem" -keystore "$RUN_DIR/trust.jks" \
    -storetype JKS -storepass "$store_password" > /dev/null 2>&1
  python3 - "$user" "$USER_PASSWORD" > "$RUN_DIR/accounts" <<'PY'
import hashlib, os, sys
user, password = sys.argv[1:]
salt = os.urandom(32)
digest = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 5000, 64)
print(f"{user}:{('5000:' + salt.hex() + ':' + digest.hex()).encode().hex()}:prn::*,READ_UPDATE;")
PY
}

launch() {
  cd "$RUN_DIR"
  setsid java "${options[@]}" -cp "$parts/lib/*" "$main" >> server.log 2>&1 < /dev/null &
  echo $! > pid
}

start() {
  [ -e "$RUN_DIR/settings" ] || save_settings
  load_settings
  : > "$RUN_DIR/empty.properties"
  options=(
    "-Xmx${HEAP:-640m}" -XX:MaxDirectMemorySize=320m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto
    "-Djava.io.tmpdir=$RUN_DIR/tmp" "-Dlogback.configurationFile=file:$here/logback.xml"
    "-Dcontroller.retention.frequency.minutes=${RETENTION_MINUTES:-1}"
    "-Dpravegaservice.rest.listener.port=$store_rest"
    -Dpravegaservice.service.listener.host.nameOrIp=127.0.0.1
  )
  local main=io.pravega.local.LocalPravegaEmulator
  if [ "$mode" = durable ]; then
    main=$here/SingleNode.java
    durable_options
  else
    memory_options
  fi
  alive || launch
  if ! wait_until_it_serves; then
    # Now and then one of its parts waits for another for ever. What it has is on disk, or nothing yet.
    echo "run.sh: the server does not serve after ${START_SECONDS:-100} s; it is started once more" >&2
    end
    launch
    wait_until_it_serves || die "the server does not serve; see $RUN_DIR/server.log"
  fi
  url
}

signal() { # NAME
  alive || die "no server runs in $RUN_DIR"
  kill "-$1" "$(cat "$RUN_DIR/pid")"
}

# Neither mode loses by it: one has everything on disk, the other would lose everything anyway. Both take long to end by
# themselves, or never do.
end() {
  if alive; then
    local pid
    pid=$(cat "$RUN_DIR/pid")
    kill -KILL "$pid"
    while runs "$pid"; do sleep 0.05; done
  fi
  rm -f "$RUN_DIR/pid"
}

case ${1:-} in
  start) start ;;
  kill | stop) end ;;
  pause) signal STOP ;;
  resume) signal CONT ;;
  url) load_settings; url ;;
  rest)
    load_settings
    ask "$3" -X "$2" ${4:+-H 'Content-Type: application/json' -d "$4"}
    ;;
  *) sed -n 2,10p "$0" >&2; exit 64 ;;
esac
