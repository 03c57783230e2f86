#!/usr/bin/env bash
# All suites on AArch64: a cross build, run under qemu-user in a bare Debian of its own, so that this machine gets
# neither packages of another architecture nor anything else. Needs root, debootstrap and a kernel with binfmt_misc.
#   testing/arm.sh <where the Debian and the build are kept> [ctest arguments…]
set -euo pipefail
work=${1:?usage: testing/arm.sh <where the Debian and the build are kept> [ctest arguments…]}
shift
mkdir -p "$work"
work=$(cd "$work" && pwd)
project=$(cd "$(dirname "$0")/.." && pwd)
root=$work/debian
say() { printf '== arm: %s\n' "$*" >&2; }
[ "$(id -u)" -eq 0 ] || { say "root is needed, for a Debian inside this one"; exit 3; }

inside() {  # the tests call compilers as users do: /opt/cross
    env -i HOME=/root PATH=/opt/cross:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        QEMU_CPU=max,sve=off chroot "$root" "$@"
}

make_debian() {  # once for a list of packages
    local list=$project/packages-arm.txt mirror tool
    cmp -s "$list" "$root/packages" && return
    rm -rf --one-file-system "$root"
    say "making a bare Debian 12"
    mirror=$(awk '/^URIs:/ { print $2; exit } $1 == "deb" { print $2; exit }' /etc/apt/sources.list.d/debian.sources \
        /etc/apt/sources.list 2>/dev/null || true)
    debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "${mirror:-http://deb.debian.org/debian}" \
        >"$work/debootstrap.log" 2>&1 || { tail -5 "$work/debootstrap.log" >&2; exit 3; }
    cp /etc/resolv.conf /etc/hosts "$root/etc/"
    # Besides the packages, a Python of AArch64, which loads the library as users do. Debian has room for one only; the
    # other's program lies apart, and of NumPy what is compiled has a name of its own.
    # shellcheck disable=SC2046
    inside bash -euc 'dpkg --add-architecture arm64
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends "$@"
        cd /tmp
        apt-get download -qq python3.11-minimal:arm64 python3-numpy:arm64
        dpkg -x python3.11-minimal_*.deb /opt/arm64
        dpkg -x python3-numpy_*.deb /' - $(sed 's/#.*//' "$list") >"$work/apt.log" 2>&1 \
        || { tail -20 "$work/apt.log" >&2; exit 3; }
    mkdir -p "$root/opt/cross"
    for tool in gcc g++ nm readelf; do ln -s "/usr/bin/aarch64-linux-gnu-$tool" "$root/opt/cross/$tool"; done
    ln -s gcc "$root/opt/cross/cc"
    ln -s g++ "$root/opt/cross/c++"
    cp "$list" "$root/packages"
}

# The kernel hands programs of AArch64 to qemu, because tests start others, and those their own.
let_kernel_run() {
    local registry=/proc/sys/fs/binfmt_misc name=gradus-aarch64
    [ -e "$registry/register" ] || mount -t binfmt_misc binfmt_misc "$registry"
    [ ! -e "$registry/$name" ] || echo -1 >"$registry/$name"
    local magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    local mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    # F: qemu is opened now, and found from inside any root
    printf '%s' ":$name:M::$magic:$mask:$root/usr/bin/qemu-aarch64-static:F" >"$registry/register"
    # shellcheck disable=SC2064
    trap "echo -1 >$registry/$name" EXIT
}

run() {  # [ctest arguments…]; its mounts end with its mount namespace
    mkdir -p "$root/project" "$root/build" "$work/build"
    mount --bind "$project" "$root/project"
    mount --bind "$work/build" "$root/build"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    inside bash -euc '
        cd /project
        cmake -G Ninja -S . -B /build --toolchain cmake/aarch64.cmake -DCMAKE_BUILD_TYPE=Release \
            -DPython3_EXECUTABLE=/opt/arm64/usr/bin/python3.11 >/build/cmake.log || { cat /build/cmake.log; exit 1; }
        cmake --build /build -j "$(nproc)"
        # without those that look at the repository, which is the same everywhere
        ctest --test-dir /build --output-on-failure -j "$(nproc)" --timeout 6000 \
            -E "^(layers|translations|compatibility_page)$" "$@"' - "$@"
}

make_debian
let_kernel_run
export root work project
export -f run inside
unshare --mount --propagation private bash -euo pipefail -c 'run "$@"' - "$@"
