"""Random texts from a grammar in GBNF, by derivation: a second reading of what it allows."""

import re
from random import Random
from typing import Any

Node = tuple[Any, ...]

_TOKEN = re.compile(
    r'\s*(?:(?P<literal>"(?:\\.|[^"\\])*")|(?P<chars>\[(?:\\.|[^\]\\])*\])|'
    r"(?P<times>\{\d+(?:,\d*)?\}|[*+?])|(?P<name>[a-z][a-z0-9-]*)|(?P<sign>[()|.]))"
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_NAMED = {"n": "\n", "r": "\r", "t": "\t"}
_OTHERS = "aZ09 _-/.,:;!?\"'\\{}[]()<>|\n\té汉🙂"
"""What a negated class or a dot is drawn from."""


class Sampler:
    """Reads a grammar whole, so that a rule that is missing or malformed is an error."""

    def __init__(self, grammar: str) -> None:
        self.rules: dict[str, Node] = {}
        for line in grammar.split("\n"):
            name, _, body = line.partition(" ::= ")
            assert name not in self.rules
            self.rules[name] = _Reader(body).whole()
        self._depths = self._measure()

    def sample(self, random: Random, start: str = "root", depth: int = 12) -> str:
        return self._derive(self.rules[start], random, depth)

    def _derive(self, node: Node, random: Random, depth: int) -> str:
        match node:
            case ("literal", text):
                return str(text)
            case ("chars", allowed):
                return random.choice(allowed)
            case ("name", name):
                return self._derive(self.rules[name], random, depth - 1)
            case ("all", parts):
                return "".join(self._derive(part, random, depth) for part in parts)
            case ("any", parts):
                fitting = [part for part in parts if self._depth(part) <= depth]
                chosen = random.choice(fitting) if fitting else min(parts, key=self._depth)
                return self._derive(chosen, random, depth)
            case ("times", part, least, most):
                top = min(most, least + 3) if self._depth(part) <= depth else least
                return "".join(
                    self._derive(part, random, depth) for _ in range(random.randint(least, top))
                )
        raise AssertionError(node)

    def _measure(self) -> dict[str, float]:
        """How many rules deep each must go at least."""
        self._depths = dict.fromkeys(self.rules, float("inf"))
        for _ in self.rules:
            depths = {name: 1 + self._depth(node) for name, node in self.rules.items()}
            if depths == self._depths:
                break
            self._depths = depths
        return self._depths

    def _depth(self, node: Node) -> float:
        match node:
            case ("name", name):
                return self._depths[name]
            case ("all", parts):
                return max((self._depth(part) for part in parts), default=0)
            case ("any", parts):
                return min(self._depth(part) for part in parts)
            case ("times", part, least, _):
                return self._depth(part) if least else 0
        return 0


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while text[at:].strip():
            token = _TOKEN.match(text, at)
            assert token, text[at:]
            assert token.lastgroup
            self._tokens.append((token.lastgroup, token[token.lastgroup]))
            at = token.end()

    def whole(self) -> Node:
        node = self._choice()
        assert not self._tokens
        return node

    def _choice(self) -> Node:
        parts = [self._sequence()]
        while self._tokens[:1] == [("sign", "|")]:
            self._tokens.pop(0)
            parts.append(self._sequence())
        return ("any", parts) if len(parts) > 1 else parts[0]

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._tokens and self._tokens[0] not in (("sign", "|"), ("sign", ")")):
            kind, text = self._tokens.pop(0)
            match kind:
                case "literal":
                    parts.append(("literal", _plain(text[1:-1])))
                case "chars":
                    parts.append(("chars", _chars(text[1:-1])))
                case "name":
                    parts.append(("name", text))
                case "times":
                    parts[-1] = ("times", parts[-1], *_bounds(text))
                case _ if text == ".":
                    parts.append(("chars", _OTHERS))
                case _:
                    assert text == "("
                    parts.append(self._choice())
                    assert self._tokens.pop(0) == ("sign", ")")
        return ("all", parts)


def _bounds(text: str) -> tuple[int, int]:
    if text in "*+?":
        return {"*": (0, 99), "+": (1, 99), "?": (0, 1)}[text]
    least, comma, most = text[1:-1].partition(",")
    return int(least), int(most) if most else 99 if comma else int(least)


def _plain(text: str) -> str:
    return _ESCAPE.sub(
        lambda e: chr(int(e[1][1:], 16)) if len(e[1]) == 3 else _NAMED.get(e[1], e[1]), text
    )


def _chars(text: str) -> str:
    """The characters of a class."""
    negated, text = text.startswith("^"), text.removeprefix("^")
    items = re.findall(r"\\x[0-9a-fA-F]{2}|\\.|.|\n", text)
    chosen: set[str] = set()
    while items:
        first = _plain(items.pop(0))
        if items[:1] == ["-"] and len(items) > 1:
            last = _plain(items[1])
            del items[:2]
            chosen |= {chr(code) for code in range(ord(first), ord(last) + 1)}
        else:
            chosen.add(first)
    return "".join(c for c in _OTHERS if c not in chosen) if negated else "".join(sorted(chosen))
