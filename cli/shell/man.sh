#!/usr/bin/env bash
# The man page: what is the same for all commands written here, each command's own --help behind it, so that the two
# cannot disagree.
#   man.sh <version> [words that run the gradus binary; none where this machine cannot]
set -euo pipefail
version=${1:?usage: man.sh <version> [words that run the gradus binary]}
shift

# Text that troff shall leave alone.
verbatim() {
    printf '.nf\n'
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/"
    printf '.fi\n'
}

cat <<EOF
.TH GRADUS 1 "" "gradus $version" "User Commands"
.SH NAME
gradus \\- run, judge and measure CANN's LLM\\-training gradient operators on this CPU
.SH SYNOPSIS
.B gradus
.I COMMAND
.RI [ OPTIONS ]
.RI [ ARGUMENTS ]
.SH DESCRIPTION
.B gradus
answers two questions from the shell: what does an operator compute, and is a result right?
Operators, their arguments, shapes and limits are those of the library's catalogue; files are NumPy's .npy
(f32, f16, bool, integers, and bf16 as ml_dtypes writes it) and raw .bin.
.SH COMMANDS
EOF
if [ $# -gt 0 ]; then
    "$@" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | while read -r command; do
        printf '.SS gradus %s\n' "$command"
        "$@" "$command" --help | verbatim
    done
else
    printf '.B gradus \\-\\-help\nlists them;\n.B gradus\n.I COMMAND\n.B \\-\\-help\nexplains one.\n'
fi
cat <<'EOF'
.SH EXIT STATUS
.TP
0
right
.TP
1
mismatch
.TP
2
usage: an unknown word, a file or a shape that does not fit
.TP
3
unsupported by the product stood in for
.TP
4
environment: no memory, a file that cannot be written
.SH ENVIRONMENT
.TP
.B GRADUS_LIMITS, GRADUS_PRECISION, GRADUS_NUM_THREADS, GRADUS_MAX_ISA, GRADUS_SOC_NAME, GRADUS_LOG
the library's options;
.B gradus info
shows their values and where they come from
.TP
.B GRADUS_TRACE
a file for the timeline of the program, as
.B gradus trace
makes it
.TP
.B NO_COLOR
no colours, even on a terminal
.TP
.B ASCEND_HOME_PATH
where a CANN or its stand\-in is installed
EOF
