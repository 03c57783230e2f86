#!/usr/bin/env bash
# Whether a second build, in another directory, by a user with another home, zone, umask and language, has the same
# bytes. diffoscope says what differs, where it is installed.
#   check_repro.sh <directory of packages> <directory for others>
set -euo pipefail
usage="usage: check_repro.sh <directory of packages> <directory for others>"
one=$(cd "${1:?$usage}" && pwd)
other=${2:?$usage}
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
(
    umask 0077
    # ccache would answer with the first build's objects
    env HOME="$home" TZ=Pacific/Kiritimati LC_ALL=C.UTF-8 LANGUAGE=de CCACHE_DISABLE=1 \
        "$(dirname "$0")/deb.sh" "$other"
)
other=$(cd "$other" && pwd)
differ=()
for file in "$one"/*.deb "$one"/*.dsc "$one"/*.tar.* "$one"/*.spdx.json; do
    cmp -s "$file" "$other/$(basename "$file")" || differ+=("$(basename "$file")")
done
for file in ${differ[@]+"${differ[@]}"}; do
    echo "check_repro: $file differs" >&2
    ! command -v diffoscope >/dev/null || diffoscope --text - --max-text-report-size 20000 "$one/$file" "$other/$file" || true
done
[ ${#differ[@]} -eq 0 ]
(cd "$one" && sha256sum ./*.deb ./*.spdx.json)
echo "check_repro: two builds, the same bytes"
