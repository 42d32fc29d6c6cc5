"""Programs that run other programs in ways that the table cannot say."""

import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from hermes_agent.core.effects import Access, Operation, PathAccess
from hermes_agent.policy.shell.interpreter.collector import places_of
from hermes_agent.policy.shell.interpreter.interpreter import SimpleCommandRun
from hermes_agent.policy.shell.interpreter.state import UNSEEN, ExpandedWord, Stdin, absolute
from hermes_agent.policy.shell.programs.program_call import ROLES, ProgramCall, follow
from hermes_agent.policy.shell.programs.table import ProgramSpec, sort_words, spec
from hermes_agent.policy.word_lists import word_list

Special = Callable[[SimpleCommandRun, str, list[ExpandedWord]], str | None]


def _note(
    run: SimpleCommandRun, name: str, fields: list[ExpandedWord], own: Sequence[PathAccess] = (),
    flags: Sequence[str] | None = None,
) -> None:  # fmt: skip
    places, hosts = run.redirected.take()
    if flags is None:
        flags = [field.text for field in fields[1:] if field.text.startswith("-")]
    run.walk.note.program(
        name, fields, run.around, flags=flags, places=[*own, *places], hosts=hosts
    )


def _inside(run: SimpleCommandRun, name: str) -> SimpleCommandRun:
    state = run.state.copy()
    state.functions = {}
    return run.inside(name, state=state)


def _env(run: SimpleCommandRun, name: str, fields: list[ExpandedWord]) -> str | None:
    """Options, assignments, then a program."""
    found = spec(name) or ProgramSpec({})
    reading = sort_words(name, found, fields[1:])
    inside = _inside(run, name)
    rest = reading.rest or []
    for option, _, value in reading.values:
        if option in {"-C", "--chdir"}:
            inside.state.folders = (None,)
        elif option in {"-S", "--split-string"}:
            plain = not value.dynamic and bool(re.fullmatch(r"[\w\s./=:,+@%-]*", value.text))
            if not plain:
                run.unknown(value.text, "what env splits and runs", name)
                return None
            rest = [*map(ExpandedWord, value.text.split()), *rest]
    if reading.unlisted or reading.unsure:
        run.unknown(" ".join(f.text for f in fields), f"where the command of {name} starts", name)
    if rest and rest[0].text == "-":
        rest = rest[1:]
    while rest and "=" in (rest[0].prefix if rest[0].dynamic else rest[0].text):
        variable, _, text = rest[0].text.partition("=")
        inside.set(variable, None if rest[0].dynamic else text, exported=True)
        rest = rest[1:]
    if not rest:
        _note(run, name, fields)
        return None
    return inside.words(rest, functions=False)


def _xargs(run: SimpleCommandRun, name: str, fields: list[ExpandedWord]) -> str | None:
    """Words from the input behind the words that are given."""
    found = spec(name) or ProgramSpec({})
    reading = sort_words(name, found, fields[1:])
    inside = _inside(run, name)
    inside.around = inside.around.fed(None)
    rest = list(reading.rest or [ExpandedWord("echo")])
    if reading.unlisted or reading.unsure:
        run.unknown(" ".join(f.text for f in fields), f"where the command of {name} starts", name)
    files = [value for option, _, value in reading.values if option in {"-a", "--arg-file"}]
    if files:
        _note(run, name, fields, [p for file in files for p in places_of(file, "read", run.state)])
    mark = next((v.text for o, _, v in reading.values if o in {"-I", "--replace", "-i"}), None)
    if mark is None and {"-i", "--replace"} & set(reading.flags):
        mark = "{}"
    stdin = run.around.stdin
    text = stdin.text if stdin is not None else None
    if mark is not None:
        return inside.words([_marked(field, mark) for field in rest], functions=False)
    known = text is not None and not reading.values and set(reading.flags) <= {"-r", "-t"}
    if known and text is not None and not set(text) & set("'\"\\"):
        return inside.words([*rest, *map(ExpandedWord, text.split()[:500])], functions=False)
    return inside.words([*rest, UNSEEN], functions=False)


def _marked(field: ExpandedWord, mark: str) -> ExpandedWord:
    """A word in which what is not known replaces the mark."""
    if mark not in field.text or field.dynamic:
        return field
    return ExpandedWord(field.text, dynamic=True, prefix=field.text.partition(mark)[0])


def _parallel(run: SimpleCommandRun, name: str, fields: list[ExpandedWord]) -> str | None:
    _note(run, name, fields)
    run.unknown(" ".join(f.text for f in fields), "parallel composes what it runs", name)
    words = [field for field in fields[1:] if not field.text.startswith("-")]
    if words:
        inside = _inside(run, name)
        inside.words([*words, UNSEEN], functions=False)
    return None


_FIND_FILES: dict[str, tuple[Access, int]] = {
    "-fprint": ("write", 1), "-fprint0": ("write", 1), "-fls": ("write", 1),
    "-fprintf": ("write", 2), "-newer": ("read", 1), "-anewer": ("read", 1),
    "-cnewer": ("read", 1), "-samefile": ("read", 1),
}  # fmt: skip
_FIND_VALUES = word_list("find_values")
_FIND_LEADS = re.compile(r"-[HLPD]|-O\d*")
"""Options that stand before the folders."""
_FIND_PLAIN = re.compile(
    r"-(?:print0?|ls|depth|d|mount|xdev|follow|noleaf|empty|readable|writable|executable|prune"
    r"|quit|true|false|nouser|nogroup|not|a|o|and|or|daystart|warn|nowarn|[HLP]|O[0-9]|delete"
    r"|ignore_readdir_race|noignore_readdir_race|help|version|-help|-version|newer[aBcm][aBcmt])"
)


def _find(run: SimpleCommandRun, name: str, fields: list[ExpandedWord]) -> str | None:
    """Folders, then tests and what to do with what is found."""
    roots: list[ExpandedWord] = []
    flags: list[str] = []
    places = []
    commands: list[tuple[str, list[ExpandedWord]]] = []
    at = 1
    access: Access = "read"
    tests = False
    while at < len(fields):
        field = fields[at]
        text = field.text
        at += 1
        if field.dynamic and field.maybe_option:
            run.unknown(text, f"may be an option of {name}", name)
            roots.append(field)
        elif field.dynamic or not text.startswith("-"):
            if not tests and text not in {"(", ")", "!", ","}:
                roots.append(field)
        else:
            flags.append(text)
            tests = tests or not _FIND_LEADS.fullmatch(text)
            if text in {"-exec", "-execdir", "-ok", "-okdir"}:
                end = at
                while (
                    end < len(fields)
                    and fields[end].text != ";"
                    and not (fields[end].text == "+" and fields[end - 1].text == "{}")
                ):
                    end += 1
                commands.append((text, [_marked(one, "{}") for one in fields[at:end]]))
                at = end + 1
            elif text in _FIND_FILES:
                kind, count = _FIND_FILES[text]
                if at < len(fields):
                    places += places_of(fields[at], kind, run.state)
                at += count
            elif text in _FIND_VALUES:
                at += 1
            elif not _FIND_PLAIN.fullmatch(text):
                run.unknown(text, f"not a known option of {name}", name)
            else:
                access = "delete" if text == "-delete" else access
                at += 1 if text.startswith("-newer") else 0
    for root in roots or [ExpandedWord(".")]:
        places += places_of(root, access, run.state)
    _note(run, name, fields, places, flags)
    for option, words in commands:
        inside = _inside(run, name)
        folder = run.state.folders[0] if len(run.state.folders) == 1 else None
        if option.endswith("dir"):
            inside.state.folders = (None,)
        # what is found lies in the folders that are given
        found = [one for word in words for one in _found(word, roots, folder)]
        if found:
            before = len(run.walk.note.acts)
            inside.words(found, functions=False)
            if not _FIND_KINDS.search(" ".join(f.text for f in fields)):
                _check_written(inside, list(run.walk.note.acts)[before:], found)
    return None


_FIND_KINDS = re.compile(r"^(?!.* (?:-o|-or|,|!|-not) ).* -i?name \*\.\w+ ")
"""A search for files of one kind, none of which is run or trusted by other programs."""


def _check_written(run: SimpleCommandRun, acts: list[Operation], found: list[ExpandedWord]) -> None:
    """What is written may be any file below the folders, such as one of git's own."""
    names = {word.text for word in found if word.text.endswith("//")}
    if any(p.access == "write" and p.given in names for act in acts for p in act.places):
        run.unknown(" ".join(word.text for word in found), "which files it writes", "find")


def _found(word: ExpandedWord, roots: list[ExpandedWord], folder: str | None) -> list[ExpandedWord]:
    """The folder with two slashes stands for whatever is in it: no program is called like that."""
    roots = roots or [ExpandedWord(".")]
    if word.text != "{}" or any(root.dynamic or root.glob for root in roots):
        return [word]
    paths = (absolute(root.text, folder) or root.text for root in roots)
    return [ExpandedWord(f"{path.rstrip('/')}//") for path in paths]


def _busybox(run: SimpleCommandRun, name: str, fields: list[ExpandedWord]) -> str | None:
    if len(fields) < 2 or fields[1].text.startswith("-"):
        _note(run, name, fields)
        return None
    return _inside(run, name).plain(fields[1:]) if not fields[1].dynamic else run.words(fields[1:])


def _tar(run: SimpleCommandRun, name: str, fields: list[ExpandedWord]) -> str | None:
    """`tar xzf file` is `tar -xzf file`."""
    words = fields[1:]
    if words and not words[0].dynamic and re.fullmatch(r"[A-Za-z]+", words[0].text):
        letters = words[0].text
        valued = [letter for letter in letters if letter in "fCTXbIgKLNVHF"]
        if len(valued) > 1:
            run.unknown(words[0].text, "options of tar that take several values", name)
        plain = "".join(letter for letter in letters if letter not in valued)
        words = [ExpandedWord(f"-{plain}{''.join(valued)}"), *words[1:]]
    found = spec(name) or ProgramSpec({})
    call = ProgramCall(run, name, [fields[0], *words], sort_words(name, found, words))
    flags = set(call.reading.flags)
    writes = bool(flags & {"-x", "--extract", "--get"}) and not flags & {"-O", "--to-stdout"}
    if writes and not flags & {"-C", "--directory"}:
        call.place(ExpandedWord("."), "write")
    for option, _, value in call.reading.values:
        if option in {"-f", "--file"}:
            new = flags & {"-c", "-r", "-u", "-A", "--create", "--append", "--update", "--delete"}
            ROLES["to" if new else "from"](call, value, option)
        elif option in {"-C", "--directory"}:
            call.place(value, "write" if writes else "read")
    call.reading.operands = [
        ("." if flags & {"-x", "-t", "--extract", "--get", "--list"} else role, field)
        for role, field in call.reading.operands
    ]
    call.fields = fields
    follow(call)
    return None


def _ssh(run: SimpleCommandRun, name: str, fields: list[ExpandedWord]) -> str | None:
    """Words behind the host are shell text there; without any, the input is."""
    found = spec(name) or ProgramSpec({})
    call = ProgramCall(run, name, fields, sort_words(name, found, fields[1:]))
    stdin = run.around.stdin
    silent = {"-N", "-f", "-G", "-V", "-O", "-Q"} & set(call.reading.flags)
    follow(call)
    if call.reading.operands and not call.reading.rest and stdin is not None and not silent:
        if stdin.text is None:
            run.unknown(name, "what is piped to the other machine's shell is not known", name)
        else:
            inside = call.inside(far=True)
            inside.around = inside.around.fed(Stdin())
            inside.walk.text(stdin.text, inside.state, inside.around)
    return None


def _from_stdin(run: SimpleCommandRun, name: str, fields: list[ExpandedWord]) -> str | None:
    """at, batch, crontab: what they read will run."""
    found = spec(name) or ProgramSpec({})
    call = ProgramCall(run, name, fields, sort_words(name, found, fields[1:]))
    follow(call)
    stdin = run.around.stdin
    words = [field for role, field in call.reading.operands if role != "."]
    listing = {"-l", "-r", "-e", "-d", "-c", "-V", "-f"} & set(call.reading.flags)
    if name == "crontab":
        if not listing and (words or stdin is not None):
            run.unknown(name, "which jobs are installed is not known", name)
    elif not listing and stdin is not None:
        if stdin.text is None:
            run.unknown(name, "what will run later is not known", name)
        else:
            inside = call.inside()
            around = replace(inside.around, bash=False, stdin=Stdin())
            inside.walk.text(stdin.text, inside.state, around)
    return None


WRAPPERS: dict[str, Special] = {
    "env": _env, "xargs": _xargs, "parallel": _parallel, "find": _find, "busybox": _busybox,
    "toybox": _busybox, "tar": _tar, "gtar": _tar, "bsdtar": _tar, "ssh": _ssh,
    "at": _from_stdin, "batch": _from_stdin, "crontab": _from_stdin,
}  # fmt: skip
