#!/usr/bin/env bash
# test.sh all|fast|versions   runs the tests and ends with a line that sums all runners: "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.."

mode=${1:-all}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0
failed=0
started=$SECONDS

# stage NAME COMMAND...   runs a command that is one test by itself.
stage() {
  local name=$1 from=$SECONDS
  shift
  if "$@"; then
    passed=$((passed + 1))
    echo "--- $name: ok ($((SECONDS - from)) s)"
  else
    failed=$((failed + 1))
    echo "--- $name: FAILED ($((SECONDS - from)) s): $*"
  fi
}

# cargo_tests NAME ARGS...   runs tests through cargo and adds up what its runners say.
cargo_tests() {
  local name=$1 from=$SECONDS status
  shift
  cargo test --no-fail-fast "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  local ok bad
  ok=$(awk '/^test result:/ {sum += $4} END {print sum + 0}' "$log")
  bad=$(awk '/^test result:/ {sum += $6} END {print sum + 0}' "$log")
  # A build that fails runs no test at all, and is a failure.
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
  passed=$((passed + ok))
  failed=$((failed + bad))
  echo "--- $name: $ok passed, $bad failed ($((SECONDS - from)) s)"
}

# One set of features everywhere, so that nothing is compiled twice.
features=(--features weir/pravega)

static_checks() {
  stage "formatting" cargo fmt --all --check
  stage "lints" cargo clippy --quiet --workspace --all-targets "${features[@]}" -- -D warnings
  stage "documentation" env RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps "${features[@]}"
  stage "pure crates" dev/pure.sh
}

# Properties are tried on other cases with every commit, and on the same ones however often a commit is tested.
commit=$(git rev-parse --verify --quiet HEAD || echo 0)
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-$((16#${commit:0:12}))}

case $mode in
  fast)
    static_checks
    cargo_tests "tests" --workspace --exclude weir-tests "${features[@]}"
    ;;
  all)
    static_checks
    # In one go, those on real servers last: a choice of crates is another set of features, for which much is compiled again.
    cargo_tests "tests" --workspace "${features[@]}"
    stage "licences, bans, sources" dev/deny.sh licenses bans sources
    ;;
  versions)
    export WEIR_FLINK_VERSIONS="1.20.3 2.0.1"
    cargo_tests "further Flink releases" --package weir-tests --test flink_contract
    ;;
  *)
    sed -n 2p "$0" >&2
    exit 64
    ;;
esac

echo "took $((SECONDS - started)) s"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
