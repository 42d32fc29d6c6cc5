"""How often the right thing is offered, on messages that were written before anything was tuned.
Where a floor is asked of both halves, the half that nothing was chosen on has to hold it too."""

import asyncio
from pathlib import Path

import pytest

from hermes_agent.store.store import Store
from tests.support.retrieval import Report, RetrievalSet, filled, measured

HALVES = ("tuned", "held")


async def report(folder: Path, *, semantic: bool) -> Report:
    data = RetrievalSet()
    store = await Store.open(folder)
    try:
        recall, ids = await filled(store, data, semantic)
        return await measured(recall, data, ids)
    finally:
        await store.close()


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return asyncio.run(report(tmp_path_factory.mktemp("retrieval"), semantic=False))


def share(found: Report, group: str) -> float:
    """Over both halves."""
    groups = [found[f"{group}, {half}"] for half in HALVES]
    return sum(one.offered * one.count for one in groups) / sum(one.count for one in groups)


def test_the_set_is_large_and_names_only_what_is_there() -> None:
    data = RetrievalSet()
    known = {skill.name for skill in data.skills} | {past.id for past in data.sessions}
    assert len(data.skills) >= 60
    assert len(data.sessions) >= 120
    assert len(data.queries) >= 150
    assert len(data.nothing) >= 80
    assert {name for query in data.queries for name in query.want} <= known
    texts = [query.text for query in data.queries] + [one.text for one in data.nothing]
    assert len(set(texts)) == len(texts)


def test_words_alone_find_what_a_message_is_about(words: Report) -> None:
    found = words
    print(found.table())
    assert share(found, "plain") >= 0.85
    for half in HALVES:
        assert found[f"easy, {half}"].first >= 0.97
        assert found[f"paraphrase, {half}"].offered >= 0.6
        assert found[f"typo, {half}"].offered >= 0.8
        assert found[f"language, {half}"].offered >= 0.9
        assert found[f"all, {half}"].mean_rank >= 0.82
        assert found.false[half] <= 0.05
    assert found.offers <= 2.0


@pytest.mark.slow
def test_meaning_finds_more_paraphrases_and_loses_nothing(words: Report, tmp_path: Path) -> None:
    found = asyncio.run(report(tmp_path, semantic=True))
    print(found.table())
    for half in HALVES:
        for kind in ("easy", "typo", "language"):
            name = f"{kind}, {half}"
            assert found[name].offered >= words[name].offered
        name = f"paraphrase, {half}"
        assert found[name].offered >= words[name].offered + 0.05
        assert found.false[half] <= 0.05
    assert share(found, "plain") >= 0.9
