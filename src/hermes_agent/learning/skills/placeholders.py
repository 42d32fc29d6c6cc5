"""Placeholders in texts and commands: where they are, and whether a value that is quoted stays one
word there."""

import re

NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
PLACEHOLDER = re.compile(rf"(?<!\$)\{{\{{[ \t]*({NAME})[ \t]*\}}\}}")
SERVICE_FACTS = (
    "restart", "start", "stop", "status", "unit", "pid", "logs", "recent", "configs", "ports",
    "data",
)  # fmt: skip
"""Placeholders that a skill for incidents has beside its parameters: facts of the service, filled
in as plain shell text while an incident is worked on."""
_BEFORE_WORD = frozenset(" \t\n;|&()<>")


def within(text: str, position: int) -> str:
    """What of the shell's signs a place in a command stands within, where a quoted value would
    not stay one: empty where it would."""
    inside, at = "", 0
    while at < position:
        sign = text[at]
        if inside == "'":
            inside = "" if sign == "'" else inside
        elif sign == "\\":
            at += 1
        elif inside == "$'":
            inside = "" if sign == "'" else inside
        elif inside == '"':
            if sign == "`" or text.startswith(("$(", "${"), at):
                return "a substitution in quotes"
            inside = "" if sign == '"' else inside
        elif sign == "'":
            inside = "$'" if text[:at].endswith("$") else "'"
        elif sign == '"':
            inside = '"'
        elif sign == "#" and (not at or text[at - 1] in _BEFORE_WORD):
            end = text.find("\n", at)
            at = position if end < 0 else end
        elif found := _odd(text, at):
            return found
        else:
            at += 2 if text.startswith("<<<", at) else 0
        at += 1
    if at > position:
        return "a comment or behind a backslash"
    return "quotes" if inside else ""


def _odd(text: str, at: int) -> str:
    if text[at] == "`":
        return "backticks"
    if text.startswith("((", at):
        return "arithmetic"
    if text.startswith("<<", at) and not text.startswith("<<<", at):
        return "a command with a here-document"
    return ""
