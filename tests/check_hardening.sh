#!/usr/bin/env bash
# Whether the files that are shipped carry the hardening of cmake/flags.cmake; read from the files, as Debian's
# hardening-check does.
#   check_hardening.sh <library or program>…
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: check_hardening.sh <library or program>…" >&2; exit 2; }
export LC_ALL=C
failed=0

# Whether a text has, or has not, a line of a pattern.
expect() {  # what it would mean, text, pattern
    grep -qE -e "$3" <<<"$2" || { echo "$file: $1"; failed=1; }
}
refuse() {
    ! grep -E -e "$3" <<<"$2" || { echo "$file: $1"; failed=1; }
}

for file; do
    header=$(readelf -hW "$file")
    segments=$(readelf -lW "$file")
    dynamic=$(readelf -dW "$file")
    undefined=$(nm -D --undefined-only "$file" | awk '{ sub(/@.*/, "", $2); print $2 }')

    expect "is not position independent" "$header" 'Type: +DYN'
    expect "has no read-only relocations (-z relro)" "$segments" ' GNU_RELRO '
    expect "binds symbols when they are first called (without -z now)" "$dynamic" 'BIND_NOW|FLAGS.* NOW'
    expect "does not say what its stack may do" "$segments" ' GNU_STACK .* RW '
    refuse "has memory that is written and executed" "$segments" ' RWE '
    refuse "has relocations in its code" "$dynamic" 'TEXTREL'
    expect "has no stack protector" "$undefined" '^__stack_chk_fail$'
    refuse "is linked to a library that it does not use (without --as-needed)" "$(ldd -u "$file" 2>/dev/null || true)" \
        '^\s+/'
    if grep -q 'X86-64' <<<"$header"; then
        # The note of the whole file says so only where the system's own start-up objects do. These have two of them.
        [ "$(objdump -d "$file" | grep -c endbr64)" -gt 8 ] || { echo "$file: has no landing pads (-fcf-protection)"; failed=1; }
    fi
    case $file in
        *libgradus_gloo.so) ;;  # calls nothing that could be
        *) expect "calls no fortified function (_FORTIFY_SOURCE)" "$undefined" '^__[a-z]+_chk$' ;;
    esac
    case $file in
        *libgradus.so*)
            expect "has no assertions of the C++ library" "$undefined" '^_ZSt21__glibcxx_assert_fail'
            # A probe of a new page of the stack. Few functions have one: only those with more than a page of locals.
            if grep -q 'X86-64' <<<"$header"; then
                expect "does not probe its stack (-fstack-clash-protection)" "$(objdump -d "$file" | grep 'or[ql]* ')" \
                    'or[ql] +\$0x0,(0x[0-9a-f]+)?\(%rsp\)'
            fi
            ;;
    esac
done
[ $failed -eq 0 ] && echo "check_hardening: all well, $# files"
exit $failed
