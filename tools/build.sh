#!/bin/bash
# Configures and builds one preset into build/PRESET. One build of a preset at a time in a tree.
#
# Usage: tools/build.sh PRESET [TARGET...]      GS_BUILD_JOBS=N in the environment: N compilers at once
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=$1
shift
begin=$SECONDS
mkdir -p build
exec 9>"build/.lock-$preset"
flock -n 9 || { printf 'build: waiting for another build of %s\n' "$preset"; flock 9; }

# CMake itself does not notice that a preset or a toolchain file changed.
stamp=$(cat CMakePresets.json cmake/toolchain_*.cmake | sha256sum)
if [[ ! -f build/$preset/build.ninja || $(cat "build/$preset/.configured" 2>/dev/null) != "$stamp" ]]; then
  cmake --fresh --preset "$preset"
  printf '%s\n' "$stamp" >"build/$preset/.configured"
fi
cmake --build --preset "$preset" --parallel "${GS_BUILD_JOBS:-$(nproc)}" ${1:+--target "$@"}
printf 'result: preset=%s seconds=%d\n' "$preset" "$((SECONDS - begin))"
