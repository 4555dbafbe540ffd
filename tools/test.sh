#!/bin/bash
# Builds and runs all tests; with "quick", the unit tests of devices and server for this machine.
#
# Usage: ./run test [quick]
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C.UTF-8 CTEST_OUTPUT_ON_FAILURE=1

# What the thread sanitizer watches: everything that has threads or talks to a process that has.
readonly THREADED="store_thread_test sqlite_database_test statement_test fleet_rows_test fleet_tables_test \
run_tables_test journal_table_test database_copy_test database_lock_test server_test keyring_test \
fleet_follower_test fleet_alarm_test publisher_test watch_feed_test listener_test \
listener_accept_test session_test http_test io_thread_test sample_push_test history_keeper_test"

# A new stage is one line. Everything that a stage runs is a test of ctest, so that ctest's closing lines stand in the
# output.
# name | preset to build | its targets (all) | further options of ctest
# The slow tests of processes and of the tools run once, without sanitizers.
# Two tests that compute run at a time, and others that wait beside them: tests/CMakeLists.txt has the shares.
STAGES=(
  "native|dev||"
  "address|asan||-LE rules|slow|digest"
  "threads|tsan|$THREADED gradstream gradstream-client|-R ^(${THREADED// /|}|commands_[12]|kill)\$"
)
case ${*:-all} in
  all) ;;
  quick) STAGES=("quick|quick|gs_quick_tests|-L ^quick\$") ;;
  *)
    printf "test: error: unknown choice '%s' (known: quick)\n" "$*" >&2
    printf 'result: verb=test error=usage\n'
    exit 2
    ;;
esac
readonly STAGES SHARES=8

begin=$SECONDS
tests=0 failed=0 broken=0 times=

# Runs ctest in one build tree and adds its closing line to the sums.
run_stage() {
  local name=$1 preset=$2 targets log=build/$2/ctest-$1.log summary stage_failed stage_tests start=$SECONDS built
  read -ra targets <<<"$3"
  shift 3
  if ! tools/build.sh "$preset" "${targets[@]}" | sed -u '/^result: /d'; then
    printf 'test: stage %s: the build of %s failed\n' "$name" "$preset" >&2
    broken=$((broken + 1))
    return
  fi
  built=$SECONDS
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j"$SHARES" "$@" 2>&1 8>&- | tee "$log"
  times+="stage $name: build_s=$((built - start)) tests_s=$((SECONDS - built))"$'\n'
  summary=$(sed -n 's/^[0-9]*% tests passed, \([0-9]*\) tests failed out of \([0-9]*\).*/\1 \2/p' "$log")
  if [[ -z $summary ]]; then
    printf 'test: stage %s: ctest ran nothing in build/%s\n' "$name" "$preset" >&2
    broken=$((broken + 1))
    return
  fi
  read -r stage_failed stage_tests <<<"$summary"
  tests=$((tests + stage_tests))
  failed=$((failed + stage_failed))
}

mkdir -p build
exec 8>build/.lock-test
flock -n 8 || { printf 'test: waiting for another test run in this tree\n'; flock 8; }

for stage in "${STAGES[@]}"; do
  IFS='|' read -r name preset targets options <<<"$stage"
  printf '\n==== stage %s (preset %s) ====\n' "$name" "$preset"
  read -ra options <<<"$options"
  run_stage "$name" "$preset" "$targets" "${options[@]}"
done

# A stage that could not be built or that ran nothing counts as one failure.
failed=$((failed + broken))
printf '\n%s' "$times"
printf 'result: tests=%d failed=%d seconds=%d\n' "$((tests + broken))" "$failed" "$((SECONDS - begin))"
((failed == 0))
