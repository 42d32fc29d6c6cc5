"""Reads simple commands with their redirections, and the compound ones."""

import re
from typing import TYPE_CHECKING

from hermes_agent.policy.shell.parser.syntax import (
    Assignment,
    Branches,
    Command,
    Compound,
    Function,
    Group,
    Literal,
    Loop,
    Part,
    Redirection,
    Script,
    Simple,
    TestExpression,
    UnreadableShell,
    Word,
)
from hermes_agent.policy.shell.parser.words import WordParser

_RESERVED = frozenset(
    {"if", "then", "elif", "else", "fi", "while", "until", "for", "select", "do", "done", "case",
     "esac", "function", "time", "coproc", "{", "}", "!", "[["}
)  # fmt: skip
_REDIRECTION = re.compile(
    r"([0-9]+|\{[A-Za-z_]\w*\})?(<<<|<<-|<<|<>|<&|>&|>>|>\||<(?!\()|>(?!\())|(&>>|&>)"
)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)")
_TORN = re.compile(r"[A-Za-z_]\w*(?:\\\n)(?:\w|\\\n)*\+?(?:\\\n)*[=\[]")
_INDEXED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\[")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?=[ \t\n;]|\\\n|$)")
_IN = re.compile(r"in(?=[ \t\n;]|\\\n|$)")
_CLOSED = re.compile(r"\]\](?=[ \t\n;&|()<>]|$)")
_TEST_SIGN = re.compile(r"&&|\|\||[()<>]|!(?=[ \t\n(])")
_PATTERN_PLAIN = re.compile(r"[^ \t\n\\'\"$`();&|<>]+")
_DECLARING = frozenset({"declare", "typeset", "local", "export", "readonly", "eval"})
_DO, _DONE, _FI, _ESAC = (frozenset({word}) for word in ("do", "done", "fi", "esac"))
_THEN, _ELSE, _BRACE = frozenset({"then"}), frozenset({"elif", "else", "fi"}), frozenset({"}"})


class CompoundParser(WordParser):
    """The middle of the reader; `parse.Reader` adds lists, pipelines and functions."""

    if TYPE_CHECKING:

        def chain(self) -> Command: ...

        def lines(self) -> bool: ...

        def reserved(self) -> str: ...

        def expect(self, word: str) -> None: ...

        def function_body(self, name: Word) -> Function: ...

    def redirection(self) -> Redirection | None:
        found = _REDIRECTION.match(self.text, self.at)
        if not found:
            return None
        if self.text[self.at - 2 : self.at] == "\\\n" and self.text[self.at - 3].isdigit():
            raise UnreadableShell("a line ends within a redirection")
        self.at = found.end()
        if self.next(2) == "\\\n" and self.text[self.at + 2 : self.at + 3] in set("<>&|("):
            raise UnreadableShell("a line ends within an operator")
        self.blanks()
        operator = found.group(2) or found.group(3)
        redirection = Redirection(operator, self.word(), found.group(1) or "")
        if operator in {"<<", "<<-"}:
            self.awaited.append(redirection)
        return redirection

    def redirections(self) -> tuple[Redirection, ...]:
        found: list[Redirection] = []
        while True:
            self.blanks()
            one = self.redirection()
            if one is None:
                return tuple(found)
            found.append(one)

    def simple(self) -> Simple | Function:
        start = self.at
        assignments: list[Assignment] = []
        arrays: list[Assignment] = []
        words: list[Word] = []
        redirections: list[Redirection] = []
        while True:
            self.blanks()
            sign = self.next()
            if not sign or sign in "\n;|)#" or (sign == "&" and self.next(2) != "&>"):
                break
            one = self.redirection()
            if one is not None:
                redirections.append(one)
                continue
            if sign == "(":
                if len(words) == 1 and not assignments and not redirections:
                    self.empty_brackets()
                    return self.function_body(words[0])
                raise UnreadableShell("a bracket after a word")
            declaring = bool(words) and words[0].source in _DECLARING
            if not words or declaring:
                assignment = self.assignment(prefix=not words)
                if assignment is not None:
                    (arrays if words else assignments).append(assignment)
                    continue
            words.append(self.word())
        if not (words or assignments or redirections or arrays):
            raise UnreadableShell(f"a command is missing before {self.next(10)!r}")
        if words and not assignments and not redirections:
            first = words[0].parts
            if len(first) == 1 and isinstance(first[0], Literal) and first[0].text in _RESERVED:
                raise UnreadableShell(f"{first[0].text!r} is where a command should be")
        source = self.text[start : self.at].strip()
        return Simple(tuple(assignments), tuple(words), tuple(redirections), tuple(arrays), source)

    def empty_brackets(self) -> None:
        self.at += 1
        self.blanks()
        if self.next() != ")":
            raise UnreadableShell("a bracket after a word")
        self.at += 1

    def assignment(self, *, prefix: bool) -> Assignment | None:
        """`name=value`, `name[index]=value` or `name=(…)`. Behind `declare` and its like only the
        last is read here: the others are words there, and expanded like words."""
        start = self.at
        index = None
        if _TORN.match(self.text, start):
            raise UnreadableShell("a line ends within an assignment")
        found = _ASSIGNMENT.match(self.text, start)
        if found:
            name, operator = found.groups()
            self.at = found.end()
        else:
            indexed = _INDEXED.match(self.text, start) if prefix else None
            if not indexed:
                return None
            name = indexed.group(1)
            self.at = indexed.end()
            index = self.subscript()
            operator = "+=" if self.next(2) == "+=" else "="
            if not self.text.startswith(operator, self.at):
                # bash takes `name[a b]` for one word here; nobody means that
                raise UnreadableShell("a bracket after a name")
            self.at += len(operator)
        append = operator == "+="
        if self.next() == "(":
            return Assignment(name, None, self.array(), index, append)
        if not prefix:
            self.at = start
            return None
        if not self.next() or self.next() in " \t\n;&|)" or self.redirects():
            return Assignment(name, None, None, index, append)
        return Assignment(name, self.word(), None, index, append)

    def redirects(self) -> bool:
        return self.next() in {"<", ">"} and self.next(2) not in {"<(", ">("}

    def array(self) -> tuple[Word, ...]:
        self.deeper()
        self.at += 1
        words: list[Word] = []
        while True:
            self.lines()
            if self.next() == ")":
                self.at += 1
                self.depth -= 1
                if self.next() and self.next() not in " \t\n;&|)<>":
                    raise UnreadableShell("text after an array")
                return tuple(words)
            words.append(self.word())

    def compound(self, word: str) -> Compound:
        if word == "":
            command = self.brackets()
        elif word == "{":
            self.at += 1
            command = Group(self.script(_BRACE), subshell=False)
            self.expect("}")
        elif word == "if":
            command = self.branches()
        elif word in {"while", "until"}:
            self.at += len(word)
            condition = self.script(_DO)
            command = Loop(condition, self.body())
        elif word in {"for", "select"}:
            command = self.loop(word)
        elif word == "case":
            command = self.case()
        elif word == "[[":
            command = self.test()
        else:
            raise UnreadableShell(f"{word!r} is where a command should be")
        command.redirections = self.redirections()
        return command

    def brackets(self) -> Compound:
        """`(( … ))`, or a shell of its own."""
        start = self.at
        if self.next(2) == "((":
            self.at += 2
            depth = self.depth
            try:
                parts = self.arithmetic("))")
            except UnreadableShell:
                self.depth = depth
            else:
                return TestExpression((Word(parts, self.text[start : self.at]),))
        self.at = start + 1
        return Group(self.script(frozenset(), ")"), subshell=True)

    def body(self) -> Script:
        self.expect("do")
        body = self.script(_DONE)
        self.expect("done")
        return body

    def branches(self) -> Branches:
        self.at += 2
        conditions = [self.script(_THEN)]
        bodies: list[Script] = []
        while True:
            self.expect("then")
            bodies.append(self.script(_ELSE))
            word = self.reserved()
            self.expect(word or "fi")
            if word == "elif":
                conditions.append(self.script(_THEN))
                continue
            if word == "else":
                bodies.append(self.script(_FI))
                self.expect("fi")
            return Branches((), tuple(conditions), tuple(bodies))

    def loop(self, word: str) -> Loop:
        self.at += len(word)
        self.blanks()
        if self.next(2) == "((" and word == "for":
            self.at += 2
            parts = self.arithmetic("))")
            self.blanks()
            if self.next() == ";":
                self.at += 1
            return Loop(None, self.braces_or_body(), arithmetic=parts)
        name = _NAME.match(self.text, self.at)
        if not name:
            raise UnreadableShell("a loop variable is not a plain name")
        self.at = name.end()
        self.lines()
        words: list[Word] | None = None
        if _IN.match(self.text, self.at):
            self.at += 2
            words = []
            while True:
                self.blanks()
                if self.next() in {"", ";", "\n", "#"}:
                    break
                words.append(self.word())
        if self.next() == ";":
            self.at += 1
        body = self.braces_or_body()
        known = tuple(words) if words is not None else None
        # `select` asks: its value is one of the words, or none
        return Loop(None, body, name.group(), known, each=word == "for")

    def braces_or_body(self) -> Script:
        self.lines()
        if self.reserved() != "{":
            return self.body()
        self.at += 1
        body = self.script(_BRACE)
        self.expect("}")
        return body

    def case(self) -> Branches:
        self.at += 4
        self.blanks()
        words = [self.word()]
        self.lines()
        if not _IN.match(self.text, self.at):
            raise UnreadableShell("'in' is missing")
        self.at += 2
        bodies: list[Script] = []
        while True:
            self.lines()
            if self.reserved() == "esac":
                break
            if self.next() == "(":
                self.at += 1
                self.blanks()
            while True:
                words.append(self.word())
                self.blanks()
                if self.next() != "|":
                    break
                self.at += 1
                self.blanks()
            if self.next() != ")":
                raise UnreadableShell("a pattern of 'case' is not closed")
            self.at += 1
            bodies.append(self.script(_ESAC))
            for sign in (";;&", ";;", ";&"):
                if self.text.startswith(sign, self.at):
                    self.at += len(sign)
                    break
            else:
                self.lines()
                if self.reserved() != "esac":
                    raise UnreadableShell("'esac' is missing")
        self.expect("esac")
        return Branches(tuple(words), (), tuple(bodies))

    def test(self) -> TestExpression:
        """`[[ … ]]`: its words are wanted for what they expand."""
        self.deeper()
        self.at += 2
        words: list[Word] = []
        before = ""
        while True:
            self.lines()
            if not self.next():
                raise UnreadableShell("[[ is not closed")
            if _CLOSED.match(self.text, self.at):
                self.at += 2
                self.depth -= 1
                return TestExpression(tuple(words))
            pattern = before in {"=~", "==", "=", "!="}
            sign = _TEST_SIGN.match(self.text, self.at)
            if sign and not (pattern and sign.group() == "(") and self.next(2) not in {"<(", ">("}:
                before = sign.group()
                self.at = sign.end()
                continue
            word = self.pattern() if pattern else self.word()
            words.append(word)
            before = word.source

    def pattern(self) -> Word:
        """A regular expression or a glob: brackets and bars belong to it."""
        start = self.at
        parts: list[Part] = []
        open_brackets = 0
        while self.at < len(self.text):
            plain = _PATTERN_PLAIN.match(self.text, self.at)
            if plain:
                self.at = plain.end()
                parts.append(Literal(plain.group()))
                continue
            sign = self.next()
            if self.quoting(parts):
                continue
            if sign == "(":
                open_brackets += 1
            elif sign == ")" and open_brackets:
                open_brackets -= 1
            elif not open_brackets and (sign != "|" or self.next(2) == "||"):
                break
            if sign in ";&\n":
                raise UnreadableShell("a pattern is not closed")
            parts.append(Literal(sign))
            self.at += 1
        if self.at == start:
            raise UnreadableShell("a pattern is missing")
        return self.make(parts, start)
