#!/usr/bin/env bash
# One target under libFuzzer, from the corpus of the repository; what is new and worth keeping goes beside the build.
#   libfuzzer.sh <build> <seconds of a share> <target> <shares>
set -euo pipefail
build=$1 seconds=$(($2 * $4)) target=$3
seeds=$(dirname "$0")/corpus/$target
log=$build/fuzz_$target.log
words=(-max_total_time="$seconds" -timeout=60 -max_len=4096 -rss_limit_mb=4096 -print_final_stats=1
       -artifact_prefix="$build/found_${target}_")
[ ! -e "${seeds%/*/*}/$target.dict" ] || words+=(-dict="${seeds%/*/*}/$target.dict")
mkdir -p "$build/corpus/$target"
if ! "$build/fuzz/fuzz_$target" "${words[@]}" "$build/corpus/$target" "$seeds" >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "$target: a failure; the whole is in $log, the case in $build/found_${target}_*" >&2
    exit 1
fi
# the counts of the target come last, behind libFuzzer's own
echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") cases in $seconds s: $(
    grep -E '^ +[0-9]+ [a-z]' "$log" | sed 's/^ *//' | paste -sd, | sed 's/,/, /g')"
