"""What is special about git: settings that are code, and commands that bring other files."""

import re
from collections.abc import Iterable, Iterator

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
_NO_HOOKS = ("core.hookspath", "/dev/null")
_HOOKS = {
    "add": "", "fetch": "pre-auto-gc", "pull": "post-merge pre-auto-gc", "stash": "",
    "commit": "pre-commit prepare-commit-msg commit-msg post-commit pre-auto-gc",
    "switch": "post-checkout", "checkout": "post-checkout", "branch": "", "tag": "", "notes": "",
    "restore": "",
}  # fmt: skip
"""What runs with a verb, beside the hooks of all of them."""
_LISTING = frozenset(
    {"-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"}
)
_OF_ALL = "post-index-change reference-transaction"
_HOOK_FOLDERS = (".git/hooks", ".husky", ".husky/_", ".githooks")
"""The latter are where `core.hooksPath` leads by custom."""
_MOVING = frozenset(
    {"switch", "checkout", "pull", "stash", "merge", "rebase", "reset", "restore", "apply", "am",
     "cherry-pick", "revert"}
)  # fmt: skip


def moves_files(git: Reading) -> bool:
    """Whether other files, or links, may stand in the work tree after it. A new branch that starts
    where one stands brings none."""
    new = {"-b", "-c", "--create"} & set(git.flags) and not git.operands
    return git.verb.partition(" ")[0] in _MOVING and not new and not _looks(git)


def _looks(git: Reading) -> bool:
    lists = not git.operands or not _LISTING.isdisjoint(git.flags)
    return git.verb.endswith((" list", " show")) or (git.verb in {"branch", "tag"} and lists)


def is_plain(key: str, value: str) -> bool:
    return bool(GIT_PLAIN.fullmatch(key)) or (key.lower(), value) == _NO_HOOKS


def hooks(git: Reading, tops: Iterable[str]) -> Iterator[str]:
    """Globs of the hooks that it would run, which stay as they are where there is none."""
    given = (field.text.partition("=") for _, role, field in git.values if role == "config")
    named = None if _looks(git) else _HOOKS.get(git.verb.partition(" ")[0])
    if named is None or any((key.lower(), value) == _NO_HOOKS for key, _, value in given):
        return
    for top in tops:
        for folder in _HOOK_FOLDERS:
            for name in f"{named} {_OF_ALL}".split():
                yield f"{top.rstrip('/')}/{folder}/{name[:-1]}[{name[-1]}]"
