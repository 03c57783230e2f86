#!/usr/bin/env bash
# Every kind of page in a real browser: it must render without a word on the console, in light and dark, wide and narrow.
#   pages.sh <gradus> <directory for the pages and their pictures>
set -euo pipefail
gradus=${1:?usage: pages.sh <gradus> <directory>}
mkdir -p "${2:?usage: pages.sh <gradus> <directory>}"
gradus=$(realpath "$gradus")
cd "$2"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo "no Chromium here: the pages were not looked at" >&2
    exit 77
}
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT

open() { "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$profile" "$@"; }

look() {  # page, a word that must be there, the number of drawings
    local page=$1 word=$2 drawings=$3 dom
    dom=$(open --enable-logging=stderr --dump-dom "file://$PWD/$page.html" 2>"$page.log")
    if grep -q ':CONSOLE' "$page.log"; then
        echo "$page: the console is not empty" && grep ':CONSOLE' "$page.log" && return 1
    fi
    [ "$(grep -o '<svg' <<<"$dom" | wc -l)" -eq $((2 * drawings)) ] || { echo "$page: not $drawings drawings"; return 1; }
    grep -qF "$word" <<<"$dom" || { echo "$page: '$word' is missing"; return 1; }
    open --screenshot="$page.png" --window-size=1100,2100 "file://$PWD/$page.html" 2>/dev/null
    open --screenshot="$page-narrow.png" --window-size=500,2100 --blink-settings=preferredColorScheme=0 \
        "file://$PWD/$page.html" 2>/dev/null
    [ -s "$page.png" ] && [ -s "$page-narrow.png" ] || { echo "$page: no picture"; return 1; }
    echo "$page: $PWD/$page.png"
}

inputs=(x='randn[96,1024]:f32,seed=1' yGrad='randn[96,512]:f32,seed=2')
"$gradus" run SwiGluGrad "${inputs[@]}" out=fast.npy >/dev/null
"$gradus" run SwiGluGrad "${inputs[@]}" out=golden.npy --precision golden >/dev/null
python3 - <<'PYTHON'
import numpy as np
fast, golden = np.load("fast.npy"), np.load("golden.npy")
fast[40] *= -1
np.save("sign.npy", fast)
fast[40] *= -1
fast[:, -5:] = 0
fast[3, 77] = np.nan
np.save("tail.npy", fast)
golden.view(np.uint32)[...] &= 0xFFFF0000
np.save("truncated.npy", golden)
PYTHON

page() {  # name, exit code: a page of diff
    local code=0
    "$gradus" diff --op SwiGluGrad "out=$1.npy" "${inputs[@]}" --html "$1.html" >/dev/null || code=$?
    [ "$code" -eq "$2" ] || { echo "$1: exit code $code, expected $2"; return 1; }
}
page golden 0
look golden 'equal bit by bit' 0
page fast 0
look fast kept 2
page sign 1
look sign 'has the opposite sign' 2
page tail 1
look tail 'is NaN where a number is expected' 2
page truncated 1
look truncated 'truncated to bf16' 2
"$gradus" trace -o trace.json -o trace.html -- "$gradus" run SwiGluGrad "${inputs[@]}" out=traced.npy >/dev/null 2>&1
look trace aclnnSwiGluGrad 0
planted=$(dirname "$gradus")/../tests/sanitize/sanitize_planted  # two streams, and no event between them
"$gradus" sanitize -o sanitize.html -- "$planted" no_event_between 2>/dev/null && exit 1
look sanitize 'nothing orders the two' 1
GRADUS_SANITIZE=on "$gradus" trace -o missing.json -o missing.html -- "$planted" no_event_between 2>/dev/null
look missing 'aclrtStreamWaitEvent(stream 2, e)' 0
"$gradus" bench SwiGluGrad --quick --shape 1 --dtype bf16 --html bench.html >/dev/null
look bench SwiGluGrad 1
