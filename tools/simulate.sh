#!/bin/bash
# Simulates a fleet, the deployed coordinator and client code itself, in one thread from one seed.
#
# Usage: tools/simulate.sh [OPTION...]     options and exit status: gradstream-sim --help
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/build.sh dev gradstream-sim | sed '/^result: /d'
exec build/dev/sim/gradstream-sim "$@"
