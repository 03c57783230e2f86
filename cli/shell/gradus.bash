# Completion of gradus in bash. Commands, options, operators and arguments are asked of the tool itself.
_gradus() {
    local word=${COMP_WORDS[COMP_CWORD]} tool=${COMP_WORDS[0]} command=${COMP_WORDS[1]-} operator=${COMP_WORDS[2]-}
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "--help --version $("$tool" --help 2>/dev/null |
            sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p')" -- "$word")
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$("$tool" "$command" --help 2>/dev/null |
            sed -n 's/^  \(-.,\)\{0,1\}\(--[a-z-]*\).*/\2/p')" -- "$word")
    elif [[ $command == run && COMP_CWORD -gt 2 && $word != *=* ]]; then
        compopt -o nospace
        mapfile -t COMPREPLY < <(compgen -W "$("$tool" list --names "$operator" 2>/dev/null)" -- "$word")
    elif [[ $command == diff || $word == *[./]* || ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "${word#=}")
    else
        mapfile -t COMPREPLY < <(compgen -W "$("$tool" list --names 2>/dev/null)" -- "$word")
    fi
}
complete -F _gradus gradus
