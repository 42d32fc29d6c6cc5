"""Parses words: quoting, escapes, expansions. Follows bash's own parser, and raises
`UnreadableShell` where bash would fail, or where versions of bash differ."""

import re
from typing import TYPE_CHECKING

from hermes_agent.policy.shell.parser.syntax import (
    Arithmetic,
    Literal,
    ParameterExpansion,
    Part,
    Parts,
    Process,
    Quoted,
    Redirection,
    Script,
    Substitution,
    UnreadableShell,
    Word,
)

_PLAIN = re.compile(r"[^ \t\n;&|()<>\\'\"$`]+")
_PLAIN_SUBSCRIPT = re.compile(r"[^\[\]\\'\"$`]+")
_PLAIN_DOUBLE = re.compile(r"[^\"$`\\]+")
_PLAIN_HERE = re.compile(r"[^$`\\]+")
_PLAIN_ARGUMENT = re.compile(r"[^}\\'\"$`<>]+")
_PLAIN_ARITHMETIC = re.compile(r"[^()\[\]$`\\\"']+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_OPERATOR = re.compile(r":?[-=+?]|##?|%%?|/[/#%]?|\^\^?|,,?|@[A-Za-z]|:")
_TICKED = re.compile(r"(?:[^`\\]|\\.)*`", re.DOTALL)
_BLANK = re.compile(r"(?:[ \t]|\\\n)*")
_ESCAPE = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})"
    r"|U([0-9a-fA-F]{1,8})|c(.))",
    re.DOTALL,
)
_ESCAPED = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
    "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
MAX_DEPTH = 40
_MAX_PIECES = 60_000


class ParseBudget:
    """Pieces read so far, over all texts within a text: what would take too long is not read."""

    def __init__(self) -> None:
        self.pieces = 0

    def spend(self) -> None:
        self.pieces += 1
        if self.pieces > _MAX_PIECES:
            raise UnreadableShell("too long to read")


class WordParser:
    """The lower half of the reader; `parse.Reader` adds commands."""

    def __init__(
        self,
        text: str,
        budget: ParseBudget,
        depth: int = 0,
        *,
        nested: bool = False,
        bash: bool = True,
    ) -> None:
        self.text = text
        self.at = 0
        self.budget = budget
        self.depth = depth
        self.nested = nested
        self.bash = bash
        self.awaited: list[Redirection] = []

    if TYPE_CHECKING:

        def script(self, stops: frozenset[str], closing: str = "") -> Script: ...

        def within(self, text: str) -> "WordParser": ...

        def whole(self) -> Script: ...

    def next(self, length: int = 1) -> str:
        return self.text[self.at : self.at + length]

    def blanks(self) -> None:
        found = _BLANK.match(self.text, self.at)
        if found:
            self.at = found.end()

    def make(self, parts: list[Part], start: int) -> Word:
        source = self.text[start : self.at]
        if self.nested:
            return Word(tuple(parts), source)
        return Word(tuple(parts), source, start, self.at)

    def word(self) -> Word:
        self.budget.spend()
        start = self.at
        parts: list[Part] = []
        while self.at < len(self.text):
            plain = _PLAIN.match(self.text, self.at)
            if plain:
                self.at = plain.end()
                add_literal(parts, plain.group())
                continue
            sign = self.next()
            if sign in "<>" and self.next(2) in {"<(", ">("}:
                parts.append(self.process())
            elif not self.quoting(parts):
                break
        if self.at == start:
            raise UnreadableShell(f"a word is missing before {self.next()!r}")
        return self.make(parts, start)

    def quoting(self, parts: list[Part]) -> bool:
        """Read one quoted or expanded piece of an unquoted word; False when none stands here."""
        sign = self.next()
        if sign == "\\":
            after = self.text[self.at + 1 : self.at + 2]
            self.at += 2
            if after == "":
                raise UnreadableShell("a backslash at the end")
            if after != "\n":
                parts.append(Quoted(after))
            else:
                add_literal(parts, "")
        elif sign == "'":
            parts.append(self.single())
        elif sign == '"':
            self.at += 1
            self.double(parts)
        elif sign == "$":
            self.dollar(parts, quoted=False)
        elif sign == "`":
            parts.append(self.ticks(quoted=False))
        else:
            return False
        return True

    def single(self) -> Quoted:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise UnreadableShell("a quotation mark is not closed")
        text = self.text[self.at + 1 : end]
        self.at = end + 1
        return Quoted(text)

    def double(self, parts: list[Part], *, here: bool = False) -> None:
        """The inside of double quotes, or of a here-document to its end."""
        pattern = _PLAIN_HERE if here else _PLAIN_DOUBLE
        parts.append(Quoted(""))
        while self.at < len(self.text):
            plain = pattern.match(self.text, self.at)
            if plain:
                self.at = plain.end()
                parts.append(Quoted(plain.group()))
                continue
            sign = self.next()
            if sign == '"':
                self.at += 1
                return
            if sign == "\\":
                after = self.text[self.at + 1 : self.at + 2]
                self.at += 2
                if after in {"$", "`", "\\"} or (after == '"' and not here):
                    parts.append(Quoted(after))
                elif after != "\n":
                    parts.append(Quoted("\\" + after))
            elif sign == "$":
                self.dollar(parts, quoted=True)
            else:
                parts.append(self.ticks(quoted=not here))
        if not here:
            raise UnreadableShell("a quotation mark is not closed")

    def dollar(self, parts: list[Part], *, quoted: bool) -> None:
        self.budget.spend()
        after = self.text[self.at + 1 : self.at + 2]
        if after == "\\" and self.text[self.at + 2 : self.at + 3] == "\n":
            raise UnreadableShell("a line ends after a dollar sign")
        if after == "(":
            parts.append(self.substitution(quoted=quoted))
        elif after == "{":
            parts.append(self.braced(quoted=quoted))
        elif after == "[":
            self.at += 2
            parts.append(Arithmetic(self.arithmetic("]")))
        elif after == "'" and not quoted:
            self.only_bash("$'")
            start = self.at + 2
            end = start
            while end < len(self.text) and self.text[end] != "'":
                end += 2 if self.text[end] == "\\" else 1
            if end >= len(self.text):
                raise UnreadableShell("a quotation mark is not closed")
            self.at = end + 1
            parts.append(Quoted(unescape(self.text[start:end])))
        elif after == '"' and not quoted:
            self.at += 2
            self.double(parts)
        else:
            self.named(parts, quoted=quoted)

    def named(self, parts: list[Part], *, quoted: bool) -> None:
        name = _NAME.match(self.text, self.at + 1)
        after = self.text[self.at + 1 : self.at + 2]
        if name:
            self.at = name.end()
            self.joined("a name")
            parts.append(ParameterExpansion(name.group(), quoted))
        elif after and after in "@*#?$!-0123456789":
            self.at += 2
            parts.append(ParameterExpansion(after, quoted))
        else:
            self.at += 1
            if quoted:
                parts.append(Quoted("$"))
            else:
                add_literal(parts, "$")

    def joined(self, what: str) -> None:
        """A line that ends in the middle of `what` and goes on with it."""
        if self.next(2) == "\\\n" and _NAME.match(self.text, self.at + 2):
            raise UnreadableShell(f"a line ends within {what}")

    def only_bash(self, what: str) -> None:
        """Other shells read this in other ways, and may find other commands."""
        if not self.bash:
            raise UnreadableShell(f"{what} in a shell that is not bash")

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnreadableShell("nested too deeply")

    def substitution(self, *, quoted: bool) -> Part:
        """At `$(`. What starts like arithmetic and does not end like it is a command."""
        self.deeper()
        start = self.at
        if self.next(3) == "$((":
            self.at += 3
            depth = self.depth
            try:
                parts = self.arithmetic("))")
            except UnreadableShell:
                self.depth = depth
            else:
                self.depth -= 1
                return Arithmetic(parts)
        self.at = start + 2
        body = self.script(frozenset(), ")")
        self.depth -= 1
        return Substitution(body, quoted)

    def process(self) -> Process:
        self.deeper()
        reads = self.next() == "<"
        self.at += 2
        body = self.script(frozenset(), ")")
        self.depth -= 1
        return Process(body, reads)

    def ticks(self, *, quoted: bool) -> Substitution:
        self.deeper()
        found = _TICKED.match(self.text, self.at + 1)
        if not found:
            raise UnreadableShell("a backtick is not closed")
        text = found.group()[:-1]
        self.at = found.end()
        text = re.sub(r'\\([$`\\"])' if quoted else r"\\([$`\\])", r"\1", text)
        body = self.within(text).whole()
        self.depth -= 1
        return Substitution(body, quoted)

    def arithmetic(self, closing: str) -> Parts:
        """What is expanded up to `closing`, which stands outside all brackets."""
        parts: list[Part] = []
        open_brackets: list[str] = []
        pairs = {"(": ")", "[": "]"}
        while self.at < len(self.text):
            plain = _PLAIN_ARITHMETIC.match(self.text, self.at)
            if plain:
                self.at = plain.end()
                parts.append(Quoted(plain.group()))
                continue
            sign = self.next()
            if sign == "$":
                self.dollar(parts, quoted=True)
            elif sign == "`":
                parts.append(self.ticks(quoted=True))
            elif not open_brackets and self.text.startswith(closing, self.at):
                self.at += len(closing)
                return tuple(parts)
            elif self.next(2) == "\\\n":
                self.at += 2
            elif sign == '"':
                self.at += 1
                self.double(parts)
            elif sign in "'\\":
                # bash versions differ in what it means here
                raise UnreadableShell("a quotation mark in arithmetic")
            elif sign in pairs:
                open_brackets.append(pairs[sign])
                self.at += 1
            elif open_brackets and open_brackets[-1] == sign:
                open_brackets.pop()
                self.at += 1
            else:
                raise UnreadableShell("unbalanced brackets in arithmetic")
        raise UnreadableShell("arithmetic is not closed")

    def subscript(self) -> Parts:
        """The inside of `name[…]`, after the bracket."""
        parts: list[Part] = []
        open_brackets = 0
        while self.at < len(self.text):
            plain = _PLAIN_SUBSCRIPT.match(self.text, self.at)
            if plain:
                self.at = plain.end()
                add_literal(parts, plain.group())
                continue
            sign = self.next()
            if sign == "[":
                open_brackets += 1
            elif sign == "]":
                if open_brackets == 0:
                    self.at += 1
                    return tuple(parts)
                open_brackets -= 1
            elif self.quoting(parts):
                continue
            self.at += 1
        raise UnreadableShell("a bracket is not closed")

    def braced(self, *, quoted: bool) -> ParameterExpansion:
        """`${…}`."""
        self.deeper()
        self.at += 2
        prefix = ""
        if self.next() in {"#", "!"} and self.text[self.at + 1 : self.at + 2] not in {"}", ""}:
            after = _PARAMETER.match(self.text, self.at + 1)
            if after:
                prefix = self.next()
                self.at += 1
        name = _PARAMETER.match(self.text, self.at)
        if not name:
            raise UnreadableShell("the text in ${…} is not a name")
        self.at = name.end()
        index: Parts | None = None
        if self.next() == "[":
            self.at += 1
            index = self.subscript()
        operator = ""
        argument: Parts = ()
        if self.next() != "}":
            found = _OPERATOR.match(self.text, self.at)
            if found is None and prefix == "!" and self.next() in {"*", "@"}:
                operator = self.next()  # all names that start like this
                self.at += 1
            elif found is None:
                raise UnreadableShell("the text in ${…} is not understood")
            else:
                operator = found.group()
                self.at = found.end()
            argument = self.argument(quoted=quoted, literal=operator[-1:] in {"-", "=", "+", "?"})
        if self.next() != "}":
            raise UnreadableShell("${ is not closed")
        self.at += 1
        self.depth -= 1
        operator = "length" if prefix == "#" and not operator else prefix + operator
        return ParameterExpansion(name.group(), quoted, operator, argument, index)

    def argument(self, *, quoted: bool, literal: bool) -> Parts:
        """The word after an operator, up to the brace; `literal`: a single quotation mark between
        double ones stands for itself."""
        parts: list[Part] = []
        while self.at < len(self.text) and self.next() != "}":
            plain = _PLAIN_ARGUMENT.match(self.text, self.at)
            if plain:
                self.at = plain.end()
                parts.append(Quoted(plain.group()) if quoted else Literal(plain.group()))
                continue
            sign = self.next()
            if sign in "<>":
                if self.next(2) in {"<(", ">("} and not quoted:
                    parts.append(self.process())
                    continue
                self.at += 1
                parts.append(Quoted(sign))
            elif sign == "'" and quoted and literal:
                self.only_bash("a quotation mark in braces")
                self.at += 1
                parts.append(Quoted("'"))
            elif sign == "$" and quoted:
                self.dollar(parts, quoted=True)
            elif sign == "`" and quoted:
                parts.append(self.ticks(quoted=True))
            else:
                self.quoting(parts)
        return tuple(parts)


def add_literal(parts: list[Part], text: str) -> None:
    """Literal text that goes on where a line was continued is one piece."""
    if parts and isinstance(parts[-1], Literal):
        parts[-1] = Literal(parts[-1].text + text)
    else:
        parts.append(Literal(text))


def unescape(text: str) -> str:
    r"""What `$'text'` stands for. Bytes that are not UTF-8 cannot be told apart."""
    data = bytearray()
    at = 0
    while at < len(text):
        if text[at] != "\\":
            data += text[at].encode()
            at += 1
            continue
        found = _ESCAPE.match(text, at)
        if found is None:
            if text[at + 1 : at + 2] in {"x", "u", "U", "c"}:
                raise UnreadableShell("an escape without its code")
            data += b"\\"
            at += 1
            continue
        sign, octal, byte, short, long, control = found.groups()
        if sign:
            data += _ESCAPED[sign].encode()
        elif octal:
            data.append(int(octal, 8) & 255)
        elif byte:
            data.append(int(byte, 16))
        elif control:
            raise UnreadableShell("a control escape")
        else:
            code = int(short or long, 16)
            if code >= 0x110000 or 0xD800 <= code < 0xE000:
                raise UnreadableShell("an escape for an invalid character")
            data += chr(code).encode()
        at = found.end()
    # bash ends the string at a NUL
    try:
        return bytes(data).split(b"\0", 1)[0].decode()
    except UnicodeDecodeError:
        raise UnreadableShell("bytes that are not text") from None
