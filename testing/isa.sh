#!/usr/bin/env bash
# The suites of kernels with every instruction set of this CPU as the best one, and with the plain loops that stand in
# for those it may lack. What really ran is counted in the library's own log, launch by launch.
#   testing/isa.sh <build directory>
set -euo pipefail
build=${1:?usage: testing/isa.sh <build directory>}
log=$build/Testing/Temporary/LastTest.log
say() { printf '== isa: %s\n' "$*"; }

suites() {  # name, which suites, further variables of their environment
    local name=$1 which=$2 code=0
    shift 2
    say "$name"
    # of a failure everything but the launches
    env GRADUS_LOG=info "$@" ctest --test-dir "$build" -R "$which" --no-tests=error --output-on-failure -j "$(nproc)" \
        | grep -v '^gradus: ' || code=$?
    echo "$name:" >>"$build/isa.txt"
    sed -n 's/^gradus: .* path \(.*\) workspace .*/\1/p' "$log" | sort | uniq -c | sort -rn >>"$build/isa.txt"
    [ "$code" -eq 0 ] || failed+=("$name")
}

failed=()
: >"$build/isa.txt"
sets=$("$build/cli/gradus" info --json | python3 -c 'import json, sys; print(*json.load(sys.stdin)["instruction_sets"])')
for set in $sets; do
    suites "max_isa $set" '^(ops/[a-z_]*|gemm|simd|hccl_operators|hccl_head|cli_check)$' "GRADUS_MAX_ISA=$set"
done
for path in amx avx512_bf16; do suites "stand-in for $path" "^ops/[a-z_]*/as_$path\$"; done
say "launches by the unit that ran them"
cat "$build/isa.txt"
say "failed: ${failed[*]:-none}"
[ ${#failed[@]} -eq 0 ]
