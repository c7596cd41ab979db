# COMMANDS, OPTIONS, VALUES and PLACES are filled in by completion.py
_jumbot() {
    local cur="${COMP_WORDS[COMP_CWORD]}" last="" words="" i
    COMPREPLY=()
    [[ "$cur" == "=" ]] && cur=""
    for ((i = COMP_CWORD - 1; i > 1; i--)); do
        [[ "${COMP_WORDS[i]}" == --* ]] && { last="${COMP_WORDS[i]}"; break; }
    done
    local given=$((COMP_CWORD - 1 - i))
    [[ "${COMP_WORDS[i + 1]}" == "=" ]] && given=0
    if ((COMP_CWORD == 1)); then
        words="COMMANDS"
    elif [[ "$cur" == -* ]]; then
        case "${COMP_WORDS[1]}" in
OPTIONS
        esac
    elif [[ -n "$last" ]]; then
        case "${COMP_WORDS[1]}:$last:$given" in
VALUES
        esac
    else
        case "${COMP_WORDS[1]}" in
PLACES
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _jumbot jumbot
