"""What can be recalled is found by any of its words, in any script; vectors follow their text."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from hermes_agent.core.knowledge import Doc, DocKind
from hermes_agent.store.knowledge.store import KnowledgeStore
from tests.store.helpers import a_session, opened

ALL: Sequence[DocKind] = ("skill", "note", "session", "incident")


async def found(
    knowledge: KnowledgeStore, *words: str, kinds: Sequence[DocKind] = ALL
) -> list[str]:
    return [doc.ref for doc in await knowledge.find_docs(words, kinds)]


async def test_any_word_finds_a_text_and_titles_count_more(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        knowledge = store.knowledge
        filler = [Doc("note", f"n{i}", "", f"nothing to see {i}") for i in range(20)]
        await knowledge.save_documents(
            [
                *filler,
                Doc("skill", "in-text", "housekeeping", "when the disk is full, remove logs"),
                Doc("skill", "in-title", "disk full", "free some room on the machine of someone"),
                Doc("session", "s1", "Kafka lag", "the consumer was restarted", time=5.0),
            ]
        )
        assert await found(knowledge, "disk", "volcano") == ["in-title", "in-text"]
        assert await found(knowledge, "disk", "kafka", kinds=["session"]) == ["s1"]
        assert await found(knowledge, "volcano") == []
        (best,) = await knowledge.find_docs(["kafka"], ALL)
        assert best.score > 0
        assert (best.title, best.time) == ("Kafka lag", 5.0)
        assert len(await knowledge.find_docs(["see"], ALL, 7)) == 7
        assert await knowledge.count_docs([["disk"], ["disk", "kafka"], [], ["*"]], ALL) == [
            2,
            3,
            23,
            0,
        ]
        assert await knowledge.count_docs([["disk"], []], ["session"]) == [0, 1]


@pytest.mark.parametrize(
    "word", ['"', "*", "NEAR(", "a:b", "", "\x00", "-", "disk AND", "(", "NOT", "^disk", "日", "'"]
)
async def test_nothing_in_a_word_is_an_operator(tmp_path: Path, word: str) -> None:
    async with opened(tmp_path) as store:
        await store.knowledge.save_documents([Doc("note", "1", "t", "full disk")])
        assert await found(store.knowledge, word, "full") == ["1"]


@pytest.mark.parametrize(
    ("word", "ref"),
    [
        ("日本語", "ja"),
        ("本語", "ja"),
        ("磁盘", "zh"),
        ("디스크", "ko"),
        ("fenêtre", "fr"),
        ("FENETRE", "fr"),
        ("диск", "ru"),
    ],
)
async def test_texts_are_found_in_any_script(tmp_path: Path, word: str, ref: str) -> None:
    async with opened(tmp_path) as store:
        await store.knowledge.save_documents(
            [
                Doc("note", "ja", "", "これは日本語のテキストです"),
                Doc("note", "zh", "磁盘已满", "清理日志"),
                Doc("note", "ko", "", "디스크가 가득 찼습니다"),
                Doc("note", "fr", "", "la fenêtre"),
                Doc("note", "ru", "", "диск полон"),
            ]
        )
        assert await found(store.knowledge, word) == [ref]


async def test_a_text_is_replaced_and_dropped_with_its_words(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        knowledge = store.knowledge
        await knowledge.save_documents(
            [Doc("note", "1", "", "old words"), Doc("skill", "1", "", "other")]
        )
        await knowledge.save_documents([Doc("note", "1", "", "new words", time=2.0)])
        assert await found(knowledge, "old") == []
        assert await knowledge.docs("note") == [Doc("note", "1", "", "new words", time=2.0)]
        await knowledge.drop_docs("note", ["1", "unknown"])
        assert await found(knowledge, "new") == []
        assert await found(knowledge, "other") == ["1"]
        assert await store.check() == []


async def test_a_vector_goes_when_its_text_changes(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        knowledge = store.knowledge
        first, second = Doc("note", "1", "", "one"), Doc("skill", "a", "", "two")
        await knowledge.save_documents([first, second])
        assert await knowledge.without_vector("m", 10) == [first, second]
        assert await knowledge.without_vector("m", 1) == [first]
        await knowledge.save_vectors(
            "m", {("note", "1"): b"1", ("skill", "a"): b"2", ("note", "9"): b""}
        )
        assert await knowledge.vectors("m", ALL) == [("note", "1", b"1"), ("skill", "a", b"2")]
        assert await knowledge.vectors("m", ["skill"]) == [("skill", "a", b"2")]
        assert await knowledge.vectors("another", ALL) == []
        await knowledge.save_documents([first, Doc("skill", "a", "", "two!")])
        assert await knowledge.vectors("m", ALL) == [("note", "1", b"1")]
        assert [doc.ref for doc in await knowledge.without_vector("m", 10)] == ["a"]
        await knowledge.drop_docs("note", ["1"])
        assert await knowledge.vectors("m", ALL) == []


async def test_one_of_a_thousand_texts_is_found_by_its_own_word(tmp_path: Path) -> None:
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    names = [
        "".join(three) for three in itertools.islice(itertools.product(syllables, repeat=3), 1000)
    ]
    async with opened(tmp_path) as store:
        await store.knowledge.save_documents(
            [
                Doc("skill", name, name, f"what to do when {name} fails on a server")
                for name in names
            ]
        )
        for name in names[::50]:
            assert (await found(store.knowledge, name, "server"))[0] == name


async def test_a_deleted_session_is_recalled_no_more(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session, other = await a_session(store), await a_session(store)
        await store.knowledge.save_documents(
            [Doc("session", one.id, "same words", "") for one in (session, other)]
        )
        await store.delete_session(session.id)
        assert await found(store.knowledge, "same") == [other.id]
        assert await store.check() == []
