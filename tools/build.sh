#!/bin/bash
# Configures and builds one preset into build/PRESET. One build of a preset at a time in a tree.
#
# Shown are what the compilers say, and how far the build is; all that is said stands in build/PRESET/build.log.
#
# Usage: tools/build.sh PRESET [TARGET...]      GS_BUILD_JOBS=N in the environment: N compilers at once
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/progress.sh

preset=$1
shift
begin=$SECONDS
folder=build/$preset
log=$folder/build.log
step='waiting for another build' done_count=0 all_count=0 step_begun=$SECONDS done_at=()

readonly WINDOW=30  # steps whose pace is that of the rest: C is compiled first, and faster than what follows

show_step() {
  local window=$((done_count < WINDOW ? done_count : WINDOW))
  if ((all_count == 0)); then
    progress "$preset: $step, $((SECONDS - step_begun)) s"
  else
    progress "$preset: $step [$done_count/$all_count] $((100 * done_count / all_count)) %$(
      time_left "$window" "$((window + all_count - done_count))" \
        "$((SECONDS - ${done_at[done_count - window]:-$step_begun}))")"
  fi
}

# Lines of CMake and ninja that say how far they are, and those of others, which are shown.
take_line() {
  printf '%s\n' "$1" >>"$log"
  if [[ $1 =~ ^\[([0-9]+)/([0-9]+)\]\  ]]; then
    done_count=${BASH_REMATCH[1]} all_count=${BASH_REMATCH[2]}
    done_at[done_count]=$SECONDS
    show_step
  elif [[ $1 != "-- "* && $1 != "ninja: no work to do." && -n $1 ]]; then
    progress_clear
    printf '%s\n' "$1"
  fi
}

# play STEP COMMAND...: its exit status
play() {
  step=$1 done_count=0 all_count=0 step_begun=$SECONDS done_at=()
  shift
  "$@" 2>&1 9>&- | { each_line take_line show_step; progress_clear; }
}

mkdir -p "$folder"
progress_begin build 2
exec 9>"build/.lock-$preset"
flock -n 9 || { printf 'build: waiting for another build of %s\n' "$preset"; until flock -w 1 9; do show_step; done; }
: >"$log"

# CMake itself does not notice that a preset or a toolchain file changed, nor that what tests or a benchmark need was
# installed.
stamp=$(cat CMakePresets.json cmake/toolchain_*.cmake | sha256sum)
[[ -e /usr/src/googletest ]] || stamp+=" without tests"
[[ ! -e /usr/include/postgresql/libpq-fe.h ]] || stamp+=" with libpq"
if [[ ! -f $folder/build.ninja || $(cat "$folder/.configured" 2>/dev/null) != "$stamp" ]]; then
  play configuring cmake --fresh --preset "$preset"
  printf '%s\n' "$stamp" >"$folder/.configured"
fi
play compiling env NINJA_STATUS='[%f/%t] ' \
  cmake --build --preset "$preset" --parallel "${GS_BUILD_JOBS:-$(nproc)}" ${1:+--target "$@"}
printf 'result: preset=%s seconds=%d\n' "$preset" "$((SECONDS - begin))"
