"""Skills in the store: no version is lost, every change has a line, every use counts once."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from hermes_agent.core.errors import NotFound
from hermes_agent.core.knowledge import EvaluationCase, SkillUse, Trial
from hermes_agent.store.knowledge.store import KnowledgeStore
from tests.store.helpers import Clock, a_session, opened


async def lines(knowledge: KnowledgeStore, name: str) -> list[str]:
    return [change.what for change in reversed(await knowledge.skill_changes(name))]


async def test_a_skill_has_versions_states_and_a_log(tmp_path: Path) -> None:
    clock = Clock(1.0)
    async with opened(tmp_path, clock=clock) as store:
        knowledge = store.knowledge
        files = {"SKILL.md": b"# one", "scripts/run": bytes(range(256))}
        first = await knowledge.save_version(
            "disk-full", files, "d1", "review", "candidate", model="m", why="session a, event 7"
        )
        assert (first.number, first.by, first.why, first.good) == (
            1, "review", "session a, event 7", False,
        )  # fmt: skip
        clock.now = 2.0
        record = await knowledge.set_skill(
            "disk-full", "proven", "7 of 8 cases", "proof", good=True
        )
        assert (record.state, record.created, record.changed, record.reason) == (
            "proven", 1.0, 2.0, "7 of 8 cases",
        )  # fmt: skip
        await knowledge.save_version("disk-full", {"SKILL.md": b"# two"}, "d2", "person", "given")
        assert (await knowledge.skill("disk-full")).by == "person"
        back = await knowledge.set_skill("disk-full", "proven", "two bad uses", "uses", version=1)
        assert (back.version, back.digest, back.by, back.model) == (1, "d1", "review", "m")
        assert await knowledge.skills() == [back]
        assert [(one.number, one.good) for one in await knowledge.versions("disk-full")] == [
            (1, True), (2, False),
        ]  # fmt: skip
        assert await knowledge.files("disk-full", 1) == files
        assert await knowledge.files("disk-full", 2) == {"SKILL.md": b"# two"}
        assert await lines(knowledge, "disk-full") == [
            "version 1", "candidate", "proven", "version 2", "given", "reverted to version 1",
            "proven",
        ]  # fmt: skip
        assert (await knowledge.skill_changes("disk-full"))[0].by == "uses"


async def test_the_same_digest_again_is_no_new_version(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        first = await store.knowledge.save_version("a", {}, "d1", "review", "candidate")
        assert await store.knowledge.save_version("a", {}, "d1", "person", "given") == first
        assert (await store.knowledge.skill("a")).state == "candidate"
        assert len(await store.knowledge.skill_changes("a")) == 2


async def test_a_pending_version_replaces_nothing_until_it_is_chosen(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        knowledge = store.knowledge
        await knowledge.save_version("a", {"SKILL.md": b"1"}, "d1", "person", "given", good=True)
        before = await knowledge.skill("a")
        new = await knowledge.save_version(
            "a", {"SKILL.md": b"2"}, "d2", "review", "candidate", pending=True
        )
        assert new.number == 2
        assert await knowledge.skill("a") == before
        again = await knowledge.save_version("a", {}, "d2", "review", "candidate", pending=True)
        assert again == new
        chosen = await knowledge.set_skill("a", "proven", "better", "proof", version=2, good=True)
        assert (chosen.digest, chosen.by) == ("d2", "review")
        assert await lines(knowledge, "a") == [
            "version 1", "given", "version 2 (pending)", "version 2", "proven",
        ]  # fmt: skip
        with pytest.raises(NotFound):
            await knowledge.save_version("b", {}, "d", "review", "candidate", pending=True)


async def test_what_is_not_there_is_named_with_what_is_near(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.knowledge.save_version("disk-full", {}, "d1", "person", "given")
        with pytest.raises(NotFound, match="disk-fill") as caught:
            await store.knowledge.skill("disk-fill")
        assert "disk-full" in caught.value.hint
        with pytest.raises(NotFound):
            await store.knowledge.set_skill("disk-full", "given", "", "person", version=7)
        with pytest.raises(NotFound):
            await store.knowledge.files("disk-full", 2)
        with pytest.raises(NotFound, match="nothing-like-it"):
            await store.knowledge.set_skill("nothing-like-it", "given", "", "person")


USE = SkillUse("a", "d1", "s1", 1, 10.0, True, "unknown", 4, 2.5, 900, None, "m", "done")


async def test_a_use_counts_once_for_each_turn_and_its_last_outcome_stands(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        knowledge = store.knowledge
        other = msgspec.structs.replace(USE, skill="b", opened=False, time=30.0, dollars=0.25)
        later = msgspec.structs.replace(USE, turn=2, time=20.0)
        await knowledge.add_uses([USE, other, later])
        corrected = msgspec.structs.replace(USE, outcome="bad", why="the user said so")
        await knowledge.add_uses([corrected])
        assert await knowledge.uses() == [other, later, corrected]
        assert await knowledge.uses("a") == [later, corrected]
        assert await knowledge.uses("a", 1) == [later]


async def test_uses_outlive_their_session(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        use = msgspec.structs.replace(USE, session=session.id)
        await store.knowledge.add_uses([use])
        await store.delete_session(session.id)
        assert await store.knowledge.uses() == [use]


async def test_cases_and_trials_are_kept_and_played_again_in_place(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        knowledge = store.knowledge
        cases = [
            EvaluationCase(
                "c1", "a", "free the disk", "touch full", "test ! -e full", source="session s"
            ),
            EvaluationCase("c2", "a", "and this one", "", "false", held=True, source="variation"),
        ]
        await knowledge.add_cases([*cases, EvaluationCase("c1", "b", "of another skill", "", "")])
        assert await knowledge.cases("a") == cases
        better = msgspec.structs.replace(cases[0], check="test -e freed")
        await knowledge.add_cases([better])
        assert {case.id: case for case in await knowledge.cases("a")} == {
            "c1": better,
            "c2": cases[1],
        }

        trial = Trial("a", "d1", "c1", "with", 0, 1.0, True, 3, 1.5, 100, 0.01, "m", "s9", True)
        without = msgspec.structs.replace(trial, arm="without", ok=False, opened=False)
        other = msgspec.structs.replace(trial, digest="d2", dollars=None)
        await knowledge.add_trials([trial, without, other])
        assert await knowledge.trials("a") == [trial, without, other]
        assert await knowledge.trials("a", "d2") == [other]
        assert await knowledge.trials(digest="d1") == [trial, without]
        again = msgspec.structs.replace(without, ok=True, time=2.0)
        await knowledge.add_trials([again])
        assert await knowledge.trials("a", "d1") == [trial, again]


async def test_versions_kept_at_once_are_all_kept(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        await asyncio.gather(
            *(
                one.knowledge.save_version(
                    "a", {"n": f"{n}".encode()}, f"d{n}", "agent", "candidate"
                )
                for n, one in enumerate([store, other] * 20)
            )
        )
        versions = await store.knowledge.versions("a")
        assert [version.number for version in versions] == list(range(1, 41))
        assert {version.digest for version in versions} == {f"d{n}" for n in range(40)}
        assert (await store.knowledge.skill("a")).digest == versions[-1].digest
