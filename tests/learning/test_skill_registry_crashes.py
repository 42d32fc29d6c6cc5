"""A crash leaves the old version or the new one, and nobody's edit is lost with it."""

import asyncio
import fcntl
from pathlib import Path

import pytest

from hermes_agent.learning.skills.folder import (
    WORK,
    digest,
    leftovers,
    prepare,
    put_in_place,
    read_folder,
)
from hermes_agent.store.knowledge.store import KnowledgeStore
from tests.support.skills import a_book, put_skill, skill_files, skill_home, skill_text

OLD = skill_files("a", "Old. Use when.")
NEW = {**skill_files("a", "New. Use when."), "references/x.md": b"x"}


async def keep(knowledge: KnowledgeStore, files: dict[str, bytes]) -> None:
    await knowledge.save_version("a", files, digest(files), "review", "candidate", why="e")


def in_folder(folder: Path) -> dict[str, bytes]:
    return read_folder(folder / "a").files


async def test_a_draft_that_was_not_kept_changes_nothing(tmp_path: Path) -> None:
    async with skill_home(tmp_path) as (book, folder, knowledge):
        await book.write("a", OLD, by="person", state="given")
        prepare(folder, "a", NEW)
        prepare(folder, "b", skill_files("b"))
        (folder / WORK / "half" / "a").mkdir(parents=True)
        again = a_book(folder, knowledge, tmp_path / "shipped", clock=lambda: 1e12)
        assert await again.sync() == []
        assert in_folder(folder) == OLD
        assert [each.name for each in await knowledge.skills()] == ["a"]
        assert len(await knowledge.versions("a")) == 1
        assert list((folder / WORK).iterdir()) == []


async def test_a_version_that_was_kept_and_not_laid_down_stays_in_the_store(tmp_path: Path) -> None:
    async with skill_home(tmp_path) as (book, folder, knowledge):
        await book.write("a", OLD, by="person", state="given")
        prepare(folder, "a", NEW)
        await keep(knowledge, NEW)
        again = a_book(folder, knowledge, tmp_path / "shipped")
        await again.sync()
        assert in_folder(folder) == OLD
        record = await knowledge.skill("a")
        assert (record.version, record.state, record.digest) == (1, "given", digest(OLD))
        assert await knowledge.files("a", 2) == NEW


async def test_a_new_skill_that_was_kept_is_laid_down_later(tmp_path: Path) -> None:
    async with skill_home(tmp_path) as (book, folder, knowledge):
        await book.sync()
        prepare(folder, "a", NEW)
        await keep(knowledge, NEW)
        again = a_book(folder, knowledge, tmp_path / "shipped")
        assert await again.sync() == []
        assert in_folder(folder) == NEW
        assert (await knowledge.skill("a")).state == "candidate"


async def test_a_way_back_that_was_begun_is_completed(tmp_path: Path) -> None:
    async with skill_home(tmp_path) as (book, folder, knowledge):
        await book.write("a", OLD, by="person", state="given")
        await book.write("a", NEW, by="review", state="candidate")
        put_in_place(prepare(folder, "a", OLD), folder / "a")
        again = a_book(folder, knowledge, tmp_path / "shipped")
        await again.sync()
        record = await knowledge.skill("a")
        assert (record.version, record.state) == (1, "given")


async def test_a_folder_is_replaced_where_it_cannot_be_exchanged(tmp_path: Path) -> None:
    put_skill(tmp_path, "a", scripts__x_sh="x")
    old = put_in_place(prepare(tmp_path, "a", NEW), tmp_path / "a", lambda _one, _other: False)
    assert in_folder(tmp_path) == NEW
    assert old is not None
    assert set(read_folder(old).files) == {"SKILL.md", "scripts/x.sh"}

    def dies(one: Path, other: Path) -> bool:
        other.rename(one.with_name(".aside"))
        raise KeyboardInterrupt

    draft = prepare(tmp_path, "a", OLD)
    with pytest.raises(KeyboardInterrupt):
        put_in_place(draft, tmp_path / "a", dies)
    assert not (tmp_path / "a").exists()
    async with skill_home(tmp_path / "home") as (_book, _folder, knowledge):
        await keep(knowledge, NEW)
        await keep(knowledge, OLD)
        await a_book(tmp_path, knowledge, tmp_path / "shipped").sync()
        assert in_folder(tmp_path) == OLD
        assert (await knowledge.skill("a")).state == "candidate"


async def test_an_editor_that_writes_late_has_its_text_kept(tmp_path: Path) -> None:
    async with skill_home(tmp_path) as (book, folder, knowledge):
        await book.write("a", OLD, by="person", state="given")
        with (folder / "a" / "SKILL.md").open("r+") as file:
            await book.write("a", NEW, by="review", state="candidate")
            file.write(skill_text("a", body="What a person wrote meanwhile."))
        (said,) = await book.sync()
        assert said == (
            "the skill 'a' was edited by hand while it was replaced: that is version 3, which is "
            "not in use"
        )
        assert in_folder(folder) == NEW
        assert b"a person wrote" in (await knowledge.files("a", 3))["SKILL.md"]
        assert await book.sync() == []
        restored = await book.restore("a", 3)
        assert (restored.version, restored.state) == (3, "given")


async def test_folders_that_were_replaced_go_after_a_while(tmp_path: Path) -> None:
    async with skill_home(tmp_path) as (book, folder, knowledge):
        for at in range(20):
            await book.write("a", skill_files("a", f"{at}. Use when."), by="person", state="given")
        await book.sync()
        assert 0 < len(leftovers(folder)) <= 16
        await a_book(folder, knowledge, tmp_path / "shipped", clock=lambda: 1e12).sync()
        assert leftovers(folder) == []


async def test_a_write_that_was_begun_is_finished(tmp_path: Path) -> None:
    async with skill_home(tmp_path) as (book, folder, knowledge):
        task = asyncio.create_task(book.write("a", OLD, by="person", state="given"))
        while not (folder / WORK).exists():
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await book.sync()
        assert in_folder(folder) == OLD
        assert (await knowledge.skill("a")).digest == digest(OLD)


async def test_a_writer_waits_for_another_process(tmp_path: Path) -> None:
    async with skill_home(tmp_path) as (book, folder, _knowledge):
        await book.sync()
        with (folder / ".lock").open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            task = asyncio.create_task(book.write("a", OLD, by="person", state="given"))
            done, _ = await asyncio.wait([task], timeout=0.05)
            assert not done
        assert (await task).version == 1


async def test_names_that_look_the_same_are_one_skill(tmp_path: Path) -> None:
    async with skill_home(tmp_path) as (book, folder, knowledge):
        put_skill(folder, "e\u0301", skill_text("é"))
        await book.sync()
        assert [each.name for each in await knowledge.skills()] == ["é"]
        await book.write("é", skill_files("é", "New. Use when."), by="person", state="given")
        assert [each.name for each in folder.iterdir() if each.name[0] != "."] == ["e\u0301"]
        put_skill(folder, "é")
        (said,) = [each for each in await book.sync() if "same name" in each]
        assert "the same name as another skill" in said
