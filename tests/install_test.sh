#!/usr/bin/env bash
# Installs a build into a fresh prefix and uses that as strangers do: every example built by hand with CANN's library
# names, by CMake, and by pkg-config; then the promises of the library's file itself.
#   install_test.sh <root of the repository> <build directory>
set -euo pipefail

usage="usage: install_test.sh <root of the repository> <build directory>"
root=$(cd "${1:?$usage}" && pwd)
build=$(cd "${2:?$usage}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix="$work/a prefix"  # with a blank: nothing may depend on there being none
mkdir -p "$work/hand" "$work/pkg"

fail() { echo "install_test: $*" >&2; exit 1; }
step() { echo "-- $*"; }

# Runs a program and shows its output only if it fails.
run() {
    "$@" >"$work/output" 2>&1 || { cat "$work/output" >&2; fail "failed: $*"; }
}

# A library that was built with a sanitizer wants its users to be so, too.
sanitize=$(sed -n 's/^GRADUS_COMPILER_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
flags=(-Wall -Wextra -Werror ${sanitize:+"-fsanitize=$sanitize"})
c=(gcc -std=c11 "${flags[@]}")
cxx=(g++ -std=c++11 "${flags[@]}")

step "install"
run cmake --install "$build" --prefix "$prefix"

step "by hand: CANN's library names, set_env.sh"
cann=("-I$prefix/include" "-L$prefix/lib64" -lascendcl -lnnopbase -lopapi -lhccl -pthread)
for source in "$root"/examples/*.cpp; do
    run "${cxx[@]}" "$source" "${cann[@]}" -o "$work/hand/$(basename "$source" .cpp)"
done
run "${c[@]}" "$root/examples/by_name.c" "${cann[@]}" -o "$work/hand/by_name"
run "${c[@]}" "$root/examples/dlopen.c" "-I$prefix/include" -ldl -lm -o "$work/hand/dlopen"
for program in "$work"/hand/*; do
    run bash -c '. "$1/set_env.sh"; exec "$2"' - "$prefix" "$program"
done
run bash -c '. "$1/set_env.sh"; exec "$2" processes 3' - "$prefix" "$work/hand/vocab_parallel"
if command -v mpicxx >/dev/null && [ -n "${GRADUS_TEST_MPI:-}" ]; then  # ./build.sh check sweeps
    run mpicxx -std=c++11 -DWITH_MPI "$root/examples/vocab_parallel.cpp" "${cann[@]}" -o "$work/hand_mpi"
    run bash -c '. "$1/set_env.sh"; exec mpirun --allow-run-as-root --oversubscribe -n 3 "$2"' - "$prefix" "$work/hand_mpi"
    printf '{"status":"completed","version":"1.0","server_count":"1","server_list":[{"server_id":"%s","device":[%s]}]}' \
        "$work" '{"device_id":"0","rank_id":"0"},{"device_id":"1","rank_id":"1"},{"device_id":"2","rank_id":"2"}' >"$work/table"
    run bash -c '. "$1/set_env.sh"; exec mpirun --allow-run-as-root --oversubscribe -n 3 "$2" "$3"' - "$prefix" \
        "$work/hand_mpi" "$work/table"
fi
run bash -c '. "$1/set_env.sh"; [ "$ASCEND_HOME_PATH" = "$1" ]' - "$prefix"
# Its variables alone must do: no -I, no -L.
run bash -c '. "$1/set_env.sh"; shift; exec "$@"' - "$prefix" \
    "${cxx[@]}" "$root/examples/swi_glu.cpp" -lascendcl -lnnopbase -lopapi -o "$work/hand/by_environment"

step "by CMake"
run cmake -G Ninja -S "$root/examples" -B "$work/cmake" "-DCMAKE_PREFIX_PATH=$prefix" \
    "-DCMAKE_C_FLAGS=${flags[*]}" "-DCMAKE_CXX_FLAGS=${flags[*]}"
run cmake --build "$work/cmake"
run "$work/cmake/swi_glu"
run "$work/cmake/by_name"
run env "LD_LIBRARY_PATH=$prefix/lib64" "$work/cmake/dlopen"

step "by pkg-config"
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
run pkg-config --exists gradus
# Through eval, because pkg-config quotes the blank for a shell.
eval "package=($(pkg-config --cflags --libs gradus))"
run "${cxx[@]}" "$root/examples/swi_glu.cpp" "${package[@]}" -o "$work/pkg/swi_glu"
run "$work/pkg/swi_glu"

step "the gradus command"
run env -u LD_LIBRARY_PATH "$prefix/bin/gradus" run SwiGluGrad
run bash -c '. "$1/set_env.sh"; gradus info --json | grep -q "\"real_cann\": \[\]"' - "$prefix"
[ -s "$prefix/share/man/man1/gradus.1" ] || fail "no man page"
complete=$(bash -c '. "$1/set_env.sh"; . "$1/share/bash-completion/completions/gradus"
    COMP_WORDS=(gradus run SwiGlu) COMP_CWORD=2; _gradus; echo "${COMPREPLY[@]}"' - "$prefix")
[ "$complete" = "SwiGlu SwiGluGrad" ] || fail "completion of SwiGlu: $complete"
touch "$work/xa.npy" "$work/xb.npy"
complete=$(cd "$work" && bash -c '. "$1/set_env.sh"; . "$1/share/bash-completion/completions/gradus"
    COMP_WORDS=(gradus run SwiGlu x = x) COMP_CWORD=5; _gradus; echo "${COMPREPLY[@]}"
    COMP_WORDS=(gradus run SwiGlu --precision "") COMP_CWORD=4; _gradus; echo "${COMPREPLY[@]}"' - "$prefix")
[[ $complete == "xa.npy xb.npy"$'\n'"fast golden magnitude"* ]] || fail "completion of x=x and --precision: $complete"
run bash -ic '. "$1/set_env.sh"; complete -p gradus' - "$prefix"
if command -v zsh >/dev/null; then
    run zsh -fic '. "$1/set_env.sh"; [ "$ASCEND_HOME_PATH" = "$1" ] && whence _gradus' - "$prefix"
fi

step "set_env.sh in plain sh"
shell=$(command -v dash || command -v sh)
run "$shell" -euc '. "$1/set_env.sh"; [ "$ASCEND_HOME_PATH" = "$1" ]; (. "$1/set_env.sh"; [ "$ASCEND_HOME_PATH" = "$1" ])
    gradus list; pkg-config --exists gradus' - "$prefix"
run env -u PKG_CONFIG_PATH bash -c '. "$1/set_env.sh"; pkg-config --exists gradus' - "$prefix"

step "lib and lib64 are alike"
for name in gradus ascendcl acl_rt nnopbase opapi opapi_math opapi_nn opapi_transformer cust_opapi hccl hcomm; do
    [ "$prefix/lib/lib$name.so" -ef "$prefix/lib64/libgradus.so" ] || fail "lib/lib$name.so is not the library"
    [ "$prefix/lib64/lib$name.so" -ef "$prefix/lib64/libgradus.so" ] || fail "lib64/lib$name.so is not the library"
done

step "soname and exported symbols"
library=$prefix/lib64/libgradus.so
soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = libgradus.so.0 ] || fail "soname $soname, expected libgradus.so.0"
exported=$(nm -D --defined-only "$library" | awk '{ print $NF }')
others=$(grep -vE '^(aclnn|acl|gradus|Hccl)[A-Z]|^aclrt[A-Z]' <<<"$exported" || true)
[ -z "$others" ] || fail "exports what is not the C interface:"$'\n'"$(head -20 <<<"$others")"
if [ -z "$sanitize" ]; then  # whose own symbols come along
    packaged=$(sed -n 's/^ \(.*\)@Base .*/\1/p' "$root/debian/libgradus0.symbols")
    differ=$(diff <(LC_ALL=C sort <<<"$packaged") <(LC_ALL=C sort <<<"$exported") || true)
    [ -z "$differ" ] || fail "debian/libgradus0.symbols (<) and the library (>) differ:"$'\n'"$differ"
fi

step "nothing in the prefix knows where it was built or installed"
for text in set_env.sh lib/pkgconfig/gradus.pc lib/cmake/gradus/gradus-config.cmake; do
    ! grep -qF -e "$work" -e "$root" "$prefix/$text" || fail "$text has an absolute path in it"
done
mv "$prefix" "$work/moved"
run bash -c '. "$1/set_env.sh"; exec "$2"' - "$work/moved" "$work/hand/swi_glu"
run "$work/moved/bin/gradus" list

echo "install_test: all well, $(wc -l <<<"$exported") symbols"
