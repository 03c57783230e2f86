#!/usr/bin/env bash
# Builds Debian packages of the working tree, by debhelper, with a list of what they are made of (SPDX).
#   deb.sh <directory for the results>
# The sources are copied there first: debhelper works inside a tree, and puts its packages beside it.
set -euo pipefail
into=${1:?usage: deb.sh <directory for the results>}
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
version=$(sed -n 's/^project(gradus VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
packaged=$(dpkg-parsechangelog -S Version)
[ "$version" = "$packaged" ] || { echo "deb.sh: CMakeLists.txt has $version, debian/changelog $packaged" >&2; exit 1; }

# What git knows or would add, as it is now.
sources() {
    git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
        [ ! -e "$file" ] && [ ! -L "$file" ] || printf '%s\0' "$file"
    done
}
state=$(sources | xargs -0 sha256sum | sha256sum)
if [ "$(cat "$into/.state" 2>/dev/null)" = "$state" ]; then
    echo "deb.sh: $into has the packages of these sources" >&2
    exit
fi

rm -rf "$into"
mkdir -p "$into"
into=$(cd "$into" && pwd)
( # folders' modes are in the archive of the sources
    umask 0022
    mkdir "$into/gradus-$version"
    sources | tar --create --null --files-from=- | tar --extract --directory "$into/gradus-$version"
)

cd "$into/gradus-$version"
# All times in packages are that of the changelog's newest entry.
SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -S Timestamp)
export SOURCE_DATE_EPOCH
dpkg-buildpackage --no-sign --build=full >"$into/build.log" 2>&1 || { tail -40 "$into/build.log" >&2; exit 1; }
cd "$into"
rm -rf "gradus-$version"
"$root/packaging/spdx.py" . >"gradus_$version.spdx.json"
echo "$state" >.state
