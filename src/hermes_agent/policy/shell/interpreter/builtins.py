"""The shell's own commands."""

import re
from collections.abc import Callable, Sequence

from hermes_agent.policy.shell.interpreter.collector import places_of
from hermes_agent.policy.shell.interpreter.expand import Expander, hides_code
from hermes_agent.policy.shell.interpreter.interpreter import SimpleCommandRun
from hermes_agent.policy.shell.interpreter.state import ExpandedWord, absolute
from hermes_agent.policy.shell.parser.syntax import Quoted

Builtin = Callable[[SimpleCommandRun, list[ExpandedWord]], str | None]

_FLAG = re.compile(r"-[^-]|--[^-]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SUBSCRIPT = re.compile(r"[A-Za-z_]\w*\[(?!\d+\])")
_SAFE_SHOPT = frozenset(
    {"nullglob", "failglob", "nocasematch", "inherit_errexit", "histappend", "checkwinsize",
     "checkjobs", "huponexit"}
)  # fmt: skip
_EXPORTS = re.compile(r"-\w*x")
_SAFE_SET = re.compile(r"\+[abefhmnuvxBCEHPT]*|-[befhmnuvxBCEHPT]*")
_SAFE_SET_NAMES = frozenset(
    {"pipefail", "errexit", "nounset", "xtrace", "noglob", "noclobber", "verbose", "monitor",
     "errtrace", "functrace", "noexec", "vi", "emacs", "history", "histexpand", "notify", "hashall"}
)  # fmt: skip
_OPTION = re.compile(r"-[neE]+")
_ESCAPE = re.compile(r"\\(?:([abefnrtv\\\"'])|0?([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.?))", re.DOTALL)
_SIGNS = {
    "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", '"': '"', "'": "'",
}  # fmt: skip
_FORMAT = re.compile(r"%([%s])|(%)")


def _note(run: SimpleCommandRun, fields: list[ExpandedWord]) -> None:
    """The command itself, as a program without places of its own."""
    flags = [f.text for f in fields[1:] if _FLAG.match(f.text) and not f.dynamic]
    places, hosts = run.redirected.take()
    run.walk.note.program(
        fields[0].text, fields, run.around, flags=flags, places=places, hosts=hosts
    )


def _plain(run: SimpleCommandRun, fields: list[ExpandedWord]) -> None:
    _note(run, fields)
    _check_names(run, fields)


def _silent(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str:
    _note(run, fields)
    return ""


def _check_names(run: SimpleCommandRun, fields: list[ExpandedWord]) -> None:
    """Names and numbers in which bash would run code."""
    if any(hides_code(field.text) for field in fields[1:]):
        run.unknown(fields[0].text, "a name that contains code", fields[0].text)


def _check_named(run: SimpleCommandRun, fields: list[ExpandedWord]) -> None:
    """Words that are names: one that is not known, or has a subscript, may have code in it."""
    _check_names(run, fields)
    odd = (f for f in fields[1:] if f.dynamic or _SUBSCRIPT.match(f.text))
    if (field := next(odd, None)) is not None:
        run.unknown(field.text, "a name that may contain code", fields[0].text)


def _test(run: SimpleCommandRun, fields: list[ExpandedWord]) -> None:
    """`[ … ]`: what is not quoted may become several words, and `-v` takes a name."""
    _plain(run, fields)
    for field, before in zip(fields[1:], fields, strict=False):
        loose = field.dynamic and not field.number and not field.text.startswith('"')
        name = before.dynamic or before.text in {"-v", "-R"}
        if loose or (name and (field.dynamic or _SUBSCRIPT.match(field.text))):
            run.unknown(field.text, "a name that may contain code", fields[0].text)


def _echo(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str | None:
    _note(run, fields)
    return _echoed(fields[1:], bash=run.around.bash)


def _printf(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str | None:
    _note(run, fields)
    if len(fields) > 2 and fields[1].text.startswith("-v"):
        _check_named(run, fields[:3] if fields[1].text == "-v" else fields[:2])
        name = _NAME.match(fields[1].text[2:] or fields[2].text)
        run.set(name.group() if name else "", None)
        return ""
    return _formatted(fields[1:])


def _unescape(text: str) -> str | None:
    pieces: list[str] = []
    at = 0
    for found in _ESCAPE.finditer(text):
        sign, octal, byte, other = found.groups()
        pieces.append(text[at : found.start()])
        at = found.end()
        if sign:
            pieces.append(_SIGNS[sign])
        elif other is not None:
            return None
        else:
            code = int(octal, 8) if octal else int(byte, 16)
            if not 0 < code < 128:
                return None
            pieces.append(chr(code))
    return "".join(pieces) + text[at:]


def _echoed(words: Sequence[ExpandedWord], *, bash: bool) -> str | None:
    if any(word.dynamic or word.glob for word in words):
        return None
    texts = [word.text for word in words]
    options = ""
    while texts and _OPTION.fullmatch(texts[0]):
        options += texts.pop(0)[1:]
    text = " ".join(texts)
    if not bash and (options or "\\" in text):
        return None  # shells differ here
    escapes = [letter for letter in options if letter in "eE"]
    if escapes and escapes[-1] == "e":
        unescaped = _unescape(text)
        if unescaped is None:
            return None
        text = unescaped
    return text if "n" in options else text + "\n"


def _formatted(words: Sequence[ExpandedWord]) -> str | None:
    """`printf` with `%s` and plain text; other formats are not followed."""
    if any(word.dynamic or word.glob for word in words) or not words:
        return None
    texts = [word.text for word in words]
    if texts[0] == "--":
        texts.pop(0)
    if not texts or texts[0].startswith("-"):
        return None
    pattern, rest = texts[0], texts[1:]
    if any(found.group(2) for found in _FORMAT.finditer(pattern)):
        return None
    output = ""
    while True:
        before = len(rest)
        pieces = _FORMAT.split(pattern)
        for at in range(0, len(pieces), 3):
            plain = _unescape(pieces[at])
            if plain is None:
                return None
            output += plain
            if at + 1 < len(pieces):
                sign = pieces[at + 1]
                output += "%" if sign == "%" else rest.pop(0) if rest else ""
        if not rest or len(rest) == before:
            return output


def _eval(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str | None:
    words = fields[1:]
    if words and words[0].text == "--":
        words = words[1:]
    text = " ".join(field.text for field in words)
    if any(field.dynamic or field.glob for field in words):
        run.unknown(text, "eval runs what is not known", "eval")
        run.state.forget()
        return None
    return run.walk.text(text, run.state, run.around)


def _source(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str | None:
    words = [field for field in fields[1:] if field.text != "--"]
    stdin = run.around.stdin
    text = words[0].content if words else None
    if words and words[0].text in {"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"} and stdin:
        text = stdin.text
    if text is not None:
        return run.walk.text(text, run.state, run.around)
    places, hosts = run.redirected.take()
    if words:
        places += places_of(words[0], "read", run.state)
    run.walk.note.program(fields[0].text, fields, run.around, places=places, hosts=hosts)
    if not words or words[0].dynamic or (stdin is not None and not places):
        run.unknown(fields[0].text, "which commands are read in is not known", fields[0].text)
    run.state.forget()
    return None


_BETWEEN = frozenset({"DEBUG", "ERR", "RETURN", "SIGDEBUG", "SIGERR", "SIGRETURN"})


def _trap(run: SimpleCommandRun, fields: list[ExpandedWord]) -> None:
    _note(run, fields)
    words = fields[1:]
    if words and words[0].text == "--":
        words = words[1:]
    if len(words) < 2 or words[0].text in {"-", "", "-l", "-p"}:
        return
    if words[0].dynamic:
        run.unknown(words[0].text, "what the trap runs is not known", "trap")
    else:
        run.walk.text(words[0].text, run.state.later(), run.around)
    if any(word.dynamic or word.text.upper() in _BETWEEN for word in words[1:]):
        run.unknown(words[0].text, "it would run between later commands", "trap")


def _alias(run: SimpleCommandRun, fields: list[ExpandedWord]) -> None:
    _note(run, fields)
    for field in fields[1:]:
        _, equals, value = field.text.partition("=")
        if field.dynamic:
            run.unknown(field.text, "what the alias stands for is not known", "alias")
        elif equals:
            run.walk.text(value, run.state.later(), run.around)
            if run.walk.is_known(field.text.partition("=")[0]):
                reason = "later commands would run it in place of a program"
                run.unknown(field.text, reason, "alias")


def _cd(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str:
    words = [f for f in fields[1:] if f.dynamic or not re.fullmatch(r"-[LPe@n]*|--", f.text)]
    previous = any(f.text == "-" for f in fields[1:])
    state = run.state
    places, hosts = run.redirected.take()
    home = state.lookup("HOME")
    target = words[0] if words else ExpandedWord(home) if isinstance(home, str) else None
    if target is not None and not previous:
        places += places_of(target, "read", state)
    run.walk.note.program(fields[0].text, fields, run.around, places=places, hosts=hosts)
    old = state.folders
    if target is None or target.dynamic or target.glob or previous or "CDPATH" in state.variables:
        state.folders = (None,)
    else:
        state.stand(tuple(absolute(target.text, one) or None for one in old))
    state.failed = old
    state.variables.pop("PWD", None)
    return ""


def _popd(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str:
    _note(run, fields)
    run.state.folders = (None,)
    return ""


def _set(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str | None:
    _note(run, fields)
    words = fields[1:]
    while words:
        word = words[0]
        if word.text == "--" or word.dynamic or word.text[:1] not in {"-", "+"}:
            break
        words = words[1:]
        if word.text in {"-o", "+o"} or re.fullmatch(r"[-+][a-zA-Z]*o", word.text):
            name = words[0].text if words else "pipefail"
            words = words[1:]
            if name not in _SAFE_SET_NAMES:
                run.unknown(f"set -o {name}", "the shell will read commands differently", "set")
        elif not _SAFE_SET.fullmatch(word.text):
            run.unknown(f"set {word.text}", "the shell will read commands differently", "set")
    if words:
        given = words[1:] if words[0].text == "--" else words
        run.state.positional = tuple(given)
        if any(field.dynamic for field in given):
            run.state.positional = None
    return "" if len(fields) > 1 else None


def _shift(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str:
    _note(run, fields)
    given = run.state.positional
    run.state.positional = given[1:] if given and len(fields) == 1 else None
    return ""


def _declare(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str | None:
    _note(run, fields)
    _check_names(run, fields)
    inner = fields[0].text in {"local", "declare", "typeset"}
    inner = inner and not any(f.text.startswith("-") and "g" in f.text for f in fields[1:])
    exported = fields[0].text == "export" or any(_EXPORTS.match(f.text) for f in fields[1:])
    for field in fields[1:]:
        text = field.prefix if field.dynamic else field.text
        name = text.partition("=")[0].rstrip("+")
        if inner and _NAME.fullmatch(name):
            run.state.locals.setdefault(name, run.state.lookup(name))
        if text.startswith("-") and not field.dynamic:
            if fields[0].text != "export" and set(text) & {"n", "i", "u", "l", "c"}:
                run.unknown(text, "values of this kind are not tracked", fields[0].text)
            continue
        name, equals, value = text.partition("=")
        if field.dynamic and not equals:
            run.unknown(field.text, "which variable is set is not known", fields[0].text)
            run.state.forget()
        elif equals:
            append = name.endswith("+")
            value_known = None if field.dynamic or append else value
            run.set(name.rstrip("+"), value_known, exported=exported)
        elif inner and _NAME.fullmatch(name):
            run.state.assign(name, None)
        elif name:
            run.set(name, run.state.lookup(name), exported=exported)
    return "" if len(fields) > 1 else None


def _read(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str:
    _note(run, fields)
    _check_named(run, fields)
    for field in fields[1:]:
        name = _NAME.match(field.text)
        if not field.dynamic and name and not field.text.startswith("-"):
            run.set(name.group(), None)
    if fields[0].text in {"mapfile", "readarray"} and any(f.text == "-C" for f in fields):
        run.unknown("mapfile -C", "runs a command for the lines it reads", fields[0].text)
    for name_of_reply in ("REPLY", "MAPFILE", "OPTARG"):
        run.state.assign(name_of_reply, None)
    return ""


def _unset(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str:
    _note(run, fields)
    _check_named(run, fields)
    for field in fields[1:]:
        run.state.unsure.add(field.text)
        if field.text == "PATH":
            run.unknown("unset PATH", "programs would be searched for in this folder", "unset")
        if _NAME.fullmatch(field.text):
            run.state.assign(field.text, None)
    if any(field.dynamic for field in fields):
        run.state.forget()
    return ""


def _let(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str:
    _note(run, fields)
    for field in fields[1:]:
        if not field.number:
            expander = Expander(run.walk, run.state, run.around)
            expander.calculate((Quoted("$" if field.dynamic else field.text),))
    return ""


def _command(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str | None:
    words = fields[1:]
    while words and not words[0].dynamic and words[0].text.startswith("-"):
        option, words = words[0].text, words[1:]
        if option == "--":
            break
        if option != "-p":
            _note(run, fields)
            return None
    if not words:
        return _silent(run, fields)
    return run.inside().words(words, functions=False)


def _exec(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str | None:
    words = fields[1:]
    while words and not words[0].dynamic and words[0].text.startswith("-"):
        option, words = words[0].text, words[1:]
        if option.endswith("a"):
            words = words[1:]
        if option == "--":
            break
    if words:
        return run.inside().words(words, functions=False)
    stdin = run.redirected.stdin
    _note(run, fields)
    if stdin is not None:
        run.unknown("exec <", "the shell reads its commands from elsewhere", "exec")
    return ""


def _shopt(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str | None:
    _note(run, fields)
    names = [f for f in fields[1:] if f.dynamic or not f.text.startswith("-")]
    changing = any(f.text.startswith("-") and set(f.text) & {"s", "u"} for f in fields[1:])
    for name in names:
        if changing and name.text not in _SAFE_SHOPT | _SAFE_SET_NAMES:
            run.unknown(f"shopt {name.text}", "the shell will read commands differently", "shopt")
    return "" if changing else None


def _odd(run: SimpleCommandRun, fields: list[ExpandedWord]) -> None:
    """Commands that can make the shell run anything."""
    _note(run, fields)
    if len(fields) > 1:
        run.unknown(" ".join(f.text for f in fields), "changes what the shell runs", fields[0].text)


def _wait(run: SimpleCommandRun, fields: list[ExpandedWord]) -> None:
    _plain(run, fields)
    if any(field.text.startswith("-") and "p" in field.text for field in fields[1:]):
        _check_named(run, fields)


def _jobs(run: SimpleCommandRun, fields: list[ExpandedWord]) -> str | None:
    if len(fields) > 2 and fields[1].text == "-x":
        return run.inside().words(fields[2:])
    _note(run, fields)
    return None


def _history(run: SimpleCommandRun, fields: list[ExpandedWord]) -> None:
    """Shows what was run; with options it writes and reads files."""
    if any(field.text.startswith("-") or field.dynamic for field in fields[1:]):
        _odd(run, fields)
    else:
        _plain(run, fields)


BUILTINS: dict[str, Builtin] = {
    "echo": _echo, "printf": _printf, "eval": _eval, "source": _source, ".": _source,
    "trap": _trap, "alias": _alias, "cd": _cd, "pushd": _cd, "popd": _popd, "set": _set,
    "shift": _shift, "declare": _declare, "typeset": _declare, "local": _declare,
    "export": _declare, "readonly": _declare, "read": _read, "mapfile": _read,
    "readarray": _read, "getopts": _read, "unset": _unset, "let": _let, "command": _command,
    "builtin": _command, "exec": _exec, "shopt": _shopt, "hash": _odd, "enable": _odd,
    "bind": _odd, "fc": _odd, "complete": _odd, "compgen": _odd, "jobs": _jobs,
    ":": _silent, "true": _silent, "false": _silent, "test": _test, "[": _test, "exit": _silent,
    "return": _silent, "break": _silent, "continue": _silent, "wait": _wait, "pwd": _plain,
    "type": _plain, "umask": _plain, "ulimit": _plain, "times": _plain, "dirs": _plain,
    "disown": _plain, "bg": _plain, "fg": _plain, "suspend": _plain, "caller": _plain,
    "help": _plain, "history": _history, "logout": _plain, "unalias": _plain,
}  # fmt: skip
