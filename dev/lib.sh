# lib.sh   what the scripts that fetch and start real servers have in common. To be sourced.

# Free ports, below the range from which the system draws client ports, so that nothing grabs them between look and bind.
free_ports() { # COUNT
  python3 - "$1" <<'PY'
import random, socket, sys
held = []
while len(held) < int(sys.argv[1]):
    s = socket.socket()
    try:
        s.bind(("127.0.0.1", random.randrange(20000, 32000)))
        held.append(s)
    except OSError:
        s.close()
print(*(s.getsockname()[1] for s in held))
PY
}

# Puts the jars that POM names into the cache, as CACHE/FOLDER/lib, and prints the folder. Needs mvn and flock.
#
# A folder counts as complete only when its marker, written last, names the POM it was made from; anything else is fetched again.
# All fetches wait for one another, since Maven's local repository does not like company. A download that fails, or hangs, is named
# and tried again.
fetch_jars() { # NAME FOLDER POM [OPTION OF MVN...]
  local name=$1 folder=$2 pom=$3
  shift 3
  local cache=${WEIR_CACHE:-$HOME/.cache/weir}
  local dir=$cache/$folder log=$cache/fetch-$folder.log want attempt from
  want=$(sha256sum < "$pom" | cut -c1-16)
  is_complete() { [ "$(cat "$dir/complete" 2> /dev/null)" = "$want" ]; }
  mkdir -p "$cache"
  exec 9> "$cache/fetch.lock"
  is_complete || flock 9
  if ! is_complete; then
    rm -rf "$dir"
    mkdir -p "$dir/lib"
    for attempt in 1 2 3; do
      from=$SECONDS
      if timeout 600 mvn -B -ntp -q -U -f "$pom" -Dstyle.color=never "$@" \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$dir/lib" > "$log" 2>&1 9>&-
      then break; fi
      echo "fetch.sh: $name: attempt $attempt of 3 failed after $((SECONDS - from)) s:" >&2
      grep -m3 'ERROR' "$log" >&2 || tail -n 3 "$log" >&2
      if [ "$attempt" = 3 ]; then
        echo "fetch.sh: $name could not be fetched; the whole output is in $log" >&2
        return 1
      fi
      sleep $((attempt * 3))
    done
    echo "$want" > "$dir/complete"
  fi
  echo "$dir"
}
