# Completion of gradus in bash. Commands, options, operators and arguments are asked of the tool itself.

# What may follow an option, as its line in --help says: {a,b} are words, FILE and DIR are paths.
_gradus_values() {
    "$1" "$2" --help 2>/dev/null | sed -n "s/^  \(.*,\)\{0,1\}$3[ ,]\(.*\)/\2/p" | head -1
}

_gradus() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} tool=${COMP_WORDS[0]}
    local command=${COMP_WORDS[1]-} operator=${COMP_WORDS[2]-} values words=
    COMPREPLY=()
    # bash splits x=a.npy into three words.
    if ((COMP_CWORD > 2)) && [[ $word == = || $before == = ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "${word#=}")
        return
    fi
    if ((COMP_CWORD == 1)); then
        words="--help --version $("$tool" --help 2>/dev/null |
            sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p')"
    elif [[ $before == -* && $word != -* ]] && values=$(_gradus_values "$tool" "$command" "$before") &&
        [[ $values == *"{"*"}"* || $values == *FILE* || $values == *DIR* ]]; then
        if [[ $values == *"{"*"}"* ]]; then
            values=${values#*\{}
            words=${values%%\}*}
            words=${words//,/ }
        else
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            return
        fi
    elif [[ $word == -* ]]; then
        words=$("$tool" "$command" --help 2>/dev/null | grep -oE '^  (-.,)?--[a-z-]+' | grep -oE -- '--[a-z-]+')
    elif [[ $command == run && COMP_CWORD -gt 2 ]]; then
        compopt -o nospace 2>/dev/null
        words=$("$tool" list --names "$operator" 2>/dev/null)
    elif [[ $command == diff || $word == *[./]* ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
    else
        words=$("$tool" list --names 2>/dev/null)
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _gradus gradus
