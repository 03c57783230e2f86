#!/usr/bin/env bash
# Once a release: fuzzing on one core, random programs under ThreadSanitizer on the other, in turns of five minutes; at
# last calls and programs of the ordinary build, which must not grow.
#   soak.sh <build: fuzz> <build: tsan> <build: release> <minutes>
set -euo pipefail
fuzz=$1 tsan=$2 release=$3 minutes=$4
here=$(dirname "$(realpath "$0")")
targets=(call runtime call views call words call npy runtime gemm)
schedules=("" now late random:7)
seconds=300
log=$fuzz/soak.log
: >"$log"

fuzzed() { "$here/../fuzz/libfuzzer.sh" "$fuzz" $seconds "$1" 1 | tee -a "$log"; }
seeded() {  # build target schedule: random cases of it for a turn; one line in the log
    local seed=$RANDOM said
    said=$(GRADUS_SCHEDULE=$3 "$1/fuzz/fuzz_$2" --seconds $seconds --seed "$seed" 2>&1) \
        || { echo "${1##*/} $2 --seed $seed${3:+, GRADUS_SCHEDULE=$3}: $said" | tee -a "$log"; return 1; }
    echo "${1##*/} $2${3:+ ($3)}: $(grep 'seeded cases (' <<<"$said")" | tee -a "$log"
}

for ((i = 0; i < minutes * 60 / seconds - 1; ++i)); do
    fuzzed "${targets[i % ${#targets[@]}]}" &
    seeded "$tsan" runtime "${schedules[i % ${#schedules[@]}]}"
    wait $!
done
seeded "$release" call "" &
seeded "$release" runtime ""
wait $!

awk -F '[: ]+' '
    / cases in /   { cases[$1] += $2 }
    /^tsan/        { for (k = 1; k < NF; ++k) if ($(k + 1) == "seeded") programs += $k }
    /^release/     { for (k = 1; k <= NF; ++k) if ($k == "MiB") warm = $(k - 1); if ($(NF - 3) > warm + 1) grown = $0 }
    END { for (target in cases) printf "%s: %d cases; ", target, cases[target]
          printf "%d programs under ThreadSanitizer\n", programs
          if (grown) { print "memory grew: " grown; exit 1 } }' "$log"
