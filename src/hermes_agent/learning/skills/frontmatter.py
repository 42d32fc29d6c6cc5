"""Reads the frontmatter of a `SKILL.md`: YAML in which every value is text. It accepts and refuses
what the reference does, with the same limits; see agentskills.io."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from hermes_agent.policy.yaml_nodes import BadYaml, Node, NodeBuilder, bad_yaml

FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
NAME_CHARS, DESCRIPTION_CHARS, COMPATIBILITY_CHARS = 64, 1024, 500
FENCE = "---"
HEAD_CHARS, BRACKETS = 40_000, 500
"""More than a skill needs, and slow to parse."""

Value = str | list["Value"] | dict[str, "Value"]


class SkillProblem(Struct, frozen=True):
    severity: Literal["error", "warning"]
    message: str
    hint: str = ""


def skill_error(message: str, hint: str = "") -> SkillProblem:
    return SkillProblem("error", message, hint)


class Front(Struct, frozen=True):
    fields: dict[str, Value] = {}
    body: str = ""
    troubles: tuple[SkillProblem, ...] = ()

    def text(self, field: str) -> str:
        value = self.fields.get(field, "")
        return value.strip() if isinstance(value, str) else ""


def read_front(text: str, folder_name: str = "") -> Front:
    """Read and check it; with `folder_name`, also that the skill is named like its folder."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    cut = _cut(text)
    if isinstance(cut, SkillProblem):
        return Front(body=text, troubles=(cut,))
    head, body = cut
    try:
        value = _load(head)
    except BadYaml as bad:
        said = f"the frontmatter is not plain YAML: {bad.problem.message}, line {bad.problem.line}"
        hint = "one `field: value` per line; quote values that contain `: ` or begin with a symbol"
        return Front({}, body, (skill_error(said, hint),))
    if not isinstance(value, dict):
        return Front({}, body, (skill_error("the frontmatter contains no `field: value` lines"),))
    return Front(value, body, tuple(_checked(value, folder_name)))


def plain_name(name: str) -> str:
    """The same spelling for names that look the same."""
    return unicodedata.normalize("NFKC", name.strip())


def _cut(text: str) -> tuple[str, str] | SkillProblem:
    """Head and body. The reference ends the head at the first `---`, even within a value, and drops
    the fields after it, with the limits of the skill. So a fence within a line is refused here."""
    if not text.startswith(FENCE):
        return skill_error(
            "it does not begin with frontmatter",
            "the first line is `---`, then `name:` and `description:`, then another `---`",
        )
    parts = text.split(FENCE, 2)
    if len(parts) < 3:
        return skill_error("the frontmatter is not closed", "add a line `---` after it")
    head, rest = parts[1], parts[2]
    alone = head.partition("\n")[0].strip() == "" and head.endswith("\n")
    if not alone or rest.partition("\n")[0].strip():
        return skill_error(
            "`---` in the frontmatter must be alone on its line",
            "other agents end the frontmatter there; write it another way",
        )
    return head, rest.strip()


def _load(head: str) -> Value:
    """Raises `BadYaml`. The reference reads with ruamel, so its parser decides what is YAML."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    if len(head) > HEAD_CHARS or sum(map(head.count, "[{")) > BRACKETS:
        raise bad_yaml("", 1, 1, "too large or too deep")
    builder = NodeBuilder("")
    try:
        for event in YAML(typ="rt", pure=True).parse(head):
            mark = event.start_mark
            if getattr(event, "tag", None):
                raise bad_yaml("", mark.line + 1, 1, "tags are not supported")
            if getattr(event, "flow_style", False):
                said = "`{…}` and `[…]` are not supported: quote the value"
                raise bad_yaml("", mark.line + 1, 1, said)
            builder.take(event)
    except YAMLError as error:
        found = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise bad_yaml("", found.line + 1 if found else 1, 1, str(said)) from None
    except (ValueError, OverflowError) as error:  # an escape of no character
        raise bad_yaml("", 1, 1, str(error)) from None
    return "" if builder.root is None else _value(builder.root)


def _value(node: Node) -> Value:
    if node.items is not None:
        return [_value(item) for item in node.items]
    if node.pairs is None:
        return node.text or ""
    if len({value.column for _, value in node.pairs if value.pairs is not None}) > 1:
        raise bad_yaml("", node.line, 1, "fields are not indented consistently")
    return {key.text or "": _value(value) for key, value in node.pairs}


def _checked(fields: dict[str, Value], folder_name: str) -> Iterator[SkillProblem]:
    odd = sorted(fields.keys() - set(FIELDS))
    if odd:
        yield skill_error(
            f"unknown field {', '.join(map(repr, odd))}",
            f"known: {', '.join(FIELDS)}; anything else goes below `metadata`",
        )
    yield from _name(fields.get("name"), folder_name)
    description = fields.get("description")
    if not isinstance(description, str) or not description.strip():
        yield skill_error("there is no description", "say what it does and when to use it")
    elif len(description) > DESCRIPTION_CHARS:
        yield skill_error(
            f"the description has {len(description):,} characters; {DESCRIPTION_CHARS:,} at most"
        )
    compatibility = fields.get("compatibility", "")
    if not isinstance(compatibility, str):
        yield skill_error("compatibility is not text")
    elif len(compatibility) > COMPATIBILITY_CHARS:
        yield skill_error(f"compatibility has more than {COMPATIBILITY_CHARS} characters")


def _name(given: Value | None, folder_name: str) -> Sequence[SkillProblem]:
    if not isinstance(given, str) or not given.strip():
        return [skill_error("there is no name", "lower-case letters, digits and single hyphens")]
    name = plain_name(given)
    wrong = [
        said
        for holds, said in (
            (len(name) > NAME_CHARS, f"has more than {NAME_CHARS} characters"),
            (name != name.lower(), "is not in lower case"),
            (name.startswith("-") or name.endswith("-"), "starts or ends with a hyphen"),
            ("--" in name, "has two hyphens in a row"),
            (not all(sign.isalnum() or sign == "-" for sign in name), "has other characters"),
        )
        if holds
    ]
    hint = "lower-case letters, digits and single hyphens"
    troubles = [skill_error(f"the name {name!r} {said}", hint) for said in wrong]
    if folder_name and unicodedata.normalize("NFKC", folder_name) != name:
        troubles.append(
            skill_error(
                f"the name {name!r} differs from its folder's, {folder_name!r}", "rename one"
            )
        )
    return troubles
