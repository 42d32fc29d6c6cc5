"""Shells and interpreters: what they are told to run."""

import re
from collections.abc import Callable

from msgspec.structs import replace

from hermes_agent.core.effects import PathAccess
from hermes_agent.policy.shell.interpreter.collector import places_of
from hermes_agent.policy.shell.interpreter.interpreter import SimpleCommandRun
from hermes_agent.policy.shell.interpreter.state import ExpandedWord, State, Stdin
from hermes_agent.policy.word_lists import word_list

Special = Callable[[SimpleCommandRun, str, list[ExpandedWord]], str | None]

_SHELL_FLAGS = re.compile(r"[-+][abefhiklmnprstuvxBCDEHPT]*")
_SHELL_LONG = frozenset(
    {"--login", "--norc", "--noprofile", "--posix", "--restricted", "--verbose", "--noediting"}
)
_QUIET = frozenset({"--version", "--help", "-V", "-h", "--dump-strings"})
_FOREIGN = frozenset({"fish", "csh", "tcsh", "nu", "pwsh", "powershell", "xonsh", "elvish"})
_MODULES = frozenset({"json.tool", "this", "calendar", "tabnanny", "py_compile"})
_STDIN_FILES = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})


def _note(
    run: SimpleCommandRun,
    name: str,
    fields: list[ExpandedWord],
    places: list[PathAccess] | None = None,
) -> None:
    more, hosts = run.redirected.take()
    flags = [f.text for f in fields[1:] if f.text.startswith("-") and not f.dynamic]
    run.walk.note.program(
        name, fields, run.around, flags=flags, places=[*(places or []), *more], hosts=hosts,
        reason="it runs code",
    )  # fmt: skip


def _child(run: SimpleCommandRun, name: str) -> SimpleCommandRun:
    state = State(run.state.folders, run.state.home)
    state.defined = run.state.defined
    inside = run.inside(name, state=state)
    inside.around = replace(inside.around, bash=name in {"bash", "rbash"})
    return inside


def _follow(run: SimpleCommandRun, name: str, text: str, stdin: Stdin | None) -> str | None:
    inside = _child(run, name)
    if name in _FOREIGN:
        run.unknown(text, f"{name} has its own command syntax", name)
    return inside.walk.text(text, inside.state, inside.around.fed(stdin))


def _shell(run: SimpleCommandRun, name: str, fields: list[ExpandedWord]) -> str | None:
    words = fields[1:]
    command = stdin_text = False
    while words and not words[0].dynamic and words[0].text[:1] in {"-", "+"}:
        option, words = words[0].text, words[1:]
        if option in _QUIET:
            _note(run, name, fields)
            return None
        if option in {"--", "-"}:
            break
        if option in _SHELL_LONG:
            continue
        letters = option.replace("c", "").replace("o", "").replace("O", "")
        if option.startswith("--") or not _SHELL_FLAGS.fullmatch(letters) or "O" in option:
            run.unknown(option, f"not a known option of {name}", name)
        command = command or "c" in option
        stdin_text = stdin_text or "s" in option
        if "o" in option or "O" in option:
            words = words[1:]
    if command:
        return _command_text(run, name, fields, words)
    stdin = run.around.stdin
    if words and not stdin_text:
        return _script_file(run, name, fields, words)
    if stdin is None:
        _note(run, name, fields)
        return None
    if stdin.text is None:
        _note(run, name, fields)
        run.unknown(name, f"what {name} is given to run is not known", name)
        return None
    return _follow(run, name, stdin.text, Stdin())


def _command_text(
    run: SimpleCommandRun, name: str, fields: list[ExpandedWord], words: list[ExpandedWord]
) -> str | None:
    if not words or words[0].dynamic or words[0].glob:
        _note(run, name, fields)
        run.unknown(words[0].text if words else name, f"what {name} -c runs is not known", name)
        return None
    inside = _child(run, name)
    inside.state.positional = tuple(words[2:])
    if name in _FOREIGN:
        run.unknown(words[0].text, f"{name} has its own command syntax", name)
    return inside.walk.text(words[0].text, inside.state, inside.around)


def _script_file(
    run: SimpleCommandRun, name: str, fields: list[ExpandedWord], words: list[ExpandedWord]
) -> str | None:
    script = words[0]
    if script.text in _STDIN_FILES and run.around.stdin is not None:
        if run.around.stdin.text is not None:
            return _follow(run, name, run.around.stdin.text, Stdin())
        run.unknown(name, f"what {name} is given to run is not known", name)
    if script.content is not None:
        return _follow(run, name, script.content, run.around.stdin)
    _note(run, name, fields, places_of(script, "read", run.state))
    if script.dynamic:
        run.unknown(script.text, f"what {name} is given to run is not known", name)
    return None


def _python(run: SimpleCommandRun, name: str, fields: list[ExpandedWord]) -> str | None:
    """Code is unknown; a file of code is a place that is read."""
    words = fields[1:]
    while words and not words[0].dynamic and words[0].text.startswith("-") and words[0].text != "-":
        option, words = words[0].text, words[1:]
        if option in {"-V", "-VV", "--version", "-h", "--help"}:
            _note(run, name, fields)
            return None
        if option in {"-W", "-X"}:
            words = words[1:]
        elif option.startswith("-m"):
            module = option[2:] or (words[0].text if words else "")
            _note(run, name, fields)
            if module not in _MODULES:
                run.unknown(module, f"the module that {name} runs", name)
            return None
        elif not re.fullmatch(r"-[bBdEiIOPqsSuvx]+|--", option):
            _note(run, name, fields)
            run.code(words[0].text if words else option, f"code for {name}", name)
            return None
    _interpret(run, name, fields, words)
    return None


def _interpret(
    run: SimpleCommandRun, name: str, fields: list[ExpandedWord], words: list[ExpandedWord]
) -> None:
    """A file of code, or the input."""
    script = words[0] if words else None
    places = []
    if script is not None and script.text not in _STDIN_FILES:
        places = places_of(script, "read", run.state)
    _note(run, name, fields, places)
    stdin = run.around.stdin
    if (script is None or script.text in _STDIN_FILES) and stdin is not None:
        run.code(stdin.text or name, f"code for {name}", name)
    elif script is not None and script.dynamic:
        run.unknown(script.text, f"what {name} is given to run is not known", name)


def _coder(run: SimpleCommandRun, name: str, fields: list[ExpandedWord]) -> str | None:
    """Interpreters whose every option may be code."""
    words = fields[1:]
    if words and words[0].text in {"-v", "-V", "--version", "-h", "--help"} and len(words) == 1:
        _note(run, name, fields)
        return None
    if words and (words[0].text.startswith(("-", "+")) and words[0].text != "-"):
        _note(run, name, fields)
        run.code(" ".join(f.text for f in words), f"code for {name}", name)
        return None
    _interpret(run, name, fields, words)
    return None


_SHELLS = word_list("shells")
_CODERS = word_list("coders")
INTERPRETERS: dict[str, Special] = {
    **dict.fromkeys(_SHELLS, _shell),
    **dict.fromkeys(("python", "python3", "pypy", "pypy3"), _python),
    **dict.fromkeys(_CODERS, _coder),
}
