#!/usr/bin/env bash
# cluster.sh COMMAND   one JobManager and some TaskManagers of a real Flink on 127.0.0.1, without containers.
#
#   start [JOB ARGS...]    start, wait until all slots are registered, print the REST URL. With MODE=application the
#                          job runs inside the JobManager, with these arguments
#   submit [JOB ARGS...]   run the job (JOB_JAR, or ours) detached, print its id
#   add-tm                 start one more TaskManager, print its name
#   kill-tm NAME [SIGNAL]  end a TaskManager (TERM; KILL is a crash)
#   kill-jm [SIGNAL]       end the JobManager; without high availability its jobs are lost
#   start-jm               start the JobManager again, on the same ports
#   url | status           print the REST URL | one line for each process
#   stop                   end everything that runs, even after a failed start
#
# RUN_DIR (required) holds configuration, logs, process ids, checkpoints and temporary files; later commands find the
# rest there. `start` reads these variables (an EMPTY value means: leave it to Flink):
#   VERSION        2.3.0       1.18.1 to 2.3.0
#   PORT           free        REST port; JOB_PORT and BLOB_PORT likewise
#   TMS, SLOTS     2, 8        TaskManagers, and slots of each
#   REFRESH_MS     1000        metrics.fetcher.update-interval and web.refresh-interval (Flink: 10 s and 3 s)
#   CHECKPOINT_MS  5000        checkpoint interval (Flink: no checkpoints)
#   SCHEDULER      adaptive    adaptive, default, or reactive (an application cluster; Flink 2.1 and later)
#   COOLDOWN       5s          least time between rescales (1.18 has none)
#   MODE           session     session or application
#   EXTRA                      file of further "key: value" lines; they win over ours
#   JM_MEM, TM_MEM             process sizes, 900m and 1200m
#   START_SECONDS  90          how long to wait for the slots
#   JOB_JAR                    a jar other than the one of build-job.sh; its main class in JOB_CLASS
#   WEIR_CACHE                 see fetch.sh
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
: "${RUN_DIR:?set RUN_DIR to the folder of this cluster}"
mkdir -p "$RUN_DIR"
RUN_DIR=$(cd "$RUN_DIR" && pwd)
conf=$RUN_DIR/conf

# Small machines: no JIT and GC threads that compete with the job.
lean=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto)
opens=()
for package in java.lang java.lang.reflect java.net java.io java.nio java.text java.time java.util sun.net.util \
  sun.nio.ch java.util.concurrent java.util.concurrent.atomic java.util.concurrent.locks; do
  opens+=("--add-opens=java.base/$package=ALL-UNNAMED")
done

die() { echo "cluster.sh: $*" >&2; exit 1; }

# Set by load_settings.
version='' flink='' rest_port='' job_port='' blob_port=''

load_settings() {
  [ -e "$RUN_DIR/settings" ] || die "no cluster was started in $RUN_DIR"
  # shellcheck source=/dev/null
  . "$RUN_DIR/settings"
}

save_settings() {
  local free
  read -r -a free <<< "$(free_ports 3)"
  cat > "$RUN_DIR/settings" <<EOF
version=${VERSION:-2.3.0}
flink=$("$here/fetch.sh" "${VERSION:-2.3.0}")
rest_port=${PORT:-${free[0]}}
job_port=${JOB_PORT:-${free[1]}}
blob_port=${BLOB_PORT:-${free[2]}}
EOF
}

put() { if [ -n "$2" ]; then echo "$1: $2"; fi; }

settings_for_version() { # the options whose names changed
  local cooldown=${COOLDOWN-5s} adaptive=jobmanager.adaptive-scheduler
  case $version in
    1.*)
      put state.checkpoints.dir "file://$RUN_DIR/checkpoints"
      put state.backend hashmap
      put $adaptive.resource-stabilization-timeout 2s
      case $version in 1.18.*) ;; *) put $adaptive.scaling-interval.min "$cooldown" ;; esac
      ;;
    *)
      put execution.checkpointing.dir "file://$RUN_DIR/checkpoints"
      put state.backend.type hashmap
      put $adaptive.submission.resource-stabilization-timeout 2s
      put $adaptive.executing.resource-stabilization-timeout 10s
      put $adaptive.executing.cooldown-after-rescaling "$cooldown"
      put web.adaptive-scheduler.rescale-history.size 50
      ;;
  esac
}

our_settings() {
  local refresh=${REFRESH_MS-1000} checkpoint=${CHECKPOINT_MS-5000} scheduler=${SCHEDULER:-adaptive}
  cat <<EOF
jobmanager.rpc.address: 127.0.0.1
jobmanager.rpc.port: $job_port
jobmanager.bind-host: 127.0.0.1
jobmanager.memory.process.size: ${JM_MEM:-900m}
blob.server.port: $blob_port
rest.address: 127.0.0.1
rest.bind-address: 127.0.0.1
rest.port: $rest_port
rest.bind-port: $rest_port
taskmanager.bind-host: 127.0.0.1
taskmanager.host: 127.0.0.1
taskmanager.numberOfTaskSlots: ${SLOTS:-8}
taskmanager.memory.process.size: ${TM_MEM:-1200m}
taskmanager.memory.managed.size: 16m
taskmanager.memory.network.min: 128m
taskmanager.memory.network.max: 128m
io.tmp.dirs: $RUN_DIR/tmp
web.tmpdir: $RUN_DIR/tmp
EOF
  # Our rates are a hundredth of production's. With buffers of the usual size they would hide the whole backlog.
  put taskmanager.memory.segment-size 4kb
  put execution.checkpointing.interval "${checkpoint:+${checkpoint}ms}"
  put metrics.fetcher.update-interval "$refresh"
  put web.refresh-interval "$refresh"
  if [ "$scheduler" = reactive ]; then
    put scheduler-mode reactive
  else
    put jobmanager.scheduler "$scheduler"
  fi
  settings_for_version
}

write_conf() {
  local name='config.yaml' process
  case $version in 1.18.*) name='flink-conf.yaml' ;; esac
  rm -rf "$conf" "$RUN_DIR/tmp" "$RUN_DIR"/*.out "$RUN_DIR"/*.log
  mkdir -p "$conf" "$RUN_DIR/checkpoints" "$RUN_DIR/tmp"
  # Flink refuses a key that occurs twice, so the last line of each key is taken here.
  { our_settings; cat ${EXTRA:+"$EXTRA"} < /dev/null; } | awk -F': ' '
    NF > 1 && !/^#/ { if (!($1 in value)) order[++count] = $1; value[$1] = substr($0, length($1) + 3) }
    END { for (i = 1; i <= count; i++) print order[i] ": " value[order[i]] }' > "$conf/$name"
  for process in jm tm; do
    cat > "$conf/log4j-$process.properties" <<'EOF'
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = File
appender.file.name = File
appender.file.type = File
appender.file.fileName = ${sys:log.file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
EOF
  done
}

launch() { # NAME JAVA_ARGUMENTS...   leaves NAME.pid, NAME.log and NAME.out
  local name=$1 class_path="$flink/lib/*"
  shift
  if [ -n "${JOB_ON_CLASS_PATH:-}" ]; then class_path="$class_path:$JOB_ON_CLASS_PATH"; fi
  FLINK_CONF_DIR=$conf FLINK_LIB_DIR=$flink/lib FLINK_PLUGINS_DIR=$flink/plugins \
    nohup nice java "${lean[@]}" "${opens[@]}" -Dlog.file="$RUN_DIR/$name.log" -Djava.io.tmpdir="$RUN_DIR/tmp" \
    -cp "$class_path" "$@" > "$RUN_DIR/$name.out" 2>&1 < /dev/null &
  # Whoever removed the folder meanwhile has ended all that it knew of.
  if ! echo $! > "$RUN_DIR/$name.pid" || [ ! -e "$RUN_DIR/settings" ]; then
    kill -KILL $!
    die "$RUN_DIR was removed during the start"
  fi
}

launch_jm() { # JOB_ARGUMENTS...
  local main=org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint job=()
  if [ -e "$RUN_DIR/application" ]; then
    main=org.apache.flink.container.entrypoint.StandaloneApplicationClusterEntryPoint
    job=(--job-classname "${JOB_CLASS:-io.weir.jobs.WordCountJob}" "$@")
    JOB_ON_CLASS_PATH=$(job_jar)
  fi
  launch jm -Xms64m -Xmx448m -XX:MaxMetaspaceSize=256m -Dlog4j.configurationFile="$conf/log4j-jm.properties" \
    "$main" --configDir "$conf" -D jobmanager.memory.jvm-metaspace.size=256m "${job[@]}"
}

launch_tm() { # NAME
  local flags pools
  if [ ! -s "$conf/tm.params" ]; then
    java "${lean[@]}" -cp "$flink/lib/*" "$here/TmParams.java" "$conf" > "$conf/tm.params" 2> "$RUN_DIR/tm-params.err" \
      || die "the TaskManager's memory could not be computed, see $RUN_DIR/tm-params.err"
  fi
  read -r -a flags <<< "$(grep -m1 '^-X' "$conf/tm.params")"
  read -r -a pools <<< "$(grep -m1 '^-D' "$conf/tm.params")"
  launch "$1" "${flags[@]}" -Dlog4j.configurationFile="$conf/log4j-tm.properties" \
    org.apache.flink.runtime.taskexecutor.TaskManagerRunner --configDir "$conf" "${pools[@]}" \
    -D "taskmanager.resource-id=$1"
}

job_jar() { if [ -n "${JOB_JAR:-}" ]; then echo "$JOB_JAR"; else "$here/build-job.sh" "$version"; fi; }

# A process id may have been given to someone else since: ours has this folder in its command line.
is_alive() { # PID
  tr '\0' ' ' 2>/dev/null < "/proc/$1/cmdline" | grep -qF "$conf"
}

end() { # SIGNAL NAME...   and KILL after 5 s
  local signal=$1 name pid i
  shift
  for name in "$@"; do
    pid=$(cat "$RUN_DIR/$name.pid" 2>/dev/null) || continue
    if is_alive "$pid"; then kill "-$signal" "$pid" 2>/dev/null || true; fi
  done
  for name in "$@"; do
    pid=$(cat "$RUN_DIR/$name.pid" 2>/dev/null) || continue
    for ((i = 0; i < 50; i++)); do is_alive "$pid" || break; sleep 0.1; done
    if is_alive "$pid"; then kill -KILL "$pid" 2>/dev/null || true; fi
    while is_alive "$pid"; do sleep 0.05; done
    rm -f "$RUN_DIR/$name.pid"
  done
}

names() { # PREFIX   of processes that were started
  local file
  for file in "$RUN_DIR/$1"*.pid; do
    if [ -e "$file" ]; then basename "$file" .pid; fi
  done
}

stop_all() {
  local all
  mapfile -t all < <(names tm; names jm)
  end TERM "${all[@]}"
}

# Names are not used twice: Flink tells TaskManagers apart by them.
next_tm() { local n=1; while [ -e "$RUN_DIR/tm$n.out" ]; do n=$((n + 1)); done; echo "tm$n"; }

wait_for_slots() { # COUNT
  local wanted=$1 seen=0 deadline=$((SECONDS + ${START_SECONDS:-90})) name
  while [ "$SECONDS" -lt "$deadline" ]; do
    seen=$(curl -s -m 5 "http://127.0.0.1:$rest_port/overview" | sed -n 's/.*"slots-total":\([0-9]*\).*/\1/p') || true
    if [ "${seen:-0}" -ge "$wanted" ]; then return 0; fi
    for name in $(names tm) $(names jm); do
      # Not is_alive: a child of ours is not known by its command line before that is Java's.
      if kill -0 "$(cat "$RUN_DIR/$name.pid")" 2> /dev/null; then continue; fi
      echo "$name ended during the start, see $RUN_DIR/$name.log and $name.out" >&2
      return 1
    done
    sleep 0.2
  done
  echo "${seen:-0} of $wanted slots after ${START_SECONDS:-90} s, see $RUN_DIR/*.log" >&2
  return 1
}

start() {
  local slots=${SLOTS:-8} tms=${TMS:-2} i
  if [ -n "$(names jm)$(names tm)" ]; then die "a cluster was started in $RUN_DIR already; stop it first"; fi
  save_settings
  load_settings
  write_conf
  rm -f "$RUN_DIR/application"
  if [ "${SCHEDULER:-}" = reactive ] || [ "${MODE:-session}" = application ]; then
    compgen -G "$flink/lib/flink-container-*.jar" > /dev/null \
      || die "Flink $version has no application mode here; use 2.1 or later"
    touch "$RUN_DIR/application"
  fi
  trap stop_all EXIT
  trap 'exit 130' INT TERM HUP
  launch_jm "$@"
  for ((i = 1; i <= tms; i++)); do launch_tm "tm$i"; done
  wait_for_slots $((slots * tms)) || die "Flink $version did not start"
  trap - EXIT
  echo "http://127.0.0.1:$rest_port"
}

command=${1:-}
if [ $# -gt 0 ]; then shift; fi
case $command in
  start) start "$@" ;;
  submit)
    load_settings
    jar=$(job_jar)
    python3 "$here/submit.py" "http://127.0.0.1:$rest_port" "$jar" "${JOB_CLASS:-io.weir.jobs.WordCountJob}" "$@"
    ;;
  add-tm) load_settings; name=$(next_tm); launch_tm "$name"; echo "$name" ;;
  kill-tm) load_settings; end "${2:-TERM}" "${1:?which TaskManager}" ;;
  kill-jm) load_settings; end "${1:-TERM}" jm ;;
  start-jm) load_settings; launch_jm "$@" ;;
  url) load_settings; echo "http://127.0.0.1:$rest_port" ;;
  status)
    for name in $(names jm) $(names tm); do
      pid=$(cat "$RUN_DIR/$name.pid")
      if is_alive "$pid"; then echo "$name $pid running"; else echo "$name $pid gone"; fi
    done
    ;;
  stop) stop_all ;;
  *) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 64 ;;
esac
