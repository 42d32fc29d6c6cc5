"""What is known of the shell while a text is followed."""

import posixpath
import re

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.policy.shell.parser.syntax import Command, UnreadableShell
from hermes_agent.policy.shell.programs.dangerous_variables import is_harmless

Value = str | tuple[str, ...] | None
"""Of a variable: its text, the elements of an array, or None when nobody can tell."""

MAX_TEXT = 20_000
NUMBER = "[0-9]*"
"""What the value of a variable fits that holds a number."""
_MAX_FOLDERS = 4
_MAX_NAMES = 300


class ExpandedWord(Struct, frozen=True):
    """One word as a program gets it, if that can be known."""

    text: str
    """The word; its source when `dynamic`."""
    dynamic: bool = False
    glob: bool = False
    prefix: str = ""
    """Of a dynamic word: what it surely starts with."""
    number: bool = False
    """Of a dynamic word: whether it can be nothing but numbers."""
    computed: bool = True
    """Of a dynamic word: whether it can hold more than numbers and times."""
    content: str | None = None
    """What somebody who reads the file of this name gets, when that is in the text."""
    start: int = -1
    end: int = -1

    @property
    def maybe_option(self) -> bool:
        return self.dynamic and (not self.prefix or self.prefix.startswith("-"))


UNSEEN = ExpandedWord("…", dynamic=True)
"""A word that comes from elsewhere, such as the input of xargs."""


class Stdin(Struct, frozen=True):
    """What a command reads: text when it is known."""

    text: str | None = None


class State:
    """Variables, functions and folders; a subshell works on a copy."""

    def __init__(self, folders: tuple[str | None, ...], home: str) -> None:
        self.home = home
        self.variables: dict[str, Value] = {}
        self.matches: dict[str, str] = {}
        """Of variables that hold the name of some file, or a number: the glob that it fits."""
        self.functions: dict[str, tuple[Command, ...]] = {}
        self.unsure: set[str] = set()
        """Functions that may not be defined when they are called."""
        self.defined: set[str] | None = set()
        """All that were defined, or None for any: the exported are there in other shells too."""
        self.folders = folders
        """Where the shell may stand; None: anywhere."""
        self.failed: tuple[str | None, ...] = ()
        """Where it may stand besides, if the last command failed."""
        self.positional: tuple[ExpandedWord, ...] | None = None
        self.locals: dict[str, Value] = {}
        """Names that the function that runs has for itself, with their values outside of it."""

    def copy(self) -> "State":
        twin = State(self.folders, self.home)
        twin.variables = dict(self.variables)
        twin.matches = dict(self.matches)
        twin.functions = dict(self.functions)
        twin.unsure = set(self.unsure)
        twin.defined = self.defined
        twin.failed = self.failed
        twin.positional = self.positional
        twin.locals = dict(self.locals)
        return twin

    def later(self) -> "State":
        """As it may be when what is said now is run: anything may have changed by then."""
        twin = self.copy()
        twin.forget()
        return twin

    def become(self, other: "State") -> None:
        self.__dict__.update(other.copy().__dict__)

    def merge(self, other: "State") -> bool:
        """Take in that things may be as in `other` instead; True when that changed anything."""
        before = (dict(self.variables), self.folders, dict(self.functions), self.positional)
        for name in self.variables.keys() | other.variables.keys():
            mine = self.lookup(name)
            self.variables[name] = mine if mine == other.lookup(name) else None
        for name in self.functions.keys() | other.functions.keys():
            if name not in self.functions or name not in other.functions:
                self.unsure.add(name)
            mine_too = self.functions.get(name, ())
            more = tuple(
                body for body in other.functions.get(name, ())
                if not any(body is known for known in mine_too)
            )  # fmt: skip
            self.functions[name] = mine_too + more
        self.unsure |= other.unsure
        numbers = {
            name: NUMBER
            for name, value in self.variables.items()
            if value is None and self.holds_number(name, before[0]) and other.holds_number(name)
        }
        self.matches = dict(self.matches.items() & other.matches.items()) | numbers
        self.stand(self.folders + other.folders)
        self.failed = tuple(dict.fromkeys(self.failed + other.failed))
        for name in self.locals.keys() | other.locals.keys():
            mine = self.locals.get(name)
            self.locals[name] = mine if mine == other.locals.get(name) else None
        if self.positional != other.positional:
            self.positional = None
        return before != (self.variables, self.folders, self.functions, self.positional)

    def holds_number(self, name: str, values: dict[str, Value] | None = None) -> bool:
        value = (self.variables if values is None else values).get(name)
        digits = isinstance(value, str) and value.isdigit()
        return digits or self.matches.get(name) == NUMBER

    def stand(self, folders: tuple[str | None, ...]) -> None:
        known = tuple(dict.fromkeys(folders))
        self.folders = known if len(known) <= _MAX_FOLDERS else (None,)

    def settle(self) -> None:
        """The next command runs whether the last one failed or not."""
        if self.failed:
            self.stand(self.folders + self.failed)
            self.failed = ()

    def outcomes(self) -> tuple[tuple[str | None, ...], tuple[str | None, ...]]:
        """Where it stands if the last command went well, and if it failed."""
        return self.folders, self.failed or self.folders

    def lookup(self, name: str) -> Value:
        if name in self.variables:
            return self.variables[name]
        if name == "HOME" and self.home.startswith("/"):
            return self.home
        if name == "PWD" and len(self.folders) == 1:
            return self.folders[0]
        return " \t\n" if name == "IFS" else None

    def lends_computed(self) -> bool:
        """Whether programs may get a variable whose value is known only when they run."""
        unknown = (name for name, value in self.variables.items() if value is None)
        return any(is_harmless(name) and self.matches.get(name) != NUMBER for name in unknown)

    def assign(self, name: str, value: Value) -> None:
        if isinstance(value, str) and len(value) > MAX_TEXT:
            value = None
        if len(self.variables) > _MAX_NAMES or len(self.functions) > _MAX_NAMES:
            raise UnreadableShell("too many names")
        self.variables[name] = value
        self.matches.pop(name, None)

    def forget(self) -> None:
        """Anything may have been assigned."""
        for name in [*self.variables, "HOME", "PWD", "IFS"]:
            self.variables[name] = None
        self.matches = {}
        self.folders = (None,)
        self.positional = None
        self.unsure |= set(self.functions)
        self.defined = None


class ShellContext(Struct, frozen=True):
    """How a command stands in the whole."""

    via: tuple[str, ...] = ()
    stdin: Stdin | None = None
    """None: nothing that the text feeds it."""
    bash: bool = True
    """Whether bash reads this, or some other shell."""
    computed: bool = False
    """Whether it gets a variable whose value is known only when it runs."""

    def through(self, *names: str) -> "ShellContext":
        return replace(self, via=(*self.via, *names))

    def fed(self, stdin: Stdin | None) -> "ShellContext":
        return replace(self, stdin=stdin)


_PROCESS = re.compile(r"/+proc/+[^/]+/+(?:task/+[^/]+/+)?(?:root|cwd|fd|map_files)(?:/|$)")
_UNTANGLED = re.compile(r"[^/]+/+(?:\./+)*\.\.(?:/|$)")


def absolute(path: str, folder: str | None) -> str:
    """The path with `.` and `..` worked out on paper; empty when nobody can tell."""
    if not path.startswith("/"):
        if folder is None or not folder.startswith("/"):
            return ""
        path = f"{folder}/{path}"
    return "/" + posixpath.normpath(path).lstrip("/")


def crosses_a_link(path: str) -> bool:
    """Whether `..` stands behind a name: where that leads is up to what the name is; or whether it
    goes through a process, whose folders are not ours."""
    if _PROCESS.match(path):
        return True
    if ".." not in path:
        return False
    rest = re.sub(r"^(?:\./+|\.\./+)*", "", path)
    return bool(_UNTANGLED.search(rest))
