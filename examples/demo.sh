#!/usr/bin/env bash
# Shows an installed library at work in about a minute: builds examples against it as a user would, runs them, tries
# operators from the shell, and holds them against the limit of this machine and against golden.
#   demo.sh <prefix> <folder for report pages>
set -euo pipefail

usage="usage: demo.sh <prefix> <folder for report pages>"
prefix=$(cd "${1:?$usage}" && pwd)
mkdir -p "${2:?$usage}"
pages=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT

if [ -t 1 ]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; else bold='' dim='' plain=''; fi
heading() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
show() {  # the command line, as one could type it, then the command
    local line="$*"
    line=${line//"$prefix"/\$PREFIX} line=${line//"$here/"/}
    line=${line//"-o $programs/"/-o } line=${line//"$programs/"/./} line=${line//"$pages/"/}
    printf '%s$ %s%s\n' "$dim" "$line" "$plain"
    "$@"
}

cann=("-I$prefix/include" "-L$prefix/lib64" -lascendcl -lnnopbase -lopapi)

heading "1. The gradient of SwiGLU through CANN's interface, checked by finite differences"
show g++ -std=c++11 "$here/swi_glu.cpp" "${cann[@]}" -o "$programs/swi_glu"
show . "$prefix/set_env.sh"
show "$programs/swi_glu"

heading "2. Any operator by its name"
show gcc -std=c11 "$here/by_name.c" "${cann[@]}" -o "$programs/by_name"
show "$programs/by_name"

heading "3. The library opened at run time, under CANN's names"
show gcc -std=c11 "$here/dlopen.c" "-I$prefix/include" -ldl -lm -o "$programs/dlopen"
show "$programs/dlopen"

heading "4. Any operator from the shell: the LM head's gradient, selected attention's"
show gradus run FusedLinearCrossEntropyLossGrad BT=256 V=16032 H=512 dtype=bf16
show gradus run NsaSelectedAttentionGrad T1=512 T2=512 N1=16 N2=1 D=192 Dv=128 selectedBlockSize=32 \
    selectedBlockCount=8 dtype=bf16

heading "5. Is a result right: a case made, a fault planted, and the verdict"
head=(FusedLinearCrossEntropyLossGrad BT=128 V=512 H=256 dtype=bf16)
show gradus run "${head[@]}" --case "$programs/case" inputGradOut="$programs/got.npy"
show gradus diff --case "$programs/case" inputGradOut="$programs/got.npy"
show env GRADUS_MISTAKE="without a part of the vocabulary in inputGrad [496,512)" \
    gradus run "${head[@]}" --precision golden inputGradOut="$programs/wrong.npy"
show gradus diff --case "$programs/case" inputGradOut="$programs/wrong.npy" --html "$pages/diff.html" ||
    printf 'exit code %s\n' $?

heading "6. How fast: LLaMA-70B, one of eight parts, beside a stream of the same bytes"
show gradus bench --quick --shape 2 --dtype bf16,f32 SwiGlu SwiGluGrad --html "$pages/bench.html"

heading "7. The LM head with its vocabulary over three processes, and three all-reduces"
show g++ -std=c++11 "$here/vocab_parallel.cpp" "${cann[@]}" -lhccl -pthread -o "$programs/vocab_parallel"
show "$programs/vocab_parallel" processes 3

heading "8. Everything: fast against golden on this machine"
show gradus check

heading "Report pages"
printf '%s\n' "$pages/diff.html" "$pages/bench.html"
