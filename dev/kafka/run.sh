#!/usr/bin/env bash
# run.sh   starts one Kafka broker with its controller (KRaft) on 127.0.0.1, and prints its address once it serves requests.
#
# DATA (required) is the folder of configuration, data, log and process id. A second start in the same folder goes on with
# the data and the ports of the first one. The first start reads these variables:
#   PORT            free   clients, without encryption
#   CONTROLLER_PORT free   the controller
#   SECURE          none   a folder with broker.pem (key and certificates) and authority.pem, who signed it; adds two
#                          listeners with TLS: one that wants a password (SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN), and one
#                          that wants a certificate of that authority
#   SECURE_PORT     free   the port of the first; it is kept in DATA/secure-port
#   MUTUAL_PORT     free   the port of the second; it is kept in DATA/mutual-port
#   SECURE_USERS    none   name=...,password=... of those who may log in there, separated by blanks; certificates bear the
#                          names. The first one may do everything there, as everybody without encryption; others what access
#                          control lists allow
#   HEAP            256m   memory of the broker
#   EXTRA           none   a file of further "key=value" lines
#   WEIR_CACHE             see fetch.sh
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
: "${DATA:?set DATA to the folder of this broker}"
mkdir -p "$DATA"
DATA=$(cd "$DATA" && pwd)
conf=$DATA/server.properties

die() { echo "run.sh: $*" >&2; exit 1; }

write_conf() {
  local free port controller secure mutual plain control
  read -r -a free <<< "$(free_ports 4)"
  port=${PORT:-${free[0]}} controller=${CONTROLLER_PORT:-${free[1]}}
  secure=${SECURE_PORT:-${free[2]}} mutual=${MUTUAL_PORT:-${free[3]}}
  plain=PLAINTEXT://127.0.0.1:$port control=CONTROLLER://127.0.0.1:$controller
  if [ -n "${SECURE:-}" ]; then plain=$plain,SECURE://127.0.0.1:$secure,MUTUAL://127.0.0.1:$mutual; fi
  cat > "$conf.new" <<EOF
process.roles=broker,controller
node.id=1
listeners=$plain,$control
advertised.listeners=$plain,$control
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL,MUTUAL:SSL
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:$controller
log.dirs=$DATA/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
# A killed broker may come back before it was missed.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
log.cleaner.dedupe.buffer.size=4194304
num.network.threads=2
num.io.threads=4
EOF
  [ -z "${SECURE:-}" ] || write_secure >> "$conf.new"
  cat ${EXTRA:+"$EXTRA"} < /dev/null >> "$conf.new"
  echo "$port" > "$DATA/port"
  echo "$secure" > "$DATA/secure-port"
  echo "$mutual" > "$DATA/mutual-port"
}

write_secure() {
  local first plain='' user
  first=$(sed 's/^name=\([^,]*\).*/\1/' <<< "${SECURE_USERS:-}")
  for user in ${SECURE_USERS:-}; do
    plain+=$(sed 's/^name=\([^,]*\),password=\(.*\)/ user_\1="\2"/' <<< "$user")
  done
  cat <<EOF
ssl.keystore.type=PEM
ssl.keystore.location=$SECURE/broker.pem
listener.name.mutual.ssl.truststore.type=PEM
listener.name.mutual.ssl.truststore.location=$SECURE/authority.pem
listener.name.mutual.ssl.client.auth=required
listener.name.mutual.ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/\$1/
listener.name.secure.sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256,PLAIN
listener.name.secure.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required$plain;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:$first
EOF
}

kafka=$("$here/fetch.sh")
lean=(-Xms64m "-Xmx${HEAP:-256m}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto)
log=(-Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info)

# Written last, so that a first start that failed is begun again.
if [ ! -e "$conf" ]; then
  write_conf
  rm -rf "$DATA/data"
  # Of 16 bytes, the first of which keeps it from beginning as an option does.
  id=$({ printf w; head -c 15 /dev/urandom; } | base64 | tr '+/' '-_' | tr -d '=')
  users=()
  for user in ${SECURE_USERS:-}; do
    users+=(--add-scram "SCRAM-SHA-512=[$user]" --add-scram "SCRAM-SHA-256=[$user]")
  done
  java "${lean[@]}" "${log[@]}" -cp "$kafka/lib/*" kafka.tools.StorageTool format --standalone -t "$id" -c "$conf.new" \
    "${users[@]}" > "$DATA/format.log" 2>&1 || { cat "$DATA/format.log" >&2; exit 1; }
  mv "$conf.new" "$conf"
fi

# What a run before this one said is not to be taken for its own.
rm -f "$DATA/broker.log"
nohup nice java "${lean[@]}" "${log[@]}" -cp "$kafka/lib/*" kafka.Kafka "$conf" > "$DATA/broker.log" 2>&1 < /dev/null &
pid=$!
echo "$pid" > "$DATA/pid"

# The broker says this once it takes requests.
deadline=$((SECONDS + ${START_SECONDS:-60}))
until grep -q 'Kafka Server started' "$DATA/broker.log" 2> /dev/null; do
  if ! kill -0 "$pid" 2> /dev/null; then tail -n 40 "$DATA/broker.log" >&2; die "the broker ended during its start"; fi
  if [ "$SECONDS" -ge "$deadline" ]; then
    kill -KILL "$pid"
    die "the broker is not ready after ${START_SECONDS:-60} s, see $DATA/broker.log"
  fi
  sleep 0.1
done
echo "127.0.0.1:$(cat "$DATA/port")"
