"""Reads commands: a recursive descent over bash's grammar. What bash would refuse is refused."""

import re

from hermes_agent.policy.shell.parser.compound import CompoundParser
from hermes_agent.policy.shell.parser.syntax import (
    Chain,
    Command,
    Coprocess,
    Function,
    Literal,
    Part,
    Parts,
    Pipeline,
    Quoted,
    Script,
    UnreadableShell,
    Word,
)
from hermes_agent.policy.shell.parser.words import ParseBudget

_RESERVED_HERE = re.compile(
    r"(?:if|then|elif|else|fi|while|until|for|select|do|done|case|esac|function|time|coproc"
    r"|\{|\}|!|\[\[)(?=[ \t\n;&|()<>]|\\\n|$)"
)
_SEPARATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|&>>|&>|[;&|]")
_HALF = re.compile(r"(?:\\\n)+[&|;<>(]")
_COPROC_NAME = re.compile(
    r"[A-Za-z_]\w*[ \t]+(?=[({]|\[\[|(?:if|while|until|for|select|case)[ \t\n])"
)
_TIME_OPTION = re.compile(r"-p(?=[ \t\n;&|()<>]|$)|--(?=[ \t\n]|$)")


class ShellParser(CompoundParser):
    """Reads one text; texts within it (backticks, here-documents) are read by readers of their
    own that share the budget."""

    def whole(self) -> Script:
        """The text to its end."""
        body = self.script(frozenset())
        if self.at < len(self.text):
            raise UnreadableShell(f"{self.next()!r} is unexpected")
        if self.awaited:
            raise UnreadableShell("a here-document is missing")
        return body

    def within(self, text: str) -> "ShellParser":
        return ShellParser(text, self.budget, self.depth, nested=True, bash=self.bash)

    def script(self, stops: frozenset[str], closing: str = "") -> Script:
        """Commands up to a reserved word in `stops` (left standing), a `;;` or an unopened
        bracket; `closing` is taken."""
        self.deeper()
        items: list[tuple[Command, bool]] = []
        separated = True
        while True:
            if self.lines():
                separated = True
            if self.at >= len(self.text) or self.next() == ")" or self.next(2) in {";;", ";&"}:
                break
            if self.reserved() in stops:
                break
            if not separated:
                raise UnreadableShell(f"two commands are not separated before {self.next(10)!r}")
            command = self.chain()
            self.blanks()
            operator = self.separator()
            if operator in {";", "&"}:
                self.at += 1
            separated = operator in {";", "&"}
            items.append((command, operator == "&"))
        if closing:
            if self.next() != closing:
                raise UnreadableShell(f"{closing!r} is missing")
            if self.awaited:
                raise UnreadableShell("a here-document extends past its brackets")
            self.at += 1
        self.depth -= 1
        return Script(tuple(items))

    def separator(self) -> str:
        found = _SEPARATOR.match(self.text, self.at)
        if not found:
            return ""
        if _HALF.match(self.text, found.end()):
            raise UnreadableShell("a line ends within an operator")
        return found.group()

    def lines(self) -> bool:
        """Skip blanks, comments and line ends, reading the here-documents that were announced;
        True when a line ended."""
        ended = False
        while True:
            self.blanks()
            sign = self.next()
            if sign == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif sign == "\n":
                self.at += 1
                ended = True
                self.here_documents()
            else:
                return ended

    def reserved(self) -> str:
        found = _RESERVED_HERE.match(self.text, self.at)
        return found.group() if found else ""

    def expect(self, word: str) -> None:
        self.lines()
        if self.reserved() != word:
            raise UnreadableShell(f"{word!r} is missing before {self.next(10)!r}")
        self.at += len(word)

    def chain(self) -> Command:
        commands = [self.pipeline()]
        joints: list[str] = []
        while True:
            self.blanks()
            operator = self.separator()
            if operator not in {"&&", "||"}:
                break
            self.at += 2
            joints.append(operator)
            self.lines()
            commands.append(self.pipeline())
        return Chain(tuple(commands), tuple(joints)) if joints else commands[0]

    def pipeline(self) -> Command:
        self.budget.spend()
        prefixed = False
        while (word := self.reserved()) in {"!", "time"}:
            self.at += len(word)
            self.blanks()
            while word == "time" and (option := _TIME_OPTION.match(self.text, self.at)):
                self.at = option.end()
                self.blanks()
            prefixed = True
        if prefixed and (self.next() in {"", "\n", ")"} or self.separator()):
            return Pipeline(())
        commands = [self.command()]
        while True:
            self.blanks()
            operator = self.separator()
            if operator not in {"|", "|&"}:
                break
            self.at += len(operator)
            self.lines()
            commands.append(self.command())
        return Pipeline(tuple(commands)) if len(commands) > 1 else commands[0]

    def command(self) -> Command:
        self.deeper()
        word = self.reserved()
        if word in {"[[", "function", "coproc", "select"} or self.next(2) == "((":
            self.only_bash(word or "((")
        command: Command
        if word == "coproc":
            self.at += len(word)
            self.blanks()
            name = _COPROC_NAME.match(self.text, self.at)
            if name:
                self.at = name.end()
            called = name.group().strip() if name else "COPROC"
            command = Coprocess(self.command(), called)
        elif word == "function":
            command = self.function()
        elif word or self.next() == "(":
            command = self.compound(word)
        else:
            command = self.simple()
        self.depth -= 1
        return command

    def function(self) -> Function:
        self.at += len("function")
        self.blanks()
        name = self.word()
        self.blanks()
        if self.next() == "(":
            self.empty_brackets()
        return self.function_body(name)

    def function_body(self, name: Word) -> Function:
        self.lines()
        if not all(isinstance(part, Literal) for part in name.parts):
            raise UnreadableShell("the name of a function is quoted")
        word = self.reserved()
        if not word and self.next() != "(":
            raise UnreadableShell("a function has no body")
        return Function(name.source, self.compound(word))

    def here_documents(self) -> None:
        """The bodies that start on this line, in the order in which they were announced."""
        waiting, self.awaited = self.awaited, []
        for redirection in waiting:
            delimiter, quoted = unquoted(redirection.target)
            lines: list[str] = []
            joined = False
            while True:
                if self.at >= len(self.text):
                    raise UnreadableShell("a here-document does not end")
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self.at = min(end + 1, len(self.text))
                if redirection.operator == "<<-" and not joined:
                    line = line.lstrip("\t")
                if line == delimiter and not joined:
                    break
                lines.append(line + "\n")
                slashes = len(line) - len(line.rstrip("\\"))
                # a continued line is one with the next, which then cannot be the end
                joined = not quoted and slashes % 2 == 1
            redirection.body = self.here_body("".join(lines), quoted=quoted)

    def here_body(self, text: str, *, quoted: bool) -> Parts:
        if quoted:
            return (Quoted(text),)
        reader = self.within(text)
        parts: list[Part] = []
        reader.double(parts, here=True)
        return tuple(parts)


def unquoted(word: Word) -> tuple[str, bool]:
    """The delimiter of a here-document, and whether any of it was quoted."""
    text = ""
    for part in word.parts:
        if not isinstance(part, Literal | Quoted):
            raise UnreadableShell("the end marker of a here-document is not plain text")
        text += part.text
    if "\\\n" in word.source or not text:
        raise UnreadableShell("the end marker of a here-document is not plain text")
    return text, any(isinstance(part, Quoted) for part in word.parts)


def parse(text: str) -> Script:
    """The whole text, or `UnreadableShell`."""
    return ShellParser(text, ParseBudget()).whole()
