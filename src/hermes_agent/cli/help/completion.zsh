#compdef hermes
# Completion of `hermes` in zsh. To install it, add this line to ~/.zshrc, after `compinit`:
#     source <(hermes completion zsh)
# or write it to a folder of $fpath, as a file called _hermes:
#     hermes completion zsh > ~/.zfunc/_hermes
_hermes() {
    local line value entry
    local -a found open whole
    found=("${(@f)$(command hermes completion --words "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    case $found[1] in
    :files) compset -P '--*='; _files; return ;;
    :folders) compset -P '--*='; _files -/; return ;;
    esac
    for line in $found; do
        value=${line%%$'\t'*}
        entry=${value//:/\\:}:${line#*$'\t'}
        if [[ $value == *[/=] ]]; then open+=($entry); else whole+=($entry); fi
    done
    _describe -t names hermes whole -- open -S ''
}
if [[ $funcstack[1] == _hermes ]]; then _hermes "$@"; else compdef _hermes hermes; fi
