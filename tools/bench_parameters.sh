#!/bin/bash
# What a run makes of a table when nothing is set but name, problem and size: its steps, its units, what it says of
# itself. The simulator's coordinator and clients; docs/algorithms.md tells the bars.
#
# Usage: ./run bench parameters [OPTION...]     gradstream-parameters --help has them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/build.sh dev gradstream-parameters | sed '/^result: /d'
exec build/dev/bench/gradstream-parameters "$@"
