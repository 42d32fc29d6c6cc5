"""Skills, through a whole runtime: listed, opened, bounded, and named by a message."""

from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.errors import UsageError
from hermes_agent.core.records import Session
from tests.support.learning_fixture import LearningFixture, open_learning, skill_text
from tests.support.subagents import answers, call, children, delegated, say, shell

ECHOES = skill_text(
    "greet-host",
    "Greets a host by its name. Use when a host is to be greeted.",
    "The folder holds !`ls; echo looked > looked`.\nSay hello to {{host}} {{times}} times.",
    hermes_parameters="host: whom to greet\ntimes?=2: how often",
)
READS = skill_text("only-read", "Reads.", allowed_tools="terminal(cat:*) terminal(ls:*)")


def opening(name: str, arguments: str = "") -> dict[str, Any]:
    return {"calls": [call("skill", name=name, arguments=arguments)]}


async def judged(
    h: LearningFixture, session: Session, tool: str = "terminal"
) -> list[ev.CallJudged]:
    found = [one for one in await h.journal(session) if isinstance(one, ev.CallJudged)]
    return [one for one in found if one.tool == tool]


async def test_the_list_of_skills_is_in_the_prompt_and_a_text_only_when_it_is_opened(
    tmp_path: Path,
) -> None:
    model = answers(tmp_path, go=[opening("greet-host", "web1 times=3"), say("done")])
    async with open_learning(tmp_path) as h:
        await h.skill("greet-host", ECHOES)
        (h.work / "a.txt").touch()
        session = await h.open(model)
        prompt = await h.prompt(session)
        assert "greet-host" in prompt
        assert "Greets a host by its name." in prompt
        assert "Say hello" not in prompt
        await h.say(session, "go")
        *_, done = await h.calls(session, "skill")
        assert done.ok, done.text
        assert "Say hello to web1 3 times." in done.text
        assert "The folder holds a.txt" in done.text
        made = [one for one in await h.journal(session) if isinstance(one, ev.CallMade)]
        assert [(one.call.name, one.by) for one in made] == [("terminal", done.effect)]
        (inner,) = await judged(h, session)
        assert (inner.effect, inner.action) == (made[0].effect, "allow")
        assert (h.work / "looked").read_text() == "looked\n"


async def test_a_command_in_a_skill_that_the_policy_refuses_is_not_run(tmp_path: Path) -> None:
    model = answers(tmp_path, go=[opening("greet-host", "web1"), say("done")])
    async with open_learning(tmp_path) as h:
        await h.skill("greet-host", ECHOES)
        session = await h.open(model, policy="observe")
        await h.say(session, "go")
        *_, done = await h.calls(session, "skill")
        assert done.ok
        assert "did not work: refused" in done.text
        assert not (h.work / "looked").exists()


async def test_a_command_in_a_skill_is_bounded_by_the_skill_itself(tmp_path: Path) -> None:
    model = answers(tmp_path, go=[opening("only-ls"), say("done")])
    text = skill_text("only-ls", "Lists.", "See !`ls` and !`touch made`.")
    async with open_learning(tmp_path) as h:
        await h.skill(
            "only-ls", text.replace("---\n\n#", "allowed-tools: terminal(ls:*)\n---\n\n#")
        )
        session = await h.open(model)
        await h.say(session, "go")
        assert [one.action for one in await judged(h, session)] == ["allow", "deny"]
        assert (await judged(h, session))[1].rule == "skill/only-ls"
        assert not (h.work / "made").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": "greet-hots"}, "no skill called 'greet-hots'"),
        ({"name": "greet-host"}, "host"),
        ({"name": "greet-host", "arguments": "web1 3 and more"}, "too many arguments"),
        ({"name": "greet-host", "file": "references/none.md"}, "has no file"),
    ],
)
async def test_a_skill_that_cannot_be_opened_is_told_to_the_model_which_goes_on(
    tmp_path: Path, given: dict[str, str], told: str
) -> None:
    model = answers(tmp_path, go=[{"calls": [call("skill", **given)]}, say("done")])
    async with open_learning(tmp_path) as h:
        await h.skill("greet-host", ECHOES)
        session = await h.open(model)
        end = (await h.say(session, "go"))[-1]
        (done,) = await h.calls(session)
        assert (end.reason, end.text, done.ok) == ("done", "done", False)
        assert told in done.text
        assert "hint: " in done.text
        assert not (h.work / "looked").exists()


async def test_bounds_hold_from_when_a_skill_is_opened_to_the_end_of_the_turn(
    tmp_path: Path,
) -> None:
    model = answers(
        tmp_path,
        go=[shell("touch a"), opening("only-read"), shell("touch b"), shell("ls"), say("done")],
        again=[shell("touch c"), say("done")],
    )
    async with open_learning(tmp_path) as h:
        await h.skill("only-read", READS)
        session = await h.open(model)
        await h.say(session, "go")
        await h.say(session, "again")
        actions = [(one.action, one.rule) for one in await judged(h, session)]
        made = sorted(path.name for path in h.work.iterdir())
    assert [action for action, _ in actions] == ["allow", "deny", "allow", "allow"]
    assert actions[1][1] == "skill/only-read"
    assert made == ["a", "c"]


async def test_bounds_hold_for_children_and_for_what_they_do_later(tmp_path: Path) -> None:
    model = answers(
        tmp_path,
        plan=[opening("only-read"), delegated("child"), say("done")],
        child=[shell("touch made"), shell("ls"), say("tried")],
    )
    text = READS.replace("terminal(ls:*)", "terminal(ls:*) delegate")
    async with open_learning(tmp_path) as h:
        await h.skill("only-read", text)
        session = await h.open(model)
        await h.say(session, "plan")
        (child,) = await children(h, session)
        assert [one.action for one in await judged(h, child)] == ["deny", "allow"]
        assert not (h.work / "made").exists()


async def test_bounds_hold_for_programs_too(tmp_path: Path) -> None:
    program = (
        "try:\n    terminal(command='touch made')\nexcept Exception as error:\n    print(error)\n"
        "print(terminal(command='ls'))"
    )
    model = answers(
        tmp_path,
        go=[opening("only-read"), {"calls": [call("execute_code", code=program)]}, say("done")],
    )
    text = READS.replace("terminal(ls:*)", "terminal(ls:*) execute_code")
    async with open_learning(tmp_path) as h:
        await h.skill("only-read", text)
        session = await h.open(model)
        await h.say(session, "go")
        assert [one.action for one in await judged(h, session)] == ["deny", "allow"]
        assert not (h.work / "made").exists()


# skills that a message names


async def test_a_message_that_names_a_skill_opens_it(tmp_path: Path) -> None:
    model = answers(tmp_path, hello=[shell("touch b"), say("done")])
    text = ECHOES.replace("metadata:", "allowed-tools: terminal(ls:*)\nmetadata:")
    text = text.replace("!`ls; echo looked > looked`", "files")
    async with open_learning(tmp_path) as h:
        await h.skill("greet-host", text)
        session = await h.open(model)
        await h.say(session, "/greet-host web2")
        taken = next(one for one in await h.journal(session) if isinstance(one, ev.MessageTaken))
        (said, *_) = await h.shown(session)
        assert (taken.text, taken.skills[0].skill) == ("/greet-host web2", "greet-host")
        assert said.startswith("/greet-host web2\n\n[the skill greet-host, version 1]")
        assert "Say hello to web2 2 times." in said
        assert [one.action for one in await judged(h, session)] == ["deny"]
        (use,) = await h.runtime.context.store.knowledge.uses("greet-host")
        assert (use.opened, use.session) == (True, session.id)


async def test_commands_in_a_skill_that_a_message_names_run_in_the_turn(tmp_path: Path) -> None:
    model = answers(tmp_path, greet=[opening("greet-host", "web2"), say("done")])
    async with open_learning(tmp_path) as h:
        await h.skill("greet-host", ECHOES)
        session = await h.open(model)
        await h.say(session, "/greet-host web2")
        (said, *_) = await h.shown(session)
        *_, done = await h.calls(session, "skill")
        assert "begin with skill(name='greet-host', arguments='web2')" in said
        assert "Say hello to web2 2 times." in done.text
        assert [one.action for one in await judged(h, session)] == ["allow"]
        (use,) = await h.runtime.context.store.knowledge.uses("greet-host")
        assert use.opened


async def test_wrong_arguments_are_said_before_anything_is_kept(tmp_path: Path) -> None:
    async with open_learning(tmp_path) as h:
        await h.skill("greet-host", ECHOES)
        session = await h.open(answers(tmp_path, hello=[say("done")]))
        with pytest.raises(UsageError, match="host") as raised:
            await h.send(session, "/greet-host")
        assert raised.value.hint
        assert not [one for one in await h.journal(session) if isinstance(one, ev.MessageTaken)]
        code, told = await h.refused("/v1/messages", {"text": "/greet-host", "session": session.id})
        assert (code, "host" in told["error"]) == (400, True)
        new = {"text": "/greet-host", "workspace": str(h.work), "model": session.model}
        await h.refused("/v1/messages", new)
        assert [one.id for one in await h.runtime.context.store.sessions()] == [session.id]


@pytest.mark.parametrize("text", ["/etc/hosts is wrong", "/no-such-skill x", "see /greet-host x"])
async def test_a_slash_that_names_no_skill_is_an_ordinary_message(
    tmp_path: Path, text: str
) -> None:
    async with open_learning(tmp_path) as h:
        await h.skill("greet-host", ECHOES)
        session = await h.open(answers(tmp_path, **{"hosts|skill|host": [say("done")]}))
        await h.say(session, text)
        taken = next(one for one in await h.journal(session) if isinstance(one, ev.MessageTaken))
        assert (taken.text, taken.skills) == (text, ())


async def test_a_skill_that_was_put_away_cannot_be_opened(tmp_path: Path) -> None:
    model = answers(tmp_path, go=[opening("only-read"), say("done")])
    async with open_learning(tmp_path) as h:
        await h.skill("only-read", READS)
        await h.post("/v1/skills/only-read/retire", {"why": "old"})
        session = await h.open(model)
        assert "only-read" not in await h.prompt(session)
        await h.say(session, "go")
        (done,) = await h.calls(session)
        assert not done.ok
        assert "retired" in done.text
        with pytest.raises(UsageError, match="retired"):
            await h.send(session, "/only-read")
