#!/usr/bin/env bash
# Shows that each oracle can fail: with its mistake planted (GRADUS_FUZZ_PLANT), the target ends and names the oracle.
#   planted.sh <folder of the targets>
set -euo pipefail
targets=$(realpath "${1:?usage: planted.sh <folder of the targets>}")
corpus=$(dirname "$(realpath "$0")")/corpus
wrong=0

expect() {  # target oracle…
    local target=$1 oracle said
    shift
    for oracle; do
        said=$(GRADUS_FUZZ_PLANT=$oracle "$targets/fuzz_$target" --corpus "$corpus/$target" --cases 2000 \
               --patience "${patience:-60}" 2>&1 >/dev/null) || true
        [[ $said == *"fuzz: oracle $oracle"* ]] && continue
        echo "$target: $oracle is planted, and this is said: $said"
        wrong=1
    done
}

expect call promise bits written leak code message outputs golden accept outside
expect views extent empty contiguous overlaps_itself overlaps crash
expect gemm exact
expect npy "round trip" refusal
expect runtime code wait order memory query fork
expect words refusal code json
patience=1 expect views hang
exit $wrong
