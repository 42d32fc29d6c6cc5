"""Words as programs get them: variables, substitutions, tildes, splitting and globs."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from msgspec.structs import replace

from hermes_agent.policy.shell.interpreter.state import (
    MAX_TEXT,
    NUMBER,
    ExpandedWord,
    ShellContext,
    State,
    Stdin,
    Value,
)
from hermes_agent.policy.shell.parser.braces import expand_braces
from hermes_agent.policy.shell.parser.syntax import (
    Arithmetic,
    Literal,
    ParameterExpansion,
    Part,
    Parts,
    Pipeline,
    Process,
    Quoted,
    Script,
    Simple,
    Substitution,
    UnreadableShell,
    Word,
)
from hermes_agent.policy.shell.programs.dangerous_variables import changes_what_runs
from hermes_agent.policy.word_lists import word_list

_GLOB = re.compile(r"[*?]")
_BLANKS = re.compile(r"[ \t\n]+")
_HIDDEN_CODE = re.compile(r"\$\(|`|\$\{")
_ASSIGNS = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)|<<=|>>=")
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNED_FIRST = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)([^,;]*)[,;]?")
_NUMBERS = word_list("number_variables")
_PRINTS_NUMBERS = re.compile("|".join(word_list("prints_numbers")))
_TILDE = re.compile(r"~([^/]*)")
_MAX_FIELDS = 1000
_MAX_NAMES_DEEP = 9


class CommandFollower(Protocol):
    """Who follows the commands within words."""

    def substitute(self, body: Script, state: State, around: ShellContext) -> str | None:
        """Note what the commands do; what they print, when that is known."""
        ...

    def unknown(self, text: str, reason: str, around: ShellContext, program: str = "") -> None: ...


def hides_code(text: str) -> bool:
    """Whether bash would run commands in this text if it took it for a variable or a number."""
    start = text.find("[")
    return start >= 0 and bool(_HIDDEN_CODE.search(text, start))


def _prints_numbers(body: Script, functions: Collection[str] | None) -> bool:
    """Whether the last program of the only command prints numbers, whatever it is given. One of the
    functions, or if None any, may stand in its place."""
    command = body.items[0][0] if len(body.items) == 1 else None
    last = command.commands[-1] if isinstance(command, Pipeline) else command
    if not isinstance(last, Simple) or any(one.operator != "<" for one in last.redirections):
        return False
    text = " ".join(word.source for word in last.words)
    own = functions is None or text.partition(" ")[0] in functions
    return not last.assignments and not own and bool(_PRINTS_NUMBERS.fullmatch(text))


def _alone(part: Part, word: Word) -> bool:
    """Whether a word is nothing but this part."""
    return all(one is part or one == Quoted("") for one in word.parts)


class _Fields:
    """Fields in the making."""

    def __init__(self, word: Word) -> None:
        self.word = word
        self.done: list[ExpandedWord] = []
        self.text = ""
        self.pattern = ""
        """The text with what was quoted replaced, to look for glob signs."""
        self.begun = False
        self.prefix: str | None = None
        self.content: str | None = None
        self.literal_sign = self.literal_in_set = False
        self.number = self.computed = False

    def quoted(self, text: str) -> None:
        self.text += text
        self.pattern += "q" * len(text)
        self.literal_sign = self.literal_sign or any(sign in text for sign in "*?[\\")
        self.literal_in_set = self.literal_in_set or any(sign in text for sign in "]!^-:")
        self.begun = True

    def unquoted(self, text: str) -> None:
        if text:
            self.text += text
            self.pattern += text
            self.begun = True

    def split(self, value: str) -> None:
        for number, piece in enumerate(_BLANKS.split(value)):
            if number:
                self.flush()
            self.unquoted(piece)

    def unknown(self, *, computed: bool = True) -> None:
        if self.prefix is None:
            self.prefix = self.text
        self.begun = True
        self.computed = self.computed or computed

    def flush(self) -> None:
        if self.begun:
            if len(self.done) >= _MAX_FIELDS or len(self.text) > MAX_TEXT:
                raise UnreadableShell("a word expands to too many")
            self.done.append(self.field())
        self.text = self.pattern = ""
        self.begun = self.literal_sign = self.literal_in_set = self.computed = False
        self.prefix = self.content = None

    def field(self) -> ExpandedWord:
        word = self.word
        if self.prefix is not None:
            return ExpandedWord(
                word.source, dynamic=True, prefix=self.prefix, number=self.number,
                computed=self.computed, content=self.content, start=word.start, end=word.end,
            )  # fmt: skip
        opening = self.pattern.find("[")
        glob = bool(_GLOB.search(self.pattern)) or -1 < opening < self.pattern.rfind("]") - 1
        if glob and (self.literal_sign or (opening > -1 and self.literal_in_set)):
            # quoted glob signs beside real ones: no pattern says that
            return ExpandedWord(
                word.source, dynamic=True, prefix="*", start=word.start, end=word.end
            )
        return ExpandedWord(self.text, glob=glob, start=word.start, end=word.end)


class Expander:
    """Expands the words of one command."""

    def __init__(self, runs: CommandFollower, state: State, around: ShellContext) -> None:
        self.runs = runs
        self.state = state
        self.around = around

    def fields(self, words: Iterable[Word]) -> list[ExpandedWord]:
        found: list[ExpandedWord] = []
        for word in words:
            first = word.parts[0]
            if len(word.parts) == 1 and isinstance(first, Literal) and first.text.isalnum():
                found.append(ExpandedWord(first.text, start=word.start, end=word.end))
            else:
                found += self.one(word)
        return found

    def one(self, word: Word) -> list[ExpandedWord]:
        fields: list[ExpandedWord] = []
        variants = expand_braces(word.parts)
        if len(variants) > 1 and not self.around.bash:
            self.visit(word.parts)  # some shells expand braces, some do not
            return [ExpandedWord(word.source, dynamic=True, start=word.start, end=word.end)]
        for parts in variants:
            building = _Fields(word)
            building.number = self.is_number(parts)
            for part in self.tilde(parts, building):
                self.part(part, building)
            building.flush()
            fields += building.done
        if len(fields) != 1:  # no place in the text is this word's alone
            fields = [replace(field, start=-1, end=-1) for field in fields]
        return fields

    def tilde(self, parts: Parts, building: _Fields) -> Parts:
        """Replace a leading `~`; `~user` is somewhere that nobody here can tell."""
        first = parts[0] if parts else None
        if not isinstance(first, Literal) or not first.text.startswith("~"):
            return parts
        found = _TILDE.match(first.text)
        assert found is not None
        if found.end() == len(first.text) and len(parts) > 1:
            return parts  # the name goes on in quotes: no tilde
        name = found.group(1)
        home = self.state.lookup("HOME") if name == "" else None
        if name == "+":
            home = self.state.lookup("PWD")
        if isinstance(home, str):
            building.quoted(home)
        else:
            building.quoted("~")
            building.unknown(computed=False)
        rest = first.text[found.end() :]
        return (Literal(rest), *parts[1:]) if rest else parts[1:]

    def part(self, part: Part, building: _Fields) -> None:
        if isinstance(part, Literal):
            building.unquoted(part.text)
        elif isinstance(part, Quoted):
            building.quoted(part.text)
        elif isinstance(part, ParameterExpansion):
            self.parameter(part, building)
        elif isinstance(part, Substitution):
            output = self.runs.substitute(part.body, self.state, self.around)
            if output is None:
                building.unknown(computed=not self.is_number((part,)))
            else:
                self.insert(output.rstrip("\n"), building, quoted=part.quoted)
        elif isinstance(part, Arithmetic):
            self.calculate(part.parts)
            building.unknown(computed=False)
        else:
            output = self.process(part)
            building.unknown()
            building.prefix = "/dev/fd/"
            building.content = output if part.reads else None

    def process(self, part: Process) -> str | None:
        """Follow what is in `<(…)`, or in `>(…)`, which is fed by whoever writes there."""
        around = self.around if part.reads else self.around.fed(Stdin())
        return self.runs.substitute(part.body, self.state, around)

    def insert(self, value: str, building: _Fields, *, quoted: bool) -> None:
        if quoted:
            building.quoted(value)
        elif self.state.lookup("IFS") == " \t\n":
            building.split(value)
        else:
            building.unknown()

    def parameter(self, part: ParameterExpansion, building: _Fields) -> None:
        value = self.value(part)
        if value is None:
            glob = self.state.matches.get(part.name, "").replace(NUMBER, "")
            plain = part.quoted and not part.operator and part.index is None
            if glob and plain and _alone(part, building.word):
                building.unquoted(glob)
            else:
                building.unknown(computed=not self.is_number((part,)))
            return
        if isinstance(value, str):
            self.insert(value, building, quoted=part.quoted)
            return
        # `$@` and arrays: each element is a word of its own
        for number, element in enumerate(value):
            if number:
                building.flush()
            self.insert(element, building, quoted=part.quoted)
        if not value and part.quoted and building.text == "":
            building.begun = False

    def value(self, part: ParameterExpansion) -> Value:
        """The value of `$name` or `${…}`; commands in its argument and index are followed."""
        if part.index is not None:
            self.calculate(part.index)
        operator = part.operator
        plain = self.plain(part)
        if operator == "":
            return plain
        if operator in {":-", "-", ":=", "=", ":+", "+"}:
            argument = self.joined(part.argument)
            if operator in {":=", "="}:
                self.assign(part.name)
            if operator in {":+", "+"}:
                return argument if plain else None
            return plain or None
        if operator == ":":
            self.calculate(part.argument)
        else:
            self.visit(part.argument)
        if operator == "@P":
            self.runs.unknown(part.name, "a value is expanded like a prompt", self.around, "${")
        keys = part.index is not None and self.joined(part.index) in {"@", "*"}
        if operator == "!" and not keys and (not isinstance(plain, str) or hides_code(plain)):
            self.runs.unknown(part.name, "a name that may contain code", self.around, "${")
        return None

    def plain(self, part: ParameterExpansion) -> Value:
        name = part.name
        if name in {"@", "*"} or name.isdigit():
            return self.argument(name, quoted=part.quoted)
        value = self.state.lookup(name)
        if part.index is None:
            return value[0] if isinstance(value, tuple) and value else value
        index = "".join(one.text for one in part.index if isinstance(one, Literal | Quoted))
        if index in {"@", "*"} and not (index == "*" and part.quoted):
            return value if isinstance(value, tuple) else None
        if isinstance(value, tuple) and index.isdigit() and int(index) < len(value):
            return value[int(index)]
        return None

    def argument(self, name: str, *, quoted: bool) -> Value:
        given = self.state.positional
        if given is None or (name == "*" and quoted):
            return None
        if name in {"@", "*"}:
            return None if any(f.dynamic or f.glob for f in given) else tuple(f.text for f in given)
        number = int(name)
        if not 0 < number <= len(given) or given[number - 1].dynamic or given[number - 1].glob:
            return None
        return given[number - 1].text

    def visit(self, parts: Sequence[Part]) -> None:
        """Follow the commands in parts whose value does not matter. Where they could be arithmetic
        that assigns, the names in them are not known any longer."""
        self.joined(parts)
        text = " ".join(part.text for part in parts if isinstance(part, Literal | Quoted))
        if _ASSIGNS.search(text):
            for name in _NAME.findall(text):
                self.assign(name)

    def assign(self, name: str) -> None:
        """Something is assigned in passing."""
        self.state.assign(name, None)
        if changes_what_runs(name, None):
            self.runs.unknown(f"{name}=", f"{name} changes what programs do", self.around)

    def calculate(self, parts: Sequence[Part]) -> None:
        """Follow what bash takes for arithmetic: a variable in it that does not surely hold a
        number may hold `a[$(…)]`, which bash would run."""
        if "".join(p.text for p in parts if isinstance(p, Literal | Quoted)) not in {"@", "*"}:
            first = parts[0] if parts else None
            text = first.text if isinstance(first, Literal | Quoted) else ""
            at = 0
            while (found := _ASSIGNED_FIRST.match(text, at)) and self.is_safe(found.group(2)):
                at = found.end()
                self.state.assign(found.group(1), None)
                self.state.matches[found.group(1)] = NUMBER
            safe = self.is_number(parts)
            self.visit(parts)
            shown = " ".join(p.text for p in parts if isinstance(p, Literal | Quoted))
            if not safe:
                self.runs.unknown(shown, "a number that may contain code", self.around, "((")
            for name in _NAME.findall(shown) if safe else ():
                if self.state.variables.get(name, "") is None:
                    self.state.matches[name] = NUMBER

    def is_safe(self, text: str, depth: int = 0) -> bool:
        """Whether text runs nothing when it is taken for arithmetic."""
        if depth > _MAX_NAMES_DEEP or set("$`") & set(text):
            return False
        for name in _NAME.findall(re.sub(r"0[xX][0-9a-fA-F]+", "", text)):
            value = self.state.lookup(name)
            known = isinstance(value, str) and self.is_safe(value, depth + 1)
            if not known and not self.is_numeric(name):
                return False
        return True

    def is_numeric(self, name: str) -> bool:
        """Whether a variable, or one that bash itself counts with, surely holds a number."""
        own = name in _NUMBERS and name not in self.state.variables
        return own or self.state.matches.get(name) == NUMBER

    def is_number(self, parts: Sequence[Part]) -> bool:
        """Whether the parts run nothing when bash takes them for arithmetic."""
        for part in parts:
            if isinstance(part, Literal | Quoted):
                safe = self.is_safe(part.text)
            elif isinstance(part, ParameterExpansion):
                value = self.plain(part) if part.operator in {"", ":-", "-"} else None
                known = isinstance(value, str) and value != ""
                safe = self.is_safe(str(value)) if known else self.is_numeric(part.name)
                safe = part.operator == "length" or (safe and self.is_number(part.argument))
            elif isinstance(part, Substitution):
                safe = _prints_numbers(part.body, self.state.defined)
            else:
                safe = isinstance(part, Arithmetic)
            if not safe:
                return False
        return True

    def joined(self, parts: Sequence[Part]) -> str | None:
        """The parts as one text, as between double quotes; None when it cannot be known."""
        text: str | None = ""
        for part in parts:
            piece: Value
            if isinstance(part, Literal | Quoted):
                piece = part.text
            elif isinstance(part, ParameterExpansion):
                piece = self.value(part)
                if isinstance(piece, tuple):
                    piece = piece[0] if len(piece) == 1 else None
            elif isinstance(part, Substitution):
                piece = self.runs.substitute(part.body, self.state, self.around)
                piece = piece.rstrip("\n") if piece is not None else None
            elif isinstance(part, Process):
                self.process(part)
                piece = None
            else:
                self.calculate(part.parts)
                piece = None
            text = None if text is None or piece is None else text + piece
            if text is not None and len(text) > MAX_TEXT:
                text = None
        return text

    def assigned(self, word: Word) -> str | None:
        """The value of `name=word`: nothing is split, tildes stand after colons too."""
        parts = list(word.parts)
        first = parts[0] if parts else None
        if isinstance(first, Literal) and first.text.startswith("~"):
            home = self.state.lookup("HOME")
            rest = first.text[1:]
            if not isinstance(home, str) or (rest and not rest.startswith("/")):
                self.visit(parts)
                return None
            parts[0:1] = [Quoted(home), Literal(rest)]
        if any(isinstance(part, Literal) and ":~" in part.text for part in parts):
            self.visit(parts)
            return None
        return self.joined(parts)
