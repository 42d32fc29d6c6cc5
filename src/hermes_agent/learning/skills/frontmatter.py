"""The head of a `SKILL.md`: YAML of the plain kind, in which every value is text. What the format's
reference reads and what it refuses, with its limits; see agentskills.io."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from ruamel.yaml.events import Event

FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
NAME_CHARS, DESCRIPTION_CHARS, COMPATIBILITY_CHARS = 64, 1024, 500
FENCE = "---"
HEAD_CHARS, BRACKETS = 40_000, 500
"""More is no head of a skill, and takes the reader of YAML very long."""

Value = str | list["Value"] | dict[str, "Value"]


class FrontmatterError(Struct, frozen=True):
    message: str
    hint: str = ""


class Front(Struct, frozen=True):
    """What stands before the body, as far as it can be read."""

    fields: dict[str, Value] = {}
    body: str = ""
    troubles: tuple[FrontmatterError, ...] = ()

    def text(self, field: str) -> str:
        value = self.fields.get(field, "")
        return value.strip() if isinstance(value, str) else ""


class _Refused(Exception):
    pass


def read_front(text: str, folder_name: str = "") -> Front:
    """Read the head and check it; with `folder_name`, also that the skill is named as its
    folder."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    cut = _cut(text)
    if isinstance(cut, FrontmatterError):
        return Front(body=text, troubles=(cut,))
    head, body = cut
    try:
        value = _load(head)
    except _Refused as refused:
        hint = "one `field: value` a line; quote values that hold `: ` or begin with a sign"
        return Front(
            {}, body, (FrontmatterError(f"the frontmatter is not plain YAML: {refused}", hint),)
        )
    if not isinstance(value, dict):
        return Front({}, body, (FrontmatterError("the frontmatter holds no `field: value` lines"),))
    return Front(value, body, tuple(_checked(value, folder_name)))


def plain_name(name: str) -> str:
    """One spelling for names that look the same."""
    return unicodedata.normalize("NFKC", name.strip())


def _cut(text: str) -> tuple[str, str] | FrontmatterError:
    """Head and body. The reference ends the head at the first `---` wherever it stands, even within
    a value, and drops the fields behind it; with them would go what bounds the skill. So a fence
    that has no line of its own is refused here."""
    if not text.startswith(FENCE):
        return FrontmatterError(
            "it does not begin with frontmatter",
            "the first line is `---`, then `name:` and `description:`, then another `---`",
        )
    parts = text.split(FENCE, 2)
    if len(parts) < 3:
        return FrontmatterError("the frontmatter has no end", "put a line `---` after it")
    head, rest = parts[1], parts[2]
    alone = head.partition("\n")[0].strip() == "" and head.endswith("\n")
    if not alone or rest.partition("\n")[0].strip():
        return FrontmatterError(
            "`---` in the frontmatter stands on a line with something else",
            "other agents end the frontmatter there; write it another way",
        )
    return head, rest.strip()


def _load(head: str) -> Value:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    if len(head) > HEAD_CHARS or sum(map(head.count, "[{")) > BRACKETS:
        raise _Refused("it is too large, or too deep")
    try:
        events = iter(list(YAML(typ="rt", pure=True).parse(head)))
    except YAMLError as error:
        raise _Refused(_first_line(error)) from None
    except (ValueError, OverflowError) as error:  # escapes that stand for no character
        raise _Refused(str(error)) from None
    return _document(events)


def _first_line(error: Exception) -> str:
    said = getattr(error, "problem", None) or str(error).partition("\n")[0]
    mark = getattr(error, "problem_mark", None)
    return f"{said}, line {mark.line + 1}" if mark is not None else str(said)


def _document(events: "Iterator[Event]") -> Value:
    from ruamel.yaml import events as kinds

    value: Value | None = None
    for event in events:
        if isinstance(event, kinds.DocumentStartEvent):
            if value is not None:
                raise _Refused("there are two documents in it")
            value, _ = _node(next(events), events)
    return "" if value is None else value


def _node(event: "Event", events: "Iterator[Event]") -> tuple[Value, int | None]:
    """A value, and the column it begins in when it has fields."""
    from ruamel.yaml import events as kinds

    if isinstance(event, kinds.AliasEvent) or getattr(event, "anchor", None):
        raise _Refused(f"anchors and aliases are not read, line {event.start_mark.line + 1}")
    if isinstance(event, kinds.NodeEvent) and getattr(event, "tag", None):
        raise _Refused(f"tags are not read, line {event.start_mark.line + 1}")
    if getattr(event, "flow_style", False):
        raise _Refused(
            f"`{{…}}` and `[…]` are not read, line {event.start_mark.line + 1}: quote the value"
        )
    if isinstance(event, kinds.ScalarEvent):
        return str(event.value), None
    if isinstance(event, kinds.SequenceStartEvent):
        items: list[Value] = []
        while not isinstance(inner := next(events), kinds.SequenceEndEvent):
            items.append(_node(inner, events)[0])
        return items, None
    return _mapping(events), event.start_mark.column


def _mapping(events: "Iterator[Event]") -> dict[str, Value]:
    from ruamel.yaml import events as kinds

    fields: dict[str, Value] = {}
    indents: set[int] = set()
    while not isinstance(inner := next(events), kinds.MappingEndEvent):
        key, _ = _node(inner, events)
        line = inner.start_mark.line + 1
        if not isinstance(key, str):
            raise _Refused(f"the name of a field is no text, line {line}")
        if key in fields:
            raise _Refused(f"{key!r} is there twice, line {line}")
        fields[key], indent = _node(next(events), events)
        indents |= set() if indent is None else {indent}
        if len(indents) > 1:
            raise _Refused(f"fields are not indented alike, line {line}")
    return fields


def _checked(fields: dict[str, Value], folder_name: str) -> Iterator[FrontmatterError]:
    odd = sorted(fields.keys() - set(FIELDS))
    if odd:
        yield FrontmatterError(
            f"the format has no field {', '.join(map(repr, odd))}",
            f"there are: {', '.join(FIELDS)}; anything else goes below `metadata`",
        )
    yield from _name(fields.get("name"), folder_name)
    description = fields.get("description")
    if not isinstance(description, str) or not description.strip():
        yield FrontmatterError("there is no description", "say what it does and when to use it")
    elif len(description) > DESCRIPTION_CHARS:
        yield FrontmatterError(
            f"the description has {len(description):,} characters; {DESCRIPTION_CHARS:,} at most"
        )
    compatibility = fields.get("compatibility", "")
    if not isinstance(compatibility, str):
        yield FrontmatterError("compatibility is no text")
    elif len(compatibility) > COMPATIBILITY_CHARS:
        yield FrontmatterError(f"compatibility has more than {COMPATIBILITY_CHARS} characters")


def _name(given: Value | None, folder_name: str) -> Sequence[FrontmatterError]:
    if not isinstance(given, str) or not given.strip():
        return [
            FrontmatterError("there is no name", "lower-case letters, digits and single hyphens")
        ]
    name = plain_name(given)
    wrong = [
        said
        for holds, said in (
            (len(name) > NAME_CHARS, f"has more than {NAME_CHARS} characters"),
            (name != name.lower(), "is not in lower case"),
            (name.startswith("-") or name.endswith("-"), "begins or ends with a hyphen"),
            ("--" in name, "has two hyphens in a row"),
            (not all(sign.isalnum() or sign == "-" for sign in name), "holds other signs"),
        )
        if holds
    ]
    hint = "lower-case letters, digits and single hyphens"
    troubles = [FrontmatterError(f"the name {name!r} {said}", hint) for said in wrong]
    if folder_name and unicodedata.normalize("NFKC", folder_name) != name:
        troubles.append(
            FrontmatterError(
                f"the name {name!r} is not that of its folder, {folder_name!r}", "rename one"
            )
        )
    return troubles
