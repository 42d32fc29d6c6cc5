"""Incidents from the signal to the report, with models whose words are written down beforehand and
commands that really run."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes_agent.core import events as ev
from hermes_agent.core.incidents import Signal, WatchedCheck
from hermes_agent.core.skills import Check
from tests.support.incident_fixture import (
    OVER,
    RUNBOOK,
    SAW,
    Response,
    act,
    prevention,
    resolve,
    response,
)
from tests.support.patience import PATIENCE
from tests.support.runtime_fixture import until
from tests.support.subagents import call, delegated, say, shell

pytestmark = pytest.mark.sample_file(12)

LOOK = shell("cat {work}/web.log")
MEND = shell("touch {work}/web.up")
SKILL = {
    "calls": [
        call("write_skill", name="service-crash-web", why="inc-1",
             files=prevention("service-crash-web"))
    ]
}  # fmt: skip
DONE = say("done")
NEVER = {"not_over": [say("I am at a loss")], "over": [DONE]}


def refusals(found: list[ev.CallFinished]) -> list[str]:
    return [one.text for one in found if not one.ok]


async def test_an_incident_is_investigated_mended_verified_reported_and_learned_from(
    tmp_path: Path,
) -> None:
    claim = act(
        "hypothesis", claim="the disk is full", component="web", category="service-crash",
        confidence=0.8, evidence=[SAW],
    )  # fmt: skip
    begin = [LOOK, claim, MEND, act("verify"), resolve(), say("mended")]
    note = {"calls": [call("memory", action="add", text="web fills its disk on Mondays")]}
    async with response(tmp_path, quick=False, begin=begin, over=[SKILL, note, DONE]) as h:
        await h.fail()
        found = await h.over()
        assert found.state == "resolved"
        assert found.diagnosis is not None
        assert (found.diagnosis.component, found.diagnosis.category) == ("web", "service-crash")
        assert [one.claim for one in found.hypotheses] == ["the disk is full"]
        kinds = await h.kinds()
        for kind in ("declared", "hypothesis", "action", "verified", "resolved", "learned"):
            assert kind in kinds, kinds
        assert kinds.count("action") == 1
        assert kinds[-1] == "report"
        told = await h.notices()
        assert {kind for kind, _ in told} == {"declared", "resolved"}
        assert len(told) == len(set(told))
        assert await h.keys() == ["brief", "aftermath"]
        record = await h.runtime.context.store.knowledge.skill("service-crash-web")
        assert record.state == "candidate"
        ours, theirs = await h.runtime.context.store.knowledge.notes()
        assert (ours.by, theirs.text) == ("runtime", "web fills its disk on Mondays")
        assert f"Fixed by `touch {h.work}/web.up`" in ours.text
        await _report_is_whole(h)
        hits = await h.get("/v1/recall", query="disk full web", kind="incident")
        assert [hit["ref"] for hit in hits] == ["inc-1"]


async def _report_is_whole(h: Response) -> None:
    folder = h.runtime.context.home.path / "incidents"
    (written,) = folder.glob("*-inc-1.json")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-web-inc-1", written.stem)
    made = json.loads(written.read_text())
    (pointer,) = made["evidence"]
    events = {
        one.number: one.event for one in await h.runtime.context.store.events(pointer["session"])
    }
    seen = events[pointer["event"]]
    assert isinstance(seen, ev.CallFinished)
    assert SAW in seen.text
    assert [(one["what"], one["ok"]) for one in made["actions"]] == [
        (f"terminal: touch {h.work}/web.up", True)
    ]
    assert made["learned"] == "service-crash-web"
    assert made["seconds"] >= 0
    text = written.with_suffix(".md").read_text()
    for part in ("## Cause", "## Evidence", "## Actions", "## Timeline", "rotate the logs", SAW):
        assert part in text
    assert made == await h.get("/v1/incidents/inc-1/report") | {"timeline": made["timeline"]}
    shown = await h.get("/v1/incidents/inc-1/report", form="markdown")
    assert shown["text"].splitlines()[0] == "# inc-1: web is down"


async def test_the_brief_says_what_is_known_and_ends_with_data(tmp_path: Path) -> None:
    async with response(tmp_path, begin=[act("escalate", summary="s", needed="n"), DONE]) as h:
        await h.save_skill("service-crash-web", "candidate", RUNBOOK)
        await h.fail()
        await h.over()
        text = (await h.shown(await h.session()))[0]
    assert text.startswith("Incident inc-1 (P1)\n")
    data = json.loads(text.rpartition("```json\n")[2].partition("\n```")[0])
    assert (data["incident"], data["service"], data["check"]["exit"]) == ("inc-1", "web", 1)
    assert data["others"] == [{"skill": "service-crash-web", "state": "candidate"}]
    assert [one["service"] for one in data["facts"]] == ["web"]


async def test_a_false_alarm_is_closed_when_all_holds_and_nothing_was_changed(
    tmp_path: Path,
) -> None:
    begin = [LOOK, act("false_alarm", summary="it passed by itself"), DONE]
    async with response(tmp_path, begin=begin) as h:
        await h.fail()
        (h.work / "web.up").touch()
        found = await h.over()
        assert (found.state, await h.keys()) == ("closed", ["brief"])
        assert found.diagnosis is not None
        assert found.diagnosis.category == "no-fault"
        assert {kind for kind, _ in await h.notices()} == {"declared", "closed"}


async def test_what_was_changed_or_still_fails_is_no_false_alarm(tmp_path: Path) -> None:
    alarm = act("false_alarm", summary="nothing")
    begin = [alarm, MEND, alarm, act("escalate", summary="odd", needed="a look"), DONE]
    async with response(tmp_path, begin=begin) as h:
        await h.fail()
        found = await h.over()
        first, second = refusals(await h.told("incident"))
        assert (found.state, found.ended) == ("escalated", None)
    assert "not a false alarm" in first and "web: FAILS" in first  # noqa: PT018
    assert "this was changed: terminal: touch" in second


async def test_an_escalation_has_a_diagnosis_and_says_what_is_needed(tmp_path: Path) -> None:
    end = act(
        "escalate", component="db", category="database-lock", summary="a lock that is not ours",
        evidence=[SAW], needed="the owner must end the migration",
    )  # fmt: skip
    async with response(tmp_path, begin=[LOOK, end, DONE]) as h:
        await h.fail()
        found = await h.over()
        assert found.diagnosis is not None
        assert (found.state, found.diagnosis.category) == ("escalated", "database-lock")
        made = await h.get("/v1/incidents/inc-1/report")
        assert made["needed"] == "the owner must end the migration"
        assert await h.keys() == ["brief"], "nothing is learned from what was not mended"
        assert ("escalated", "log") in await h.notices()


async def test_what_people_mended_later_is_in_the_report_and_teaches_nothing(
    tmp_path: Path,
) -> None:
    begin = [act("escalate", summary="not mine", needed="a person"), DONE]
    async with response(tmp_path, begin=begin) as h:
        await h.fail()
        await h.over()
        await h.fail(firing=False)

        async def told() -> bool:
            return (await h.kinds()).count("report") == 2

        await until(told)
        assert (await h.incident()).state == "resolved"
        assert await h.keys() == ["brief"]
        (report,) = (h.runtime.context.home.path / "incidents").glob("*-inc-1.md")
        text = report.read_text()
        assert "| state | resolved |" in text


async def test_what_is_only_said_resolves_nothing(tmp_path: Path) -> None:
    async with response(tmp_path, begin=[say("I fixed it. Resolved!")], **NEVER) as h:
        await h.fail()
        found = await h.over()
        assert found.state == "escalated"
        assert await h.keys() == ["brief", "again-1", "again-2", "again-3"]
        assert found.diagnosis is not None
        assert "no outcome after 4 turns" in found.diagnosis.summary


async def test_nothing_is_resolved_by_claims_that_are_not_so(tmp_path: Path) -> None:
    mine = "web: the disk is full, I say so"
    tries = {
        "in no result of this session": [resolve()],
        "nothing was changed here": [LOOK, resolve()],
        "web: FAILS": [shell("touch {work}/other"), resolve()],
        "wrote yourself": [shell(f"echo '{mine}'"), resolve(evidence=[mine])],
        "resolve needs evidence": [resolve(evidence=[])],
        "no cause is called": [resolve(category="full disk")],
        "then it is a false_alarm": [resolve(category="no-fault")],
        "12 to 300": [resolve(evidence=["No space"])],
    }
    begin = [line for lines in tries.values() for line in lines]
    async with response(tmp_path, begin=[*begin, say("fixed")], **NEVER) as h:
        await h.fail()
        found = await h.over()
        assert (found.state, "resolved" in await h.kinds()) == ("escalated", False)
        texts = refusals(await h.told("incident"))
        for wanted, text in zip(tries, texts, strict=True):
            assert wanted in text


async def test_a_session_that_stopped_too_early_is_sent_on_and_ends_it(tmp_path: Path) -> None:
    async with response(
        tmp_path, begin=[LOOK, say("hm")], not_over=[MEND, resolve(), DONE], over=[DONE]
    ) as h:
        await h.fail()
        found = await h.over()
        keys = await h.keys()
        shown = await h.shown(await h.session())
    assert (found.state, keys[:2]) == ("resolved", ["brief", "again-1"])
    assert keys[2:] == ["aftermath", "aftermath-2"], "a skill is asked for twice, and no more"
    (again,) = [text for text in shown if text.startswith("The incident is not over")]
    assert "web: FAILS" in again


async def test_what_got_worse_must_be_undone_before_it_is_resolved(tmp_path: Path) -> None:
    begin = [
        LOOK, shell("touch {work}/web.up; rm {work}/db.up"), act("verify"), resolve(),
        shell("touch {work}/db.up"), act("verify"), resolve(component="db"), DONE,
    ]  # fmt: skip
    async with response(tmp_path, begin=begin, over=[SKILL, DONE]) as h:
        await h.watch("db")
        await h.fail()
        found = await h.over()
        kinds = await h.kinds()
        first, refused, second, end = await h.told("incident")
        assert [(one.name, one.needs) for one in await h.services()] == [("web", ("db",))]
    assert found.state == "resolved"
    assert "worse: db passed at the start and fails now" in first.text
    assert "rm " in first.text
    assert (refused.ok, "worse: db" in refused.text) == (False, True)
    assert "worse" not in second.text
    assert (end.ok, kinds.count("worse"), kinds.count("rolled-back")) == (True, 1, 1)


async def test_where_there_is_no_check_one_that_fails_now_is_made(tmp_path: Path) -> None:
    begin = [
        LOOK, act("verify"), act("check_with", command="true"),
        act("check_with", command="test -e {work}/web.up"), MEND, resolve(), DONE,
    ]  # fmt: skip
    async with response(tmp_path, begin=begin, over=[SKILL, DONE]) as h:
        await h.fail(source="person", check=None)
        found = await h.over()
        texts = refusals(await h.told("incident"))
        told = await h.runtime.context.store.incidents.notices(incident="inc-1")
    assert found.state == "resolved"
    assert len(found.checks) == 1
    assert all("added by the session itself" in one.text for one in told if one.kind == "resolved")
    assert ["there is no check" in texts[0], "passes now" in texts[1]] == [True, True]


async def test_a_check_that_a_session_makes_only_looks(tmp_path: Path) -> None:
    begin = [act("check_with", command="touch {work}/made; false"), DONE]
    async with response(tmp_path, begin=begin, **NEVER) as h:
        await h.fail(source="person", check=None)
        await h.over()
        assert "a check must not change anything" in refusals(await h.told("incident"))[0]
        assert not (h.work / "made").exists()


async def test_what_people_let_their_checks_do_is_not_for_checks_of_a_session(
    tmp_path: Path,
) -> None:
    rules = tmp_path / "home" / "policies"
    rules.mkdir(parents=True)
    (rules / "mine.yaml").write_text(
        "version: 1\nname: mine\nrules:\n"
        "  - {id: others, match: {program: nproc, actor: user}, then: deny, reason: not yours}\n"
    )
    begin = [act("check_with", command="nproc --all; false"), DONE]
    async with response(tmp_path, begin=begin, **NEVER) as h:
        theirs = WatchedCheck("cores", Check("nproc --all"))
        assert (await h.runtime.incidents.run_check(theirs, "sandbox")).ok
        await h.fail(source="person", check=None)
        await h.over()
        assert "not yours" in refusals(await h.told("incident"))[0]


async def test_a_check_that_came_later_and_ceased_keeps_nothing_from_being_resolved(
    tmp_path: Path,
) -> None:
    wait = shell("until test -e {work}/go; do sleep 0.05; done; cat {work}/web.log")
    async with response(tmp_path, begin=[wait, MEND, resolve(), DONE], over=[SKILL, DONE]) as h:
        await h.fail()
        more = WatchedCheck("web-2", Check("true"), "web")
        also = Signal("check", "check:web-2", "web is slow", "web", check=more)
        assert (await h.runtime.incidents.intake.raise_signal(also)).incident == "inc-1"
        await h.runtime.incidents.intake.raise_signal(replace(also, firing=False))
        (h.work / "go").touch()
        assert (await h.over()).state == "resolved"


async def test_secrets_that_checks_print_are_in_no_timeline(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".env").write_text("SHOP_TOKEN=hunter2-hunter2-hunter2\n")
    (tmp_path / "home" / ".env").chmod(0o600)
    begin = [act("verify"), act("escalate", summary="s", needed="n"), DONE]
    async with response(tmp_path, begin=begin) as h:
        check = WatchedCheck("web", Check("echo hunter2-hunter2-hunter2; false"), "web")
        await h.fail(check=check)
        await h.over()
        said = [f"{entry.text} {entry.data}" for entry in await h.timeline()]
    assert any("web: FAILS" in one for one in said)
    assert "hunter2" not in " ".join(said)


async def test_children_look_in_parallel_and_what_they_saw_is_evidence(tmp_path: Path) -> None:
    begin = [delegated("child of web: look"), MEND, resolve(), DONE]
    async with response(
        tmp_path, begin=begin, child=[LOOK, say("the disk is full")], over=[SKILL, DONE]
    ) as h:
        await h.fail()
        found = await h.over()
        (child,) = await h.runtime.context.store.sessions(parent=found.session)
        prompt = await h.runtime.context.store.prompt(child.prompt)
        entries = await h.timeline()
    assert found.diagnosis is not None
    assert [one.session for one in found.diagnosis.evidence] == [child.id]
    assert "incident" not in {spec.name for spec in prompt.tools}
    assert any("children investigate in parallel" in entry.text for entry in entries)


async def test_a_proven_runbook_heals_without_a_model(tmp_path: Path) -> None:
    async with response(tmp_path) as h:
        looking = "steps:\n  - run: \"cat {{service}}.log; echo 'locus: item 7'\"\n"
        await h.save_skill("service-crash-web", "proven", RUNBOOK.replace("steps:\n", looking))
        await h.fail()
        found = await h.over()
        journal = await h.journal(await h.session())
        assert (found.state, found.skill) == ("resolved", "service-crash-web")
        assert found.diagnosis is not None
        assert (found.diagnosis.category, found.diagnosis.locus) == ("service-crash", "item 7")
        assert [SAW in one.quote for one in found.diagnosis.evidence] == [True]
        assert await h.keys() == ["runbook"]
        models = {one.model for one in journal if isinstance(one, ev.Replied)}
        assert models == {"runbook/service-crash-web"}
        uses = await h.runtime.context.store.knowledge.uses("service-crash-web")
        assert [(one.opened, one.outcome) for one in uses] == [(True, "good")]


async def test_a_runbook_that_does_not_help_leaves_it_to_the_model(tmp_path: Path) -> None:
    moved = [say("a step")] * 3  # each command of the runbook counts as a reply
    end = [act("escalate", summary="s", needed="n"), DONE]
    async with response(tmp_path, begin=[*moved, *end]) as h:
        book = RUNBOOK.replace("run: touch", "run: false #")
        await h.save_skill("service-crash-web", "proven", book)
        await h.fail()
        found = await h.over()
        assert (found.state, await h.keys()) == ("escalated", ["runbook"]), "the brief was there"
        uses = await h.runtime.context.store.knowledge.uses("service-crash-web")
        assert [one.outcome for one in uses] == ["bad"]


async def test_a_runbook_that_is_not_for_this_or_not_proven_is_not_begun(tmp_path: Path) -> None:
    end = [act("escalate", summary="s", needed="n"), DONE]
    never = RUNBOOK.replace("test -e {{service}}.log", "false")
    always = "steps:" + RUNBOOK.partition("steps:")[2]
    async with response(tmp_path, begin=end) as h:
        await h.save_skill("inode-full-web", "proven", never)
        await h.save_skill("log-flood-web", "proven", always)
        await h.save_skill("service-crash-web", "candidate", RUNBOOK)
        await h.fail()
        found = await h.over()
        assert (found.state, await h.keys()) == ("escalated", ["brief"])


async def test_where_the_model_fails_the_one_that_is_built_in_goes_on(tmp_path: Path) -> None:
    async with response(tmp_path, begin=[]) as h:
        await h.fail()
        (h.work / "web.up").touch()
        found = await h.over()
        journal = await h.journal(await h.session())
        assert found.state in {"closed", "escalated"}
        assert [one.model for one in journal if isinstance(one, ev.ModelChosen)] == [
            "builtin/responder"
        ]
        assert any("builtin/responder takes over" in entry.text for entry in await h.timeline())


async def test_whom_a_drill_names_is_replaced_by_nobody(tmp_path: Path) -> None:
    async with response(tmp_path, begin=[]) as h:
        await h.fail(source="drill", labels={"model": "nobody/at-all"})
        found = await h.over()
        assert (found.state, found.session) == ("escalated", "")
        assert found.diagnosis is not None
        assert "cannot use the model 'nobody/at-all'" in found.diagnosis.summary
        dumb = f"scripted/{tmp_path / 'responder.json'}"
        other = await h.fail("db", source="drill", labels={"model": dumb}, terminal="local")
        assert (await h.over(other)).state == "escalated"
        journal = await h.journal(await h.session(other))
        assert not [one for one in journal if isinstance(one, ev.ModelChosen)]


async def test_several_incidents_are_worked_on_at_once_and_each_has_its_session(
    tmp_path: Path,
) -> None:
    end = [act("escalate", summary="s", needed="n"), DONE]
    async with response(tmp_path, begin=end) as h:
        names = [await h.fail(service) for service in ("web", "db", "mail", "dns")]
        sessions = {(await h.over(id)).session for id in names}
        assert len(set(names)) == 4
        assert len(sessions) == 4


async def test_who_closes_an_incident_ends_the_work_on_it(tmp_path: Path) -> None:
    async with response(tmp_path, begin=[shell("sleep 60"), DONE]) as h:
        await h.fail()

        async def at_work() -> bool:
            return bool(
                await h.runtime.context.store.last_number((await h.incident()).session or "-")
            )

        async def has_session() -> bool:
            return bool((await h.incident()).session)

        await until(has_session)
        await until(at_work)
        await h.post("/v1/incidents/inc-1/close", {"why": "it was me"})
        found = await h.over()
        session = await h.session()
        assert found.state == "closed"
        await asyncio.wait_for(h.runtime.sessions.wait_idle(session.id), PATIENCE)
        assert [*(h.runtime.context.home.path / "incidents").glob("*-inc-1.md")]


async def test_an_incident_on_a_terminal_that_is_not_there_goes_to_people(tmp_path: Path) -> None:
    async with response(tmp_path, begin=[DONE]) as h:
        await h.fail(terminal="moon")
        found = await h.over()
        assert found.state == "escalated"
        assert found.diagnosis is not None
        assert "no terminal called 'moon'" in found.diagnosis.summary


async def test_work_that_breaks_again_and_again_goes_to_people(tmp_path: Path) -> None:
    async with response(tmp_path, begin=[DONE]) as h:
        work = h.runtime.context.home.path / "incidents" / "work"
        work.mkdir(parents=True)
        (work / "inc-1").write_text("where its folder should be")
        await h.fail()

        async def escalated() -> bool:
            h.runtime.incidents.wake()
            return (await h.incident()).state == "escalated"

        await until(escalated)
        found = await h.over()
        assert found.diagnosis is not None
        assert "crashed 5 times in a row (FileExistsError)" in found.diagnosis.summary
        told = [
            one.text for one in await h.runtime.context.store.incidents.notices(incident="inc-1")
        ]
        assert any("`hermes logs`" in text for text in told)


async def test_a_report_that_cannot_be_written_is_said_on_the_timeline(tmp_path: Path) -> None:
    async with response(tmp_path, begin=[DONE]) as h:
        (h.runtime.context.home.path / "incidents" / "inc-1.md").mkdir(parents=True)
        await h.fail(terminal="moon")

        async def said() -> bool:
            h.runtime.incidents.wake()
            return any("no report" in entry.text for entry in await h.timeline())

        await until(said)
        assert (await h.incident()).state == "escalated"


async def test_a_drill_teaches_no_topology_and_keeps_no_notes(tmp_path: Path) -> None:
    begin = [LOOK, MEND, resolve(component="db"), DONE]
    async with response(tmp_path, begin=begin, over=[SKILL, DONE]) as h:
        await h.watch("db")
        await h.fail(source="drill")
        await h.over()
        told = [text for text in await h.shown(await h.session()) if text.startswith(OVER)]
        assert await h.services() == []
        assert "keep no notes" in told[0]


async def test_where_learning_is_off_nothing_is_offered_and_nothing_asked_for(
    tmp_path: Path,
) -> None:
    begin = [LOOK, MEND, resolve(), DONE]
    async with response(tmp_path, begin=begin) as h:
        await h.save_skill("service-crash-web", "proven", RUNBOOK)
        await h.fail(source="drill", labels={"learning": "off"})
        await h.over()
        assert await h.keys() == ["brief"]
        assert "service-crash-web" not in (await h.shown(await h.session()))[0]


async def test_what_others_write_on_their_alerts_does_not_turn_learning_off(tmp_path: Path) -> None:
    labels = {"learning": "off", "model": "builtin/responder"}
    async with response(tmp_path, begin=[LOOK, MEND, resolve(), DONE], over=[SKILL, DONE]) as h:
        await h.fail(source="alertmanager", labels=labels)
        await h.over()
        assert await h.keys() == ["brief", "aftermath"]
        assert (await h.session()).model.startswith("scripted/")


@pytest.mark.slow
async def test_drills_prove_a_skill_that_helps(tmp_path: Path) -> None:
    followed = [
        {"calls": [call("skill", name="service-crash-web", arguments="service=web")]},
        LOOK, MEND, resolve(), DONE,
    ]  # fmt: skip
    async with response(tmp_path, begin=followed) as h:
        await h.save_skill("service-crash-web", "candidate", RUNBOOK)
        states = []
        for number in (1, 2):
            id = await h.fail(source="drill", fingerprint=f"drill:{number}")
            found = await h.over(id)
            assert found.skill == "service-crash-web"
            told = {"resolved": True, "drill": "disk_full", "seed": number, "steps": 4}
            states.append((await h.post(f"/v1/incidents/{id}/outcome", told))["state"])
            (h.work / "web.up").unlink()
        trials = await h.runtime.context.store.knowledge.trials("service-crash-web")
        assert states == ["candidate", "proven"]
        assert [(one.arm, one.ok, one.opened) for one in trials] == [("with", True, True)] * 2


async def test_a_drill_that_says_harm_was_done_counts_against_the_skill(tmp_path: Path) -> None:
    followed = [
        {"calls": [call("skill", name="service-crash-web", arguments="service=web")]},
        LOOK, MEND, resolve(), DONE,
    ]  # fmt: skip
    async with response(tmp_path, begin=followed) as h:
        await h.save_skill("service-crash-web", "candidate", RUNBOOK)
        await h.fail(source="drill")
        await h.over()
        told = {"resolved": True, "harm": ["the data is gone"], "drill": "disk_full", "seed": 1}
        assert (await h.post("/v1/incidents/inc-1/outcome", told))["state"] == "candidate"
        (use,) = await h.runtime.context.store.knowledge.uses("service-crash-web")
        assert (use.outcome, "the data is gone" in use.why) == ("bad", True)


async def test_people_are_asked_what_a_rule_leaves_to_them(tmp_path: Path) -> None:
    begin = [LOOK, MEND, resolve(), say("mended")]
    async with response(tmp_path, begin=begin, over=[DONE]) as h:
        await h.fail(policy="careful")
        await until(h.runtime.context.store.questions)
        (question,) = await h.runtime.context.store.questions()
        assert question.purpose == "approval"
        await h.runtime.sessions.answer(question.id, "yes", "ann")
        found = await h.over()
        lines = [one.text for one in await h.runtime.context.store.incidents.timeline("inc-1")]
    assert found.state == "resolved"
    assert any(line.startswith("waits for an answer (`hermes approvals`): ") for line in lines)
