"""What is special about git: settings that are code, and commands that bring other files."""

import re

from hermes_agent.policy.shell.programs.table import Reading

GIT_CODE = re.compile(
    r"(?i)alias\.|core\.(?:alternaterefscommand|pager|editor|sshcommand|fsmonitor|hookspath|gitproxy|askpass|worktree)"
    r"|pager\.|diff\.|difftool\.|merge\.|mergetool\.|filter\.|credential|gpg|sequence\.editor"
    r"|protocol\.|include|url\.|uploadpack|receivepack|remote\.|http\.|browser|man\.|submodule"
    r"|init\.templatedir|interactive\.difffilter|trailer|tar\.|sendemail|web\.|instaweb"
)
GIT_PLAIN = re.compile(
    r"(?i)(?:user|author|committer)\.(?:name|email)|(?:advice|color|status|column|i18n|pack|log)\.[\w.]+"
    r"|core\.(?:abbrev|autocrlf|bare|commentchar|eol|filemode|ignorecase|longpaths|precomposeunicode"
    r"|quotepath|safecrlf|whitespace)|diff\.(?:algorithm|colormoved|context|mnemonicprefix|noprefix"
    r"|renamelimit|renames)|(?:commit|tag)\.gpgsign|gc\.auto|grep\.\w+|init\.defaultbranch"
    r"|pull\.(?:ff|rebase)|push\.default|safe\.directory|versionsort\.suffix|blame\.date"
)
"""Settings that name neither files nor hosts nor commands."""
_MOVING = frozenset(
    {"switch", "checkout", "pull", "stash", "merge", "rebase", "reset", "restore", "apply", "am",
     "cherry-pick", "revert"}
)  # fmt: skip


def moves_files(git: Reading) -> bool:
    """Whether other files, or links, may stand in the work tree after it. A new branch that starts
    where one stands brings none."""
    new = {"-b", "-c", "--create"} & set(git.flags) and not git.operands
    looks = git.verb in {"stash list", "stash show"}
    return git.verb.partition(" ")[0] in _MOVING and not new and not looks
