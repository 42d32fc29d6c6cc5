"""Skills as text: opened for the model, compared, and how alike two are."""

import difflib
import re
import unicodedata
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import UsageError
from hermes_agent.core.knowledge import SkillRecord, SkillVersion
from hermes_agent.core.skills import ActivatedSkill, OpenedSkill, Runbook, SkillLimits, Snippet
from hermes_agent.learning.skills.file import SkillText
from hermes_agent.learning.skills.folder import RUNBOOK, decoded, main_file
from hermes_agent.learning.skills.frontmatter import SkillProblem
from hermes_agent.learning.skills.template import read_arguments, with_values

STATES = {
    "given": "",
    "proven": ", proven",
    "candidate": ", a candidate: not proven yet, check what it says before you rely on it",
}
SHINGLE = 3
_TERMINAL = "terminal("
_WORD = re.compile(r"[^\W_]+")
_DULL = frozenset(
    {
        "a", "an", "and", "are", "as", "at", "be", "by", "do", "for", "from", "if", "in", "is",
        "it", "its", "not", "of", "on", "or", "so", "such", "that", "the", "then", "there", "this",
        "to", "use", "used", "when", "where", "which", "with", "you", "your", "skill", "step",
        "run", "check",
    }
)  # fmt: skip
"""Words that say nothing about what a skill is for."""


class SkillPage(Struct, frozen=True):
    record: SkillRecord
    text: SkillText
    files: Mapping[str, bytes]
    problems: Sequence[SkillProblem]
    versions: Sequence[SkillVersion]
    folder: str
    """Where it is read from; empty if it was removed."""


def opened(
    record: SkillRecord,
    skill: SkillText,
    files: Mapping[str, bytes],
    arguments: str,
    folder: str,
    *,
    run: bool,
    facts: Mapping[str, str] | None = None,
) -> OpenedSkill:
    """The skill as the model reads it, with its values. `facts`: of the service, during an
    incident; the runbook is then shown as it would be run."""
    values = read_arguments(skill.parameters, arguments, record.name)
    facts = facts if skill.facts.incident else None
    body = with_values(skill.body, values, arguments, facts)
    head = [f"[the skill {record.name}, version {record.version}{STATES.get(record.state, '')}]"]
    head += [f"[arguments: {arguments}]"] if arguments.strip() else []
    head += [f"[while it is active: {in_words(skill.bounds)}]"] if skill.bounds else []
    before = "\n".join(head) + "\n\n"
    text = before + body.text + _others(record.name, files, folder)
    if facts and RUNBOOK in files:
        shown = msgspec.json.encode(_runbook(record.name, files, values, facts)).decode()
        text += f"\nIts runbook for this service:\n```json\n{shown}\n```\n"
    moved = tuple(
        Snippet(each.start + len(before), each.end + len(before), each.command)
        for each in body.snippets
    )
    runbook = _runbook(record.name, files, values, facts).with_define() if run else None
    made = ActivatedSkill(record.name, record.digest, skill.bounds, arguments, runbook)
    return OpenedSkill(made, text, moved)


def in_words(bounds: SkillLimits) -> str:
    """What a skill's limits allow."""
    commands = [
        each[len(_TERMINAL) : -1].removesuffix(":*")
        for each in bounds.tools
        if each.startswith(_TERMINAL)
    ]
    tools = [each for each in bounds.tools if not each.startswith(_TERMINAL)]
    if commands:
        tools.append(f"terminal for {', '.join(commands)}")
    named = (("tools", tools), ("paths", bounds.paths), ("hosts", bounds.hosts))
    return "; ".join(f"only the {what} {', '.join(allowed)}" for what, allowed in named if allowed)


def diff(one: Mapping[str, bytes], other: Mapping[str, bytes], before: str, after: str) -> str:
    """A unified diff of two versions, file by file."""
    parts: list[str] = []
    for path in sorted(one.keys() | other.keys()):
        if one.get(path) == other.get(path):
            continue
        texts = [decoded(files.get(path, b"")) for files in (one, other)]
        if None in texts:
            parts.append(f"binary files {before}/{path} and {after}/{path} differ")
            continue
        old, new = ((text or "").splitlines() for text in texts)
        names = (f"{before}/{path}", f"{after}/{path}")
        parts += difflib.unified_diff(old, new, *names, lineterm="")
    return "\n".join(parts)


def likeness(one: "ComparedWords", other: "ComparedWords") -> float:
    """From 0 to 1. Copied texts share runs of words; rewritten ones share the words that matter."""
    copied = _overlap(one.shingles, other.shingles)
    meant = (_overlap(one.about, other.about) + _overlap(one.words, other.words)) / 2
    return max(copied, meant)


class ComparedWords:
    def __init__(self, name: str, description: str, body: str) -> None:
        about, words = _words(f"{name} {description}"), _words(body)
        self.about = frozenset(about) - _DULL
        self.words = frozenset(words) - _DULL
        runs = [*about, *words]
        self.shingles = frozenset(zip(*(runs[at:] for at in range(SHINGLE)), strict=False))


def _words(text: str) -> Sequence[str]:
    plain = unicodedata.normalize("NFKC", text).casefold()
    return [_stem(word) for word in _WORD.findall(plain)]


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) > 3:
            return word.removesuffix(ending)
    return word


def _overlap(one: "frozenset[object]", other: "frozenset[object]") -> float:
    both = len(one | other)
    return len(one & other) / both if both else 0.0


def _others(name: str, files: Mapping[str, bytes], folder: str) -> str:
    main = main_file(files)
    others = [path for path in sorted(files) if path not in (main, RUNBOOK)]
    if not others:
        return "\n"
    lines = [f"- {path} ({len(files[path]):,} bytes)" for path in others]
    how = f"Its other files; read one with `skill`, name {name} and file:"
    scripts = any(path.startswith("scripts/") for path in others)
    where = f"\nOn the machine that Hermes runs on they are in {folder}" if scripts else ""
    return f"\n\n{how}\n" + "\n".join(lines) + where + "\n"


def _runbook(
    name: str,
    files: Mapping[str, bytes],
    values: Mapping[str, str],
    facts: Mapping[str, str] | None,
) -> Runbook:
    from hermes_agent.learning.skills.runbook import load

    text = decoded(files.get(RUNBOOK, b"\0"))
    if text is None:
        raise UsageError(f"the skill {name!r} has no {RUNBOOK}", f"ask for it instead: /{name}")
    return load(text, values, facts)
