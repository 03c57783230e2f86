#!/usr/bin/env bash
# Whether programs built against an earlier library still work with this one: its functions and types, read from debug
# information, beside a description that is kept in the repository. Additions are no difference.
#   check_abi.sh <directory of packages> <the description> <directory for what is found now>
set -euo pipefail
usage="usage: check_abi.sh <directory of packages> <the description> <directory for what is found now>"
packages=${1:?$usage} description=${2:?$usage} now=${3:?$usage}
headers=$(cd "$(dirname "$0")/.." && pwd)/include
rm -rf "$now"
mkdir -p "$now/files"
for deb in "$packages"/libgradus0_*.deb "$packages"/libgradus0-dbgsym_*.deb; do dpkg-deb -x "$deb" "$now/files"; done
library=$(readlink -f "$now"/files/usr/lib/*/libgradus.so.0)
abidw --exported-interfaces-only --headers-dir "$headers" --drop-private-types --drop-undefined-syms \
    --no-architecture --no-corpus-path --no-comp-dir-path --no-elf-needed --no-show-locs --type-id-style hash \
    --debug-info-dir "$now/files/usr/lib/debug" --out-file "$now/libgradus.xml" "$library"
grep -q '<function-decl' "$now/libgradus.xml" || { echo "check_abi: no debug information" >&2; exit 1; }

# exit code: 1 error, 2 usage, 4 change, 8 incompatible change
code=0
abidiff --no-added-syms "$description" "$now/libgradus.xml" || code=$?
if [ $code -ne 0 ]; then
    echo "check_abi: the interface differs (abidiff: $code); if that is meant: cp $now/libgradus.xml $description" >&2
    exit 1
fi
echo "check_abi: compatible, $(grep -c 'elf-symbol name' "$now/libgradus.xml") symbols of $(grep -c 'elf-symbol name' "$description")"
