# Completion of `hermes` in bash. To install it, add this line to ~/.bashrc:
#     source <(hermes completion bash)
# or, with the package bash-completion, write it where that looks:
#     hermes completion bash > ~/.local/share/bash-completion/completions/hermes
_hermes() {
    local value quoted
    local -a found
    COMPREPLY=()
    # Given the whole line, since bash also splits words at "=" and ":".
    mapfile -t found < <(command hermes completion --line "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    case ${found[0]} in
    :files) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "${2//\\/}") ;;
    :folders) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -d -- "${2//\\/}") ;;
    *)
        for value in "${found[@]%%$'\t'*}"; do
            [[ $value != *[/=] ]] || compopt -o nospace
            quoted=$value
            [[ ${COMP_WORDS[COMP_CWORD]} == [\'\"]* ]] || printf -v quoted %q "$value"
            COMPREPLY+=("$quoted")
        done
        ;;
    esac
}
complete -F _hermes hermes
