"""The skills that come with Hermes are examples of what we ask of others."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import skills_ref

from hermes_agent.learning.runbook import load
from hermes_agent.learning.scan import reason
from hermes_agent.learning.skill_file import parse, problems, section
from hermes_agent.learning.skill_words import with_values
from tests.support.policies import effect_of, judge
from tests.support.skillbooks import BUNDLED, skill_home

SKILLS = sorted(folder.name for folder in BUNDLED.iterdir())


def test_the_skills_that_come_with_hermes_are_these() -> None:
    assert SKILLS == ["disk-full", "manifest-check", "service-down", "write-a-skill"]


@pytest.mark.parametrize("name", SKILLS)
def test_a_bundled_skill_is_well_by_the_reference_and_by_us(name: str) -> None:
    folder = BUNDLED / name
    assert skills_ref.validate(folder) == []
    assert problems(folder) == []
    skill = parse((folder / "SKILL.md").read_text(), name)
    assert skill.bounds is not None
    for heading in ("When to Use", "Procedure", "Pitfalls", "Verification"):
        assert section(skill.body, heading), heading
    for path in folder.rglob("*"):
        if path.is_file():
            assert reason(path.read_text(), "skill") == "", path


EVERYTHING = """
- {id: known, match: {tool: "*"}, then: allow}
- {id: odd, match: {tool: "*", kind: [call, program, path, host, unknown], unknown: true},
   then: allow}
"""
INLINE = re.compile(r"`([a-z]+ [^`]+)`")


def commands(name: str, values: dict[str, str]) -> Iterator[str]:
    """What the skill says to run, by its runbook and in its text."""
    book = load((BUNDLED / name / "runbook.yaml").read_text(), values)
    yield from (each.run for each in (*book.when, *book.steps, *book.verify))
    yield from (step.verify.run for step in book.steps if step.verify)
    skill = parse((BUNDLED / name / "SKILL.md").read_text(), name)
    for heading in ("Procedure", "Verification"):
        for command in INLINE.findall(section(skill.body, heading)):
            yield with_values(command, skill.parameters, values).text.replace("FILE", "/var/log/x")


@pytest.mark.parametrize(
    ("name", "values"),
    [("disk-full", {"path": "/var"}), ("service-down", {"service": "nginx", "port": ""})],
)
def test_what_a_bundled_skill_says_to_run_is_within_its_bounds(
    name: str, values: dict[str, str]
) -> None:
    skill = parse((BUNDLED / name / "SKILL.md").read_text(), name)
    assert skill.bounds is not None
    found = list(commands(name, values))
    assert len(found) >= 12
    for command in found:
        verdict = judge(EVERYTHING, effect_of(command, bounds=(skill.bounds,))).verdict
        assert verdict.action == "allow", (command, verdict.reason)
    for command in ("bash -c id", "python3 x.py", "sudo bash", "crontab -r"):
        verdict = judge(EVERYTHING, effect_of(command, bounds=(skill.bounds,))).verdict
        assert verdict.action == "deny", command


async def test_bundled_skills_are_offered_from_where_they_are(tmp_path: Path) -> None:
    async with skill_home(tmp_path, shipped=BUNDLED) as (book, folder, _lore):
        entries = await book.offered(["terminal", "write_skill"])
        assert [each.name for each in entries] == SKILLS
        assert {each.state for each in entries} == {"given"}
        assert [each.name for each in folder.iterdir() if each.name[0] != "."] == []
        assert [name for name, each in book.known().items() if each.runbook] == [
            "disk-full", "service-down",
        ]  # fmt: skip
        opened = await book.open("service-down", "nginx", run=True)
        assert "systemctl status nginx --no-pager" in opened.text
        assert opened.opened.runbook is not None
        assert opened.opened.runbook.verify[0].run == "systemctl is-active nginx"
        assert opened.opened.bounds is not None
        assert "only the tools read_file" in opened.text
