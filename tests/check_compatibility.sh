#!/usr/bin/env bash
# Compares docs/compatibility.md and tests/headers/signatures.h with the headers: every function that include/ declares
# has one row there and one line here, and every row and line has a function.
#   check_compatibility.sh <root of the repository>
set -euo pipefail
shopt -s globstar nullglob

root=${1:?usage: check_compatibility.sh <root of the repository>}
page=$root/docs/compatibility.md
signatures=$root/tests/headers/signatures.h
headers=("$root"/include/**/*.h)
[[ ${#headers[@]} -gt 0 ]] || { echo "no headers under $root/include" >&2; exit 1; }
for file in "$page" "$signatures"; do
    [[ -f $file ]] || { echo "$file is missing" >&2; exit 1; }
done

# Functions of one header, one a line. What is left without comments, preprocessor lines and C++ is declarations: in
# each the name is the identifier in front of an outermost parenthesis. Whatever else has one is printed too, and fails
# below.
functions_of() {
    sed -e 's://.*$::' "$1" | awk '
        /^[ \t]*#[ \t]*if/ { nesting++ }
        /^[ \t]*#[ \t]*if(def|[ \t]+defined)[ \t(]+__cplusplus/ && !skip_from { skip_from = nesting }
        /^[ \t]*#[ \t]*else/ && nesting == skip_from { skip_from = 0 }
        !skip_from && !continued && !/^[ \t]*#/ { text = text " " $0 }
        { continued = (continued || /^[ \t]*#/) && /\\$/ }
        /^[ \t]*#[ \t]*endif/ { if (nesting == skip_from) skip_from = 0; nesting-- }
        END {
            while ((start = index(text, "/*")) > 0) {
                rest = substr(text, start + 2)
                text = substr(text, 1, start - 1) " " substr(rest, index(rest, "*/") + 2)
            }
            while (match(text, /static inline [^{;]*[{]/)) {  # of a function in the header itself, its head
                head = substr(text, RSTART + 14, RLENGTH - 15)
                depth = 1
                for (j = RSTART + RLENGTH; depth > 0 && j <= length(text); j++) {
                    c = substr(text, j, 1)
                    depth += (c == "{") - (c == "}")
                }
                text = substr(text, 1, RSTART - 1) head ";" substr(text, j)
            }
            count = split(text, declarations, /[;{}]/)
            for (i = 1; i <= count; i++) {
                if (declarations[i] ~ /^[ \t]*typedef[ \t]/) continue
                depth = 0; word = ""; ended = 0
                for (j = 1; j <= length(declarations[i]); j++) {
                    c = substr(declarations[i], j, 1)
                    if (c == "(") { if (depth++ == 0 && word != "" && word !~ /^__/) print word; word = "" }
                    else if (c == ")") depth--
                    else if (c ~ /[A-Za-z0-9_]/) { word = (ended ? "" : word) c; ended = 0 }
                    else if (c ~ /[ \t]/) ended = 1
                    else word = ""
                }
            }
        }'
}

{
    for header in "${headers[@]}"; do
        functions_of "$header" | sed -e "s:\$: ${header#"$root"/}:" -e 's:^:declared :'
    done
    # A row is a function only with a state that the page explains; a difference wants a word about it.
    sed -n -E 's/^\| *`([A-Za-z0-9_]+)` *\| *(same|differs|accepted|refused|ours) *\| *(.*)\|$/listed \1 \2 \3/p' "$page"
    sed -n -E 's/^(INLINE_)?SIGNATURE\([^,]*, ([A-Za-z0-9_]+),.*/typed \2/p' "$signatures"
} | awk '
    $1 == "declared" { where[$2] = $3; next }
    $1 == "typed" { if ($2 in typed) fail($2 ": twice in signatures.h"); typed[$2] = 1; next }
    { if ($2 in listed) fail($2 ": listed twice"); listed[$2] = 1 }
    $3 !~ /^(same|accepted)$/ && NF < 4 { fail($2 ": " $3 ", without a word on how") }
    function fail(message) { print message | "cat 1>&2"; failed = 1 }
    END {
        for (name in where) {
            total++
            if (!(name in listed)) fail(name ": declared in " where[name] ", not listed")
            if (!(name in typed)) fail(name ": declared in " where[name] ", not in signatures.h")
        }
        for (name in listed) if (!(name in where)) fail(name ": listed, not declared")
        for (name in typed) if (!(name in where)) fail(name ": in signatures.h, not declared")
        if (total == 0) fail("no function found in the headers")
        if (failed) { print "docs/compatibility.md or signatures.h and include/ disagree" | "cat 1>&2"; close("cat 1>&2"); exit 1 }
        print total " functions, all listed and typed in"
    }'
