# Completion of `hermes` in fish. To install it:
#     hermes completion fish > ~/.config/fish/completions/hermes.fish
function __hermes_complete
    set -l words (commandline -opc)
    set -l current (string trim --left --chars='"\'' -- (commandline -ct))
    set -l found (command hermes completion --words $words[2..] "$current" 2>/dev/null)
    switch "$found[1]"
        case :files
            __fish_complete_path "$current"
        case :folders
            __fish_complete_directories "$current"
        case '*'
            printf '%s\n' $found
    end
end
complete -c hermes -f -a '(__hermes_complete)'
