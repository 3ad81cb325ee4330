#!/usr/bin/env bash
# rate.sh FILE RATE|end   changes the offered load of a running job in half a second, prints that moment (epoch ms).
#
# The half second matters: the source produces nothing beyond its last look at the file, but a line dated in the past
# would come too late for what is already out, and the total would no longer be the exact integral.
set -euo pipefail

file=${1:?usage: rate.sh FILE RATE|end}
rate=${2:?usage: rate.sh FILE RATE|end}
at=$(($(date +%s%3N) + 500))
echo "$at $rate" >> "$file"
echo "$at"
