#!/usr/bin/env bash
# Looks at packages as strangers do: by lintian, and by installing them on a bare Debian, where the tests of
# debian/tests run as autopkgtest would run them. Needs root, for debootstrap and chroot.
#   check_package.sh <directory of packages> <directory for the bare Debian, kept for the next time>
set -euo pipefail
usage="usage: check_package.sh <directory of packages> <directory for the bare Debian>"
packages=$(cd "${1:?$usage}" && pwd)
base=${2:?$usage}
root=$(cd "$(dirname "$0")/.." && pwd)
say() { printf -- '-- %s\n' "$*"; }
fail() { echo "check_package: $*" >&2; exit 1; }

say "lintian"
lintian --allow-root -EviIL +pedantic --fail-on error,warning "$packages"/gradus_*.changes

say "the list of what they are made of"
python3 - "$packages"/gradus_*.spdx.json <<'END' || fail "the SPDX file is not whole"
import json, sys
document = json.load(open(sys.argv[1]))
ids = {package['SPDXID'] for package in document['packages']} | {'SPDXRef-DOCUMENT'}
assert document['spdxVersion'] == 'SPDX-2.3' and len(ids) == len(document['packages']) + 1
for r in document['relationships']:
    assert {r['spdxElementId'], r['relatedSpdxElement']} <= ids, r
named = {package['name'] for package in document['packages']}
assert {'gradus', 'libgradus0', 'libgradus-dev', 'libhwy1', 'libgloo0', 'libstdc++6', 'libc6'} <= named, named
END

[ "$(id -u)" -eq 0 ] || fail "a bare Debian needs root"
if [ ! -e "$base/.made" ]; then
    say "making a bare Debian, once"
    rm -rf --one-file-system "$base"
    mirror=$(sed -n -e 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -1)
    [ -n "$mirror" ] || mirror=$(awk '$1 == "deb" { print $2; exit }' /etc/apt/sources.list)
    . /etc/os-release
    debootstrap --variant=minbase "$VERSION_CODENAME" "$base" "$mirror" >"$base.log" 2>&1 \
        || { tail -5 "$base.log" >&2; fail "debootstrap"; }
    touch "$base/.made"
fi

bare=$(mktemp -d "$base.XXXXXX")
trap 'rm -rf --one-file-system "$bare"' EXIT
cp -a "$base/." "$bare/"
cp /etc/resolv.conf /etc/hosts "$bare/etc/"
mkdir -p "$bare/packages" "$bare/source/debian"
cp "$packages"/*.deb "$bare/packages/"
cp -r "$root/examples" "$bare/source/"
cp -r "$root/debian/tests" "$bare/source/debian/"
for proxy in http_proxy https_proxy; do
    [ -z "${!proxy:-}" ] || echo "Acquire::${proxy%_proxy}::Proxy \"${!proxy}\";" >>"$bare/etc/apt/apt.conf.d/99proxy"
done

# In a mount namespace of its own: whatever happens, no mount is left behind.
inside() {  # command…: in the bare system
    unshare --mount --pid --fork --kill-child -- sh -euc '
        mount -t proc proc "$0/proc"; mount -t tmpfs tmpfs "$0/dev/shm"
        exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
            chroot "$0" "$@"' "$bare" "$@"
}
install() {  # package or path…
    inside apt-get install -y -qq --no-install-recommends "$@" >"$bare.log" 2>&1 \
        || { tail -20 "$bare.log" >&2; fail "could not install $*"; }
    rm -f "$bare.log"
}

say "the library and the tool on a bare Debian"
inside apt-get update -qq
install $(cd "$bare" && ls packages/libgradus0_*.deb packages/gradus_*.deb | sed 's|^|/|')
inside ldd /usr/bin/gradus | grep -q 'libgradus.so.0 => /' || fail "the tool does not find the library"
inside sh -c 'cd /source && exec debian/tests/tool'
[ -z "$(find "$bare/usr/lib" -name 'libascendcl*')" ] || fail "CANN's names came without libgradus-dev"

say "development"
install /packages/"$(basename "$packages"/libgradus-dev_*.deb)" $(sed -n '/build-example/,/^$/s/^Depends: libgradus-dev,//p' \
    "$root/debian/tests/control" | tr -d ,)
inside sh -c 'cd /source && exec debian/tests/build-example'
outside=$(cd "$bare" && find usr -path usr/lib/gradus -prune -o \( -name 'libascendcl*' -o -name 'libopapi*' -o -name 'libhccl*' \) -print)
[ -z "$outside" ] || fail "CANN's names outside /usr/lib/gradus: $outside"

say "ranks on several machines, with what libgradus0 recommends"
recommended=$(dpkg-deb -f "$packages"/libgradus0_*.deb Recommends | sed 's/ *([^)]*)//g; s/,/ /g')
[ -n "$recommended" ] || fail "libgradus0 does not recommend Gloo"
# shellcheck disable=SC2086
install $recommended
inside sh -c 'ldd /usr/lib/*/gradus/libgradus_gloo.so' | { ! grep 'not found'; } || fail "Gloo's module lacks a library"

say "removed without a trace"
inside apt-get purge -y -qq gradus libgradus-dev libgradus0 >/dev/null 2>&1 || fail "could not purge"
left=$(cd "$bare" && find usr etc var/lib/dpkg/info -iname '*gradus*')
[ -z "$left" ] || fail "left behind: $left"
say "packages are well"
