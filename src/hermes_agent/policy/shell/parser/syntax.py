"""The parts of a shell text, as `parse` finds them and `walk` follows them."""

from msgspec import Struct


class UnreadableShell(Exception):  # caught by `read`, which says `unknown` instead
    """The text is not one that bash would surely read the way we do."""


class Literal(Struct, gc=False):
    """Unquoted text: braces, tildes and glob signs in it mean something."""

    text: str


class Quoted(Struct, gc=False):
    """Text that stands for itself."""

    text: str


class ParameterExpansion(Struct):
    """`$name` or `${…}`."""

    name: str
    quoted: bool
    operator: str = ""
    """What stands after the name (`:-`, `%`, `/`), or `!name` before it, or `length`."""
    argument: "tuple[Part, ...]" = ()
    index: "tuple[Part, ...] | None" = None


class Substitution(Struct):
    """`$(…)` or backticks."""

    body: "Script"
    quoted: bool


class Arithmetic(Struct):
    """`$((…))`: only what it would expand is of interest."""

    parts: "tuple[Part, ...]"


class Process(Struct):
    """`<(…)` or `>(…)`."""

    body: "Script"
    reads: bool


Part = Literal | Quoted | ParameterExpansion | Substitution | Arithmetic | Process
Parts = tuple[Part, ...]


class Word(Struct):
    parts: Parts
    source: str
    start: int = -1
    """Where it stands in the text that `read` was given; -1 when it stands in a string."""
    end: int = -1


class Assignment(Struct):
    name: str
    value: Word | None
    array: tuple[Word, ...] | None = None
    index: Parts | None = None
    append: bool = False


class Redirection(Struct):
    operator: str
    target: Word
    fd: str = ""
    body: Parts | None = None
    """The text of a here-document."""


class Simple(Struct):
    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...]
    arrays: tuple[Assignment, ...] = ()
    """`declare a=(…)`: arrays that stand among the words."""
    source: str = ""


class Pipeline(Struct):
    commands: "tuple[Command, ...]"


class Chain(Struct):
    """Commands joined by `&&` and `||`; `joints[i]` stands before `commands[i + 1]`."""

    commands: "tuple[Command, ...]"
    joints: tuple[str, ...]


class Script(Struct):
    items: "tuple[tuple[Command, bool], ...]"
    """Each with whether it runs in the background."""


class Group(Struct):
    """`{ …; }` or, in a shell of its own, `( … )`."""

    body: Script
    subshell: bool
    redirections: tuple[Redirection, ...] = ()


class Branches(Struct):
    """`if` and `case`: conditions and bodies of which any may run, in this order."""

    words: tuple[Word, ...]
    conditions: tuple[Script, ...]
    bodies: tuple[Script, ...]
    redirections: tuple[Redirection, ...] = ()


class Loop(Struct):
    """`while`, `until`, `for`, `select`."""

    condition: Script | None
    body: Script
    name: str = ""
    words: tuple[Word, ...] | None = None
    each: bool = False
    """Whether the name takes each of the words in turn."""
    arithmetic: Parts = ()
    redirections: tuple[Redirection, ...] = ()


class Function(Struct):
    name: str
    body: "Command"


class TestExpression(Struct):
    """`[[ … ]]` and `(( … ))`."""

    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...] = ()


class Coprocess(Struct):
    body: "Command"
    name: str = "COPROC"


Compound = Group | Branches | Loop | TestExpression
Command = Simple | Pipeline | Chain | Compound | Function | Coprocess
