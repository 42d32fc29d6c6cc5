"""Recall over many skills, sessions and messages: `python -m bench.recall --count 1000000`. How
often the right thing is offered is measured on the retrieval test set."""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from bench.search import COUNT, LOOKUP, Corpus, build, lookup_floor, percentile
from bench.table import Figure, scaled, show
from hermes_agent.core.knowledge import Doc
from hermes_agent.core.settings.root import LearningSettings
from hermes_agent.learning.recall.embeddings import TOKENS, model_folder
from hermes_agent.learning.recall.recall import Recall
from hermes_agent.learning.skills.prompt_index import SkillIndexEntry, index
from hermes_agent.store.store import Store
from tests.support.retrieval import RetrievalSet, filled, measured

SKILLS = scaled(1_000, 60)
PAGE_TEXTS = 6
"""What is kept of a session: what was said first and a summary."""
INDEX_SKILLS, INDEX_TOKENS = 500, 3_000
QUERIES = scaled(200, 10)
OFFER_LIMIT_MS = SEARCH_LIMIT_MS = 100.0
NOTHING_LIMIT_MS = 1.0
OFFER_TOKENS = 45
MISSED_LIMIT, FALSE_LIMIT = 0.2, 0.05
KINDS = ("skill", "note", "session", "message")


def skills(corpus: Corpus) -> list[Doc]:
    """Each is about four words of its own and says much else."""
    docs = []
    for number in range(SKILLS):
        own = corpus.random.sample(corpus.words[2_000:], 4)
        text = f"Use when {' '.join(own)}. {corpus.text()} {corpus.text()}"
        docs.append(Doc("skill", f"skill-{number}-{own[0]}", f"{own[0]} {own[1]}", text))
    return docs


def _page(corpus: Corpus) -> str:
    return "\n".join(corpus.text() for _ in range(PAGE_TEXTS))


def messages(corpus: Corpus, docs: Sequence[Doc]) -> list[str]:
    """Each is about one skill, in a sentence of other words."""
    found = []
    for _ in range(QUERIES):
        own = corpus.random.choice(docs).text.removeprefix("Use when ").partition(".")[0]
        other = corpus.random.choices(corpus.words[:4_000], k=8)
        found.append(f"{' '.join(other)} {own}")
    return found


async def timed(texts: Sequence[str], work: Callable[[str], Awaitable[bool]]) -> list[float]:
    times, found = [], 0
    for text in texts:
        started = time.perf_counter()
        found += await work(text)
        times.append((time.perf_counter() - started) * 1000)
    assert found >= len(texts) * 0.9, f"{found} of {len(texts)} found"
    return times


def _rows(name: str, times: Sequence[float], floor: float, limit: float) -> Iterator[Figure]:
    yield Figure(f"{name}, p50", percentile(times, 0.5), "ms", floor, LOOKUP)
    yield Figure(f"{name}, p99", percentile(times, 0.99), "ms", floor, LOOKUP, limit, "ms")


async def measure(store: Store, corpus: Corpus, floor: float) -> list[Figure]:
    """Offers and searches over a store with messages, a document for each of its sessions, and
    the skills."""
    settings = LearningSettings()
    recall = Recall(store.knowledge, store, settings=lambda: settings, clock=time.time)
    docs = skills(corpus)
    await store.knowledge.save_documents(docs)
    sessions = await store.sessions(1_000_000)
    pages = [Doc("session", one.id, corpus.text()[:60], _page(corpus)) for one in sessions]
    await store.knowledge.save_documents(pages)
    texts = messages(corpus, docs)
    known = {doc.ref: "given" for doc in docs}

    async def offer(text: str) -> bool:
        return bool((await recall.offer(text, skills=known)).skills)

    async def nothing(text: str) -> bool:
        return not (await recall.offer(text, skills=known)).text

    async def search(text: str) -> bool:
        return bool(await recall.search(text, KINDS, 20))

    over = f"{len(docs):,} skills, {len(pages):,} sessions"
    rows = list(_rows(f"offer over {over}", await timed(texts, offer), floor, OFFER_LIMIT_MS))
    greetings = ["thanks, go on please"] * QUERIES
    rows += _rows("offer nothing", await timed(greetings, nothing), floor, NOTHING_LIMIT_MS)
    short = [" ".join(text.split()[-3:]) for text in texts]
    rows += _rows("search everything", await timed(short, search), floor, SEARCH_LIMIT_MS)
    settings = LearningSettings(semantic=True)
    started = time.perf_counter()
    while await recall.embed_some(64):
        pass
    each = (time.perf_counter() - started) / (len(docs) + len(pages)) * 1000
    rows.append(Figure("embed a document", each, "ms"))
    return [*rows, *_rows("offer by meaning too", await timed(texts, offer), floor, OFFER_LIMIT_MS)]


async def quality(folder: Path) -> list[Figure]:
    rows: list[Figure] = []
    data = RetrievalSet(every=scaled(1, 7))
    ways = (("words", False), ("meaning too", True))
    for name, semantic in ways[: scaled(2, 1)]:
        store = await Store.open(folder / name)
        try:
            recall, ids = await filled(store, data, semantic)
            found = await measured(recall, data, ids)
        finally:
            await store.close()
        for half in ("tuned", "held"):
            missed = 1 - found[f"all, {half}"].offered
            false = found.false[half]
            rows += [
                Figure(f"missed by {name}, {half}", missed, "", None, "", MISSED_LIMIT),
                Figure(f"false offers by {name}, {half}", false, "", None, "", FALSE_LIMIT),
            ]
        rows.append(Figure(f"offers with a message by {name}", found.offers, ""))
    return rows


def prompt_cost() -> list[Figure]:
    """The list of skills in the prompt and one line that is offered, by a real tokenizer with a
    small vocabulary, which counts more than those of large models do."""
    from tokenizers import Tokenizer

    count = Tokenizer.from_file(str(model_folder() / TOKENS)).encode
    data = RetrievalSet()
    entries = []
    for number in range(INDEX_SKILLS):
        skill = data.skills[number % len(data.skills)]
        name = f"{skill.name}-{number // len(data.skills)}"
        entries.append(
            SkillIndexEntry(name, skill.description, f"group-{number % 12}", "given", "")
        )
    tokens = len(count(index(entries)).ids)
    lines = [
        f"skill {skill.name}: {skill.description.partition('. ')[0]}." for skill in data.skills
    ]
    each = sum(len(count(line).ids) for line in lines) / len(lines)
    return [
        Figure(
            f"index of {INDEX_SKILLS} skills", tokens, "tokens", None, "", INDEX_TOKENS, "tokens"
        ),
        Figure("a skill that is offered, mean", each, "tokens", None, "", OFFER_TOKENS, "tokens"),
    ]


async def main(count: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as temporary:
        home = Path(temporary)
        corpus = Corpus(seed=7)
        store = await Store.open(home)
        try:
            await build(store, corpus, count)
            floor = lookup_floor(home / "state.db", count, seed=7)
            rows = await measure(store, corpus, floor)
        finally:
            await store.close()
        return [*rows, *await quality(home / "quality"), *prompt_cost()]


def figures(count: int = COUNT) -> Iterator[Figure]:
    yield from asyncio.run(main(count))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100_000)
    sys.exit(show(figures(parser.parse_args().count)))
