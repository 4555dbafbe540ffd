#!/bin/bash
# Retractions, projections and transports of the runtime against Eigen (float) and LAPACK (single), as ratios.
# An argument, such as "oblique", chooses the rows whose names hold it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/build.sh dev manifold_bench | sed '/^result: /d'
build/dev/bench/manifold_bench "$@"
