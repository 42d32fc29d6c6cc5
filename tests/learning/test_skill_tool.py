"""The tool that opens skills, in the hands of a model."""

from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.gateway import SessionPlace
from hermes_agent.core.messages import Reply, ToolCall
from hermes_agent.core.skills import OpenedSkill
from hermes_agent.core.tools import ToolServices
from hermes_agent.learning.service import Learning
from hermes_agent.learning.tool_backend import KnowledgeToolBackend
from hermes_agent.learning.tools import skill
from hermes_agent.models.scripted import ScriptedModel
from tests.support.learning_fixture import open_learning, skill_text
from tests.support.subagents import answers, call, say, shell
from tests.support.turns import bench

ONLY_LS = skill_text("only-ls", "Lists.", "Look around.", allowed_tools="terminal(ls:*)")


def reading(file: str) -> dict[str, Any]:
    return {"calls": [call("skill", name="only-ls", file=file)]}


@pytest.mark.parametrize("file", ["SKILL.md", "./skill.md"])
async def test_whoever_reads_the_text_of_a_skill_has_opened_it(tmp_path: Path, file: str) -> None:
    model = answers(tmp_path, go=[reading(file), shell("touch made"), say("done")])
    async with open_learning(tmp_path) as h:
        await h.skill("only-ls", ONLY_LS)
        session = await h.open(model)
        await h.say(session, "go")
        opened, touched = await h.calls(session)
        assert "Look around." in opened.text
        assert not touched.ok
        assert not (h.work / "made").exists()
        (intended, *_) = [o for o in await h.journal(session) if isinstance(o, ev.CallIntended)]
        assert intended.note["opened"]["skill"] == "only-ls"


async def test_another_file_is_read_without_opening_the_skill(tmp_path: Path) -> None:
    model = answers(tmp_path, go=[reading("more.md"), shell("touch made"), say("done")])
    async with open_learning(tmp_path) as h:
        await h.skill("only-ls", ONLY_LS, more_md="More of it.")
        session = await h.open(model)
        await h.say(session, "go")
        read, touched = await h.calls(session)
        assert (read.text, touched.ok) == ("More of it.", True)


async def _nowhere() -> SessionPlace:
    return SessionPlace()


class Edited(KnowledgeToolBackend):
    """Somebody edits the skill as soon as it was opened for the first time."""

    def __init__(self, learning: Learning, text: str) -> None:
        tasks = learning.tasks
        super().__init__(learning.knowledge, tasks.save_skill, tasks.propose_note, _nowhere)
        self._book = learning.knowledge.skills
        self._files = {"SKILL.md": text.encode()}

    async def open_skill(self, name: str, *rest: Any, **more: Any) -> OpenedSkill:
        found = await super().open_skill(name, *rest, **more)
        await self._book.write(name, self._files, by="person", state="given")
        return found


async def test_what_is_shown_of_a_skill_is_what_was_written_down(tmp_path: Path) -> None:
    opening = Reply("", (ToolCall.of("c1", "skill", name="a"),))
    model = ScriptedModel(opening, Reply("done"))
    (tmp_path / "desk").mkdir()
    async with open_learning(tmp_path) as h, bench(tmp_path / "desk", model, tools=[skill]) as b:
        await h.skill("a", skill_text("a", body="The first way."))
        first = await h.runtime.context.store.knowledge.skill("a")
        second = skill_text("a", body="The second way.")
        b.services = ToolServices(knowledge=Edited(h.runtime.learning, second))
        await b.say("go")
        (intended,) = [o for o in await b.events() if isinstance(o, ev.CallIntended)]
        (opened,) = [o for o in await b.events() if isinstance(o, ev.CallFinished)]
        assert (await h.runtime.context.store.knowledge.skill("a")).digest != first.digest
        assert intended.note["opened"]["digest"] == first.digest
        assert "The first way." in opened.text
