"""Brace expansion, as bash does it before anything else."""

import re
from collections.abc import Sequence
from itertools import pairwise

from hermes_agent.policy.shell.parser.syntax import Literal, Part, Parts, UnreadableShell

Atom = str | Part
"""A literal character, or a piece that braces leave alone."""

_SEQUENCE = re.compile(r"(?:(-?[0-9]+)\.\.(-?[0-9]+)|([A-Za-z])\.\.([A-Za-z]))(?:\.\.(-?[0-9]+))?")
_MAX = 256
_MAX_BRACES = 40


def expand_braces(parts: Parts) -> list[Parts]:
    if not any(isinstance(part, Literal) and "{" in part.text for part in parts):
        return [parts]
    if sum(part.text.count("{") for part in parts if isinstance(part, Literal)) > _MAX_BRACES:
        raise UnreadableShell("too many braces in a word")
    atoms: list[Atom] = []
    for part in parts:
        if isinstance(part, Literal):
            atoms += part.text
        else:
            atoms.append(part)
    return [_join(atoms) for atoms in _expand(atoms, 0)]


def _join(atoms: Sequence[Atom]) -> Parts:
    parts: list[Part] = []
    for atom in atoms:
        if not isinstance(atom, str):
            parts.append(atom)
        elif parts and isinstance(parts[-1], Literal):
            parts[-1] = Literal(parts[-1].text + atom)
        else:
            parts.append(Literal(atom))
    return tuple(parts)


def _expand(atoms: list[Atom], depth: int) -> list[list[Atom]]:
    if depth > 30:
        raise UnreadableShell("braces nested too deeply")
    for start, atom in enumerate(atoms):
        if atom != "{" or (start == 0 and atoms[1:2] == ["}"]):
            continue
        found = _matching(atoms, start)
        if found is None:
            continue
        end, commas = found
        inside = atoms[start + 1 : end]
        if commas:
            pieces = _pieces(atoms, start, end, commas)
            middles = [one for piece in pieces for one in _expand(piece, depth + 1)]
        else:
            middles = _sequence(inside)
            if not middles:
                if "{" in inside or "," in inside:
                    raise UnreadableShell("braces inside something that is not a sequence")
                continue
        after = _expand(atoms[end + 1 :], depth + 1)
        if len(middles) * len(after) > _MAX:
            raise UnreadableShell("braces expand to too many words")
        return [[*atoms[:start], *middle, *rest] for middle in middles for rest in after]
    return [atoms]


def _matching(atoms: list[Atom], start: int) -> tuple[int, list[int]] | None:
    """The closing brace and the commas before it. As in bash, a brace closes nothing before a
    comma or two dots have been seen."""
    depth = 0
    dotted = False
    commas: list[int] = []
    for at in range(start + 1, len(atoms)):
        atom = atoms[at]
        if atom == "}" and depth == 0 and (commas or dotted):
            return at, commas
        if atom == "{":
            depth += 1
        elif atom == "}" and depth:
            depth -= 1
        elif atom == "," and depth == 0:
            commas.append(at)
        elif atom == "." and depth == 0 and atoms[at + 1 : at + 2] == ["."]:
            dotted = dotted or atoms[at + 2 : at + 3] != ["}"]
    return None


def _pieces(atoms: list[Atom], start: int, end: int, commas: list[int]) -> list[list[Atom]]:
    edges = [start, *commas, end]
    return [atoms[left + 1 : right] for left, right in pairwise(edges)]


def _sequence(inside: list[Atom]) -> list[list[Atom]]:
    if not all(isinstance(atom, str) for atom in inside):
        return []
    text = "".join(atom for atom in inside if isinstance(atom, str))
    found = _SEQUENCE.fullmatch(text)
    if not found:
        return []
    low, high, first, last, step = found.groups()
    if first and (first.isupper() != last.isupper()):
        raise UnreadableShell("braces expand to characters between letters")
    left = int(low) if low else ord(first)
    right = int(high) if high else ord(last)
    pace = max(abs(int(step)) if step else 1, 1)
    if abs(right - left) // pace >= _MAX:
        raise UnreadableShell("braces expand to too many words")
    values = range(left, right + 1, pace) if left <= right else range(left, right - 1, -pace)
    if first:
        return [[chr(value)] for value in values]
    padded = any(re.match(r"-?0[0-9]", side) for side in (low, high))
    width = max(len(low), len(high)) if padded else 0
    return [list(f"{value:0{width}d}") for value in values]
