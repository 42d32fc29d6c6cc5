"""The skills that come with Hermes are examples of what we ask of others."""

import re
import subprocess
from pathlib import Path

import pytest
import skills_ref

from hermes_agent.core.effects import Actor, Verdict
from hermes_agent.core.incidents import CATEGORIES
from hermes_agent.core.settings.root import LoopSettings
from hermes_agent.learning.injection_scan.scan import reason
from hermes_agent.learning.skills.file import parse, problems, section
from hermes_agent.learning.skills.runbook import load
from hermes_agent.learning.skills.template import SERVICE_FACTS
from hermes_agent.policy.files.loader import Policies
from hermes_agent.policy.path_resolvers import by_words, finish
from hermes_agent.policy.testing import HOMES, TERMINAL, WORKSPACE, make_effect
from tests.support.skills import BUNDLED, skill_home

SKILLS = sorted(folder.name for folder in BUNDLED.iterdir())
CAUSES = sorted(set(CATEGORIES) - {"no-fault", "unknown"})
FACTS = {
    "restart": "systemctl restart shop", "start": "systemctl start shop",
    "stop": "systemctl stop shop", "status": "systemctl status shop",
    "unit": "/etc/systemd/system/shop.service",
    "pid": "$(systemctl show -p MainPID --value shop)",
    "logs": "/var/log/shop/shop.log /srv/shop/log/current",
    "recent": "{ tail -qn 200 /var/log/shop/shop.log; journalctl -u shop -n 200 --no-pager; }",
    "configs": "/etc/shop/shop.conf", "ports": "8080 8443", "data": "/var/lib/shop",
}  # fmt: skip
POLICIES = Policies(Path("/nowhere"), HOMES)


def test_there_is_a_skill_for_every_cause_of_incidents() -> None:
    assert sorted({*CAUSES, "manifest-check", "write-a-skill"}) == SKILLS
    for name in CAUSES:
        skill = parse((BUNDLED / name / "SKILL.md").read_text(), name)
        assert skill.facts.incident == name
        assert [each.name for each in skill.parameters] == ["service"]
    assert set(FACTS) == set(SERVICE_FACTS)


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


def verdict(run: str, profile: str, place: str, source: str) -> Verdict:
    effect = make_effect(
        "terminal", {"command": run}, {"terminal": TERMINAL}, workspace=WORKSPACE, place=place,
        actor=Actor("user", "", source),
    )  # fmt: skip
    return finish(POLICIES.gate(profile).judge(effect, by_words(WORKSPACE, {})))


@pytest.mark.parametrize("name", CAUSES)
def test_a_runbook_looks_without_a_question_and_is_allowed_in_a_box(name: str) -> None:
    text = (BUNDLED / name / "runbook.yaml").read_text()
    book = load(text, {"service": "shop"}, FACTS).with_define()
    assert book.when
    assert book.verify
    # The runtime finds the process once, and says its number.
    told = load(text, {"service": "shop"}, {**FACTS, "pid": "31"}).with_define()
    looks = [each.run for one in (book, told) for each in (*one.when, *one.verify)]
    for look in looks:
        said = verdict(look, "careful", "local", "shipped-skill")
        assert said.action == "allow", (look, said.reason)
    for run in (*looks, *(each.run for each in book.steps)):
        for shell in ("bash", "sh"):
            read = subprocess.run(
                [shell, "-n"], input=run, text=True, capture_output=True, check=False
            )
            assert (read.returncode, read.stderr) == (0, "")
        said = verdict(run, "drill", "box", "cli")
        assert said.action == "allow", (run, said.reason)


@pytest.mark.parametrize("name", CAUSES)
def test_a_runbook_says_where_and_names_no_place_of_its_own_for_a_service(name: str) -> None:
    text = (BUNDLED / name / "runbook.yaml").read_text()
    assert "locus: " in text
    assert "component: " in text
    assert re.findall(r"/(?:etc|var/log|var/lib|srv|opt)/\{\{service", text) == []
    assert re.findall(r"\brm -|-delete|chmod (?:-R|777|666|a\+)|ulimit|prlimit", text) == []


async def test_bundled_skills_are_offered_from_where_they_are(tmp_path: Path) -> None:
    async with skill_home(tmp_path, shipped=BUNDLED) as (book, folder, _knowledge):
        entries = await book.offered(["terminal", "write_skill"])
        assert [each.name for each in entries] == SKILLS
        assert {each.state for each in entries} == {"given"}
        assert [each.name for each in folder.iterdir() if each.name[0] != "."] == []
        assert [name for name, each in book.known().items() if each.runbook] == CAUSES
        for name in CAUSES:  # the model is shown all of it, longer names included
            opened = await book.open(name, "service=nginx", facts=FACTS)
            assert len(opened.text) < LoopSettings().result_chars * 0.8, name
        opened = await book.open("service-crash", "service=nginx", run=True, facts=FACTS)
        assert "`systemctl status shop`" in opened.text
        assert "nginx has no process" in opened.text
        assert opened.opened.runbook is not None
        assert opened.opened.bounds is not None
        assert "only the tools read_file" in opened.text
