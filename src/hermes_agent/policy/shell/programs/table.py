"""Reads the words of a program with the table of programs: options and their values, verbs,
operands, and which of them are places, hosts or commands.

`programs.table` has a line for each program, or for several, or for a verb of one:

    name[,name…] [verb[,verb…]] | items ; operands

An item is an option, `-o,--output`, with what follows it:
    (nothing)   it takes no value            =ROLE   it takes a value
    ?ROLE       a value only if attached     !ROLE   with it, all operands have this role
                (?unknown: unknown without one, too)
                                             ^ROLE   with it, operands to read have this role
or a word about the program:
    verbs=N     its first N operands say what it does
    deep=a,b/c  these verbs have another word
    until=a,b   the verb ends with one of these
    words       its options have one dash and many letters
    bare        a wrapper: when it runs something, that is what counts
    first       its options end where its command could start, or with the first operand
    input=ROLE  what it makes of its standard input
    far         what it runs, runs elsewhere: nothing is known of the folder there
    risky       options that run, write or remove: a word that could be any option is unknown
    closed      all its options that are harmless stand here: any other is unknown, and so is one
                that is shortened, or that stands where a value should
Operands are roles: `read* write` is any number to read and one to write; `.` is just a word.
"""

import re
from functools import cache
from itertools import product
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes_agent.policy.shell.interpreter.state import ExpandedWord

PLAIN = "."


class Option(Struct, frozen=True):
    name: str
    value: str
    """`""` for none, `=` for one, `?` for one that is attached."""
    role: str
    operands: str
    """What the option makes of the operands: `!role` for all, `^role` for those to read."""
    names: tuple[str, ...] = ()
    """All of its names."""


class ProgramSpec(Struct):
    options: dict[str, Option]
    operands: tuple[str, ...] = ()
    verbs: int = 0
    deep: frozenset[str] = frozenset()
    until: frozenset[str] = frozenset()
    words: bool = False
    bare: bool = False
    far: bool = False
    risky: bool = False
    closed: bool = False
    first: bool = False
    input: str = ""


class Reading(Struct):
    """The words of one program, sorted."""

    verb: str = ""
    flags: list[str] = []
    values: list[tuple[str, str, ExpandedWord]] = []
    """Option, role and value of each option with a value."""
    given: list[tuple[str, str | None]] = []
    """Options with their values, as `Act.options` has them."""
    operands: list[tuple[str, ExpandedWord]] = []
    rest: list[ExpandedWord] | None = None
    """The words of the command that it runs, from the role `run` on."""
    unlisted: list[str] = []
    unsure: list[ExpandedWord] = []
    """Words that may turn out to be options."""
    spec: ProgramSpec = msgspec.field(default_factory=lambda: ProgramSpec({}))


@cache
def table() -> dict[str, str]:
    """The line of each program, and of each verb that has one."""
    text = Path(__file__).with_name("programs.table").read_text("utf-8")
    found: dict[str, str] = {}
    for line in text.replace("\n    ", " ").splitlines():
        if line and line[0] != "#":
            names, _, items = line.partition("|")
            head, _, verbs = names.strip().partition(" ")
            for name, verb in product(head.split(","), verbs.split(",")):
                key = f"{name} {verb.strip()}".strip()
                if key in found:
                    raise ValueError(f"{key!r} has two lines in programs.table")
                found[key] = items
    return found


@cache
def spec(name: str) -> ProgramSpec | None:
    """The line of a program, or of `program verb`, taken apart when first asked for."""
    line = table().get(name)
    if line is None:
        return None
    items, _, operands = line.partition(";")
    found = ProgramSpec({}, tuple(operands.split()))
    for item in items.split():
        if item.startswith("-"):
            _add_option(found, item)
        elif item.startswith("verbs="):
            found.verbs = int(item[6:])
        elif item.startswith("deep="):
            found.deep = frozenset(item[5:].split(","))
        elif item.startswith("until="):
            found.until = frozenset(item[6:].split(","))
        elif item.startswith("input="):
            found.input = item[6:]
        elif item in {"words", "bare", "far", "risky", "closed", "first"}:
            setattr(found, item, True)
        else:
            raise ValueError(f"the line of {name!r} in programs.table has {item!r}")
    return found


def _add_option(found: ProgramSpec, item: str) -> None:
    names, operands = item, ""
    for sign in "!^":
        if sign in item:
            names, _, operands = item.partition(sign)
            operands = sign + operands
    value = ""
    role = PLAIN
    for sign in "=?":
        if sign in names:
            value = sign
            names, _, role = names.partition(sign)
            break
    alike = tuple(names.split(","))
    for name in alike:
        if name in found.options:
            raise ValueError(f"{name!r} stands twice in a line of programs.table")
        found.options[name] = Option(name, value, role or PLAIN, operands, alike)


@cache
def merged(program: str, verb: str) -> ProgramSpec | None:
    """The line of a verb with the options of its program."""
    own = spec(f"{program} {verb}")
    base = spec(program)
    if own is None or base is None:
        return None
    return ProgramSpec(
        base.options | own.options, own.operands, base.verbs, base.deep, base.until,
        base.words, base.bare, base.far or own.far, base.risky or own.risky,
        base.closed or own.closed, own.first, own.input or base.input,
    )  # fmt: skip


def runs_elsewhere(program: str, verb: str) -> bool:
    """Whether what it runs, runs on another machine or in a container."""
    found = merged(program, verb) or spec(program)
    return found is not None and found.far


class _Sorter:
    """Sorts one program's words."""

    def __init__(self, program: str, spec: ProgramSpec, fields: list[ExpandedWord]) -> None:
        self.program = program
        self.spec = spec
        self.fields = fields
        self.at = 0
        self.verb: list[str] = []
        self.verb_open = spec.verbs > 0
        self.operands: list[ExpandedWord] = []
        self.changes: list[str] = []
        self.doubtful: list[str] = []
        """Options that are shortened, and values that look like one."""
        self.reading = Reading()
        self.run_at = self.place_of_run()
        self.ended = False
        """Whether nothing is an option any longer."""

    def place_of_run(self) -> int | None:
        roles = self.spec.operands
        return next((n for n, role in enumerate(roles) if role in {"run", "shells"}), None)

    def sort(self) -> Reading:
        reading = self.reading
        while self.at < len(self.fields):
            field = self.fields[self.at]
            text = field.prefix if field.dynamic else field.text
            self.at += 1
            if self.ended or len(text) < 2 or text[0] != "-":
                if field.maybe_option and not self.ended:
                    reading.unsure.append(field)
                if self.operand(field):
                    break
            elif text == "--" and not field.dynamic:
                self.ended = True
                if self.run_at is not None and not self.verb_open and self.spec.far:
                    # behind `kubectl exec pod --` stands the command, whatever came before
                    reading.rest = self.fields[self.at :]
                    break
            elif (
                self.spec.words
                or text.startswith("--")
                or text.partition("=")[0] in self.spec.options
            ):
                self.long(field, text)
            else:
                self.short(field, text)
        if self.spec.closed:
            reading.unlisted += self.doubtful
        if reading.unsure:
            reading.given.append(("", None))
        reading.verb = " ".join(self.verb)
        reading.spec = self.spec
        self.assign_roles()
        return reading

    def operand(self, field: ExpandedWord) -> bool:
        """Take an operand; True when the command that the program runs starts with it."""
        if self.verb_open:
            self.take_verb(field)
            return False
        if self.run_at is not None and len(self.operands) >= self.run_at:
            self.reading.rest = self.fields[self.at - 1 :]
            if self.spec.far and "shells" not in self.spec.operands and self.later_dashes():
                self.reading.unlisted.append("--")  # `kubectl exec pod ls -- rm` runs rm
            return True
        self.operands.append(field)
        self.ended = self.ended or (self.spec.first and self.run_at is None)
        if self.spec.first and len(self.operands) == self.run_at:
            self.reading.rest = self.fields[self.at :]
            return True
        return False

    def later_dashes(self) -> bool:
        return any(field.text == "--" for field in self.fields[self.at :])

    def take_verb(self, field: ExpandedWord) -> None:
        unsure = self.reading.unlisted or self.reading.unsure or re.search(r"\s", field.text)
        if field.dynamic or field.glob or unsure:
            self.verb_open = False  # nobody can tell which word is the verb
            self.verb = []
            self.operands.append(field)
            return
        self.verb.append(field.text)
        said = ("/".join(self.verb[:count]) for count in range(1, len(self.verb) + 1))
        wanted = self.spec.verbs + sum(words in self.spec.deep for words in said)
        last = field.text in self.spec.until
        self.verb_open = len(self.verb) < wanted and not last
        own = merged(self.program, " ".join(self.verb))
        if own is not None:
            self.spec = own
            self.run_at = self.place_of_run()

    def option(self, name: str) -> Option | None:
        found = self.spec.options.get(name)
        if found is not None and found.role == "repository" and self.verb:
            return None  # behind the verb it is another one
        if found is None and name.startswith("--") and len(name) > 2:
            # long options may be shortened
            longer = sorted(full for full in self.spec.options if full.startswith(name))
            if longer:
                self.reading.flags.extend(longer)
                self.doubtful.append(name)
                if len(longer) > 1:
                    self.reading.unlisted.append(name)  # nobody can tell which
                return self.spec.options[longer[0]]
        return found

    def long(self, field: ExpandedWord, text: str) -> None:
        name, equals, value = text.partition("=")
        self.reading.flags.append(name)
        if self.spec.words and name.startswith("--"):
            name = name[1:]  # two dashes will do as well
            self.reading.flags.append(name)
        if field.dynamic and not equals:
            self.reading.unsure.append(field)
            return
        option = self.option(name)
        attached = None
        if equals:
            attached = (
                ExpandedWord(field.text, dynamic=True) if field.dynamic else _part(field, value)
            )
        if option is None:
            self.reading.unlisted.append(name)
            self.reading.given.append((name, _known(attached)))
            if name.startswith("--"):
                self.reading.flags.append(f"{name}*")  # it may be short for another
            return
        self.value(option, attached)

    def short(self, field: ExpandedWord, text: str) -> None:
        if text[1:].isdigit():
            self.reading.flags.append(text)
            return
        for at, letter in enumerate(text[1:], 1):
            name = f"-{letter}"
            self.reading.flags.append(name)
            option = self.option(name)
            if option is None:
                self.reading.unlisted.append(name)
                self.reading.given.append((name, None))
            elif option.value or option.operands:
                attached = None
                if option.value and field.dynamic:
                    attached = ExpandedWord(field.text, dynamic=True)
                elif option.value and at + 1 < len(text):
                    attached = _part(field, text[at + 1 :])
                self.value(option, attached)
                if option.value:
                    return
            else:
                self.give(option, "")
        if field.dynamic:
            self.reading.unsure.append(field)

    def value(self, option: Option, attached: ExpandedWord | None) -> None:
        if attached is None and option.value == "=":
            if self.at >= len(self.fields):
                self.give(option, "")
                return
            attached = self.fields[self.at]
            self.at += 1
            if re.match(r"-[^\d-]|--.", attached.text) and not attached.dynamic:
                self.reading.unsure.append(attached)  # other versions may take it for an option
                self.doubtful.append(attached.text)
        self.give(option, "" if attached is None else _known(attached))
        if attached is None and option.role == "unknown":
            attached = ExpandedWord(option.name)
        if attached is not None and option.value:
            self.reading.values.append((option.name, option.role, attached))
        if option.operands:
            self.changes.append(option.operands)

    def give(self, option: Option, value: str | None) -> None:
        for name in option.names:
            self.reading.given.append((name, value))
            if self.spec.words:
                self.reading.given.append((f"-{name}", value))

    def assign_roles(self) -> None:
        roles = tuple(role for role in self.spec.operands if role not in {"run", "shells"})
        for change in sorted(self.changes):  # `!` before `^`
            if change.startswith("!"):
                roles = (f"{change[1:]}*",)
            else:
                roles = tuple(role.replace("read", change[1:]) for role in roles)
        star = next((n for n, role in enumerate(roles) if role.endswith("*")), None)
        count = len(self.operands)
        for number, field in enumerate(self.operands):
            if star is None or number < star:
                role = roles[number] if number < len(roles) else PLAIN
            else:
                after = len(roles) - star - 1
                behind = number - (count - after)
                role = roles[star + 1 + behind] if behind >= 0 else roles[star]
            self.reading.operands.append((role.rstrip("*"), field))


def _part(field: ExpandedWord, value: str) -> ExpandedWord:
    return ExpandedWord(value, glob=field.glob)


def _known(value: ExpandedWord | None) -> str | None:
    return None if value is None or value.dynamic or value.glob else value.text


def sort_words(program: str, found: ProgramSpec, fields: list[ExpandedWord]) -> Reading:
    return _Sorter(program, found, fields).sort()
