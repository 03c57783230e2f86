#!/usr/bin/env bash
# Shows an installed library at work in less than a minute: builds the examples against it as a user would, runs them,
# and holds one operator against the limit of this machine.
#   demo.sh <prefix> [<gradus_bench>]
set -euo pipefail

prefix=$(cd "${1:?usage: demo.sh <prefix> [<gradus_bench>]}" && pwd)
bench=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT

if [ -t 1 ]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; else bold='' dim='' plain=''; fi
heading() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
show() {  # the command line, as one could type it, then the command
    local line="$*"
    line=${line//"$prefix"/\$PREFIX} line=${line//"$here/"/}
    line=${line//"-o $programs/"/-o } line=${line//"$programs/"/./}
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

if [ -n "$bench" ]; then
    heading "4. How fast: LLaMA-70B, one of eight parts, beside a stream of the same bytes"
    "$bench" --quick --shape 2 --dtype bf16,f32 SwiGlu SwiGluGrad
fi
