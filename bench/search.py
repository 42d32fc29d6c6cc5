"""Search and appends over many messages: `python -m bench.search --count 1000000`."""

import argparse
import asyncio
import itertools
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import apsw

from bench.table import Figure, scaled, show
from hermes_agent.core.events import (
    CallFinished,
    Event,
    MessageTaken,
    Replied,
    TurnFinished,
)
from hermes_agent.core.messages import Prompt, ToolCall, Usage
from hermes_agent.core.records import NewSession, SearchFilter, SessionMessage
from hermes_agent.store.blobs import BlobStore
from hermes_agent.store.store import Store

COUNT = scaled(1_000_000, 2_000)
SESSION_MESSAGES = 200
SEARCH_LIMIT_MS = 50.0
APPEND_LIMIT_MS = 50.0
SIZE_LIMIT = 2.5
QUERIES = scaled(300, 5)
APPENDS = scaled(4_000, 40)


LOOKUP = "ms row by key + JSON"
DISK = "ms 4 kB write + fsync"


class Corpus:
    """Texts of made-up words whose frequencies fall as in a real language (Zipf); one in ten is
    Chinese."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        syllables = [c + v for c in "bdfghjklmnprstvz" for v in ("a", "e", "i", "o", "u", "an")]
        words: dict[str, None] = {}
        while len(words) < 40_000:
            count = self.random.choice((1, 2, 2, 3, 3, 4))
            words["".join(self.random.choices(syllables, k=count))] = None
        self.words = list(words)
        characters = [chr(0x4E00 + i) for i in self.random.sample(range(18_000), 3_000)]
        pairs: dict[str, None] = {}
        while len(pairs) < 12_000:
            pairs["".join(self.random.choices(characters, k=2))] = None
        self.pairs = list(pairs)
        self._word_weights = list(itertools.accumulate(1 / (i + 8) for i in range(40_000)))
        self._pair_weights = list(itertools.accumulate(1 / (i + 8) for i in range(12_000)))

    def text(self) -> str:
        if self.random.random() < 0.1:
            pairs = self.random.choices(
                self.pairs, cum_weights=self._pair_weights, k=self.random.randint(30, 60)
            )
            return "\uff0c".join("".join(pairs[i : i + 6]) for i in range(0, len(pairs), 6))
        count = self.random.randint(30, 55)
        return " ".join(self.random.choices(self.words, cum_weights=self._word_weights, k=count))

    def events(self, count: int) -> tuple[list[Event], int]:
        """That many messages of a conversation, and the bytes of their text."""
        events: list[Event] = []
        size = 0
        for place in range(count):
            text = self.text()
            size += len(text.encode())
            match place % 4:
                case 0:
                    events.append(MessageTaken(f"key-{place}", text))
                case 1:
                    call = ToolCall.of(f"call_{place}", "terminal", command="ls")
                    events.append(Replied(place, text, (call,), Usage(900, 90), "calls", "m"))
                case 2:
                    events.append(CallFinished(f"e{place}", f"call_{place - 1}", "terminal", text))
                case _:
                    events.append(Replied(place, text, (), Usage(900, 90), "end", "m"))
        return events, size


async def build(store: Store, corpus: Corpus, count: int) -> int:
    """Fill the store through its own interface; the bytes of text in it."""
    size = 0

    async def one(events: Sequence[Event]) -> None:
        new = NewSession("/work", "careful", "openai/m")
        session = await store.open_session(new, Prompt("You are Hermes."))
        await store.receive(session.id, SessionMessage("first", "begin"))
        turn = await store.start_turn(session.id)
        assert turn is not None
        await store.append(turn, *events, TurnFinished(turn.id, "done"))

    started = time.perf_counter()
    for batch in _batches(count):
        conversations = [corpus.events(n) for n in batch]
        size += sum(bytes_ for _, bytes_ in conversations)
        await asyncio.gather(*(one(events) for events, _ in conversations))
    seconds = time.perf_counter() - started
    print(f"built {count} messages in {seconds:.0f} s, {count / seconds:.0f} a second", flush=True)
    return size


def _batches(count: int) -> Iterator[list[int]]:
    """Sessions to write together, as numbers of messages."""
    sessions = [SESSION_MESSAGES] * (count // SESSION_MESSAGES)
    for start in range(0, len(sessions), 8):
        yield sessions[start : start + 8]


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def queries(corpus: Corpus) -> dict[str, Callable[[], str]]:
    pick = corpus.random.choice
    words, pairs = corpus.words, corpus.pairs
    return {
        "one rare word": lambda: pick(words[20_000:]),
        "one mid word": lambda: pick(words[1_000:2_000]),
        "one common word": lambda: pick(words[:20]),
        "two words": lambda: f"{pick(words[:200])} {pick(words[:2_000])}",
        "prefix of 3": lambda: pick(words)[:3].ljust(3, "a") + "*",
        "prefix of 2": lambda: pick(words)[:2] + "*",
        "prefix of 5": lambda: (
            next(w for w in iter(lambda: pick(words), "") if len(w) > 5)[:5] + "*"
        ),
        "Chinese, 2 characters": lambda: pick(pairs[:3_000]),
        "Chinese, 1 character": lambda: pick(pairs[:3_000])[0],
        "Chinese, 4 characters": lambda: pick(pairs[:200]) + pick(pairs[:200]),
    }


async def measure_search(store: Store, corpus: Corpus, floor: float) -> list[Figure]:
    rows = []
    for name, query in queries(corpus).items():
        times, found = [], 0
        for text in [query() for _ in range(QUERIES)]:
            started = time.perf_counter()
            found += len(await store.search(text))
            times.append((time.perf_counter() - started) * 1000)
        rows.append(Figure(f"search {name}, p50", percentile(times, 0.5), "ms", floor, LOOKUP))
        rows.append(
            Figure(
                f"search {name}, p99",
                percentile(times, 0.99),
                "ms",
                floor,
                LOOKUP,
                SEARCH_LIMIT_MS,
                "ms",
            )
        )
        assert found or name.startswith("Chinese, 4"), f"{name}: nothing found"
    times = []
    for word in corpus.words[:20] * 5:
        for wanted in (SearchFilter(role="tool", ok=True), SearchFilter(since=time.time() - 60)):
            started = time.perf_counter()
            await store.search(word, wanted)
            times.append((time.perf_counter() - started) * 1000)
    rows.append(
        Figure(
            "search filtered, p99",
            percentile(times, 0.99),
            "ms",
            floor,
            LOOKUP,
            SEARCH_LIMIT_MS,
            "ms",
        )
    )
    return rows


def lookup_floor(path: Path, count: int, seed: int) -> float:
    """The p99 of finding one message by its number and decoding its JSON, in milliseconds."""
    bodies = BlobStore(path.parent / "blobs")
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    pick = random.Random(seed)
    times = []
    for _ in range(2_000):
        started = time.perf_counter()
        body = db.execute("select body from events where id = ?", (pick.randint(1, count),)).get
        json.loads(bodies.unpack(body))
        times.append((time.perf_counter() - started) * 1000)
    db.close()
    return percentile(times, 0.99)


def disk_floor(folder: Path, count: int) -> list[float]:
    """Milliseconds of a 4 kB write and its wait for the disk."""
    times = []
    with (folder / "floor").open("wb", buffering=0) as file:
        for _ in range(count):
            started = time.perf_counter()
            file.write(b"x" * 4096)
            os.fsync(file.fileno())
            times.append((time.perf_counter() - started) * 1000)
    return times


async def measure_appends(store: Store, corpus: Corpus, folder: Path) -> list[Figure]:
    """Appends one by one to a full store, and the reading of the long session they make."""
    session = await store.open_session(NewSession("/work", "careful", "m"), Prompt("Hermes"))
    await store.receive(session.id, SessionMessage("first", "begin"))
    turn = await store.start_turn(session.id)
    assert turn is not None
    events, _ = corpus.events(APPENDS)
    times = []
    for event in events:
        started = time.perf_counter()
        await store.append(turn, event)
        times.append((time.perf_counter() - started) * 1000)
    floor = disk_floor(folder, APPENDS)
    started = time.perf_counter()
    assert len(await store.events(session.id)) > APPENDS
    reading = (time.perf_counter() - started) * 1000
    return [
        Figure("append, p50", percentile(times, 0.5), "ms", percentile(floor, 0.5), DISK),
        Figure(
            "append, p99.9",
            percentile(times, 0.999),
            "ms",
            percentile(floor, 0.999),
            DISK,
            APPEND_LIMIT_MS,
            "ms",
        ),
        Figure("append, slowest", max(times), "ms", max(floor), DISK),
        Figure(f"read a session of {APPENDS} events", reading, "ms", None, "", 200.0, "ms"),
    ]


async def main(count: int) -> list[Figure]:
    """Build a store of `count` messages and measure it."""
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as temporary:
        home = Path(temporary)
        corpus = Corpus(seed=7)
        store = await Store.open(home)
        try:
            size = await build(store, corpus, count)
            floor = lookup_floor(home / "state.db", count, seed=7)
            rows = await measure_search(store, corpus, floor)
            rows += await measure_appends(store, corpus, home)
        finally:
            await store.close()
        ratio = (home / "state.db").stat().st_size / size
        return [
            *rows,
            Figure("store, times its text", ratio, "x", 1.0, "x its text", SIZE_LIMIT, "x"),
        ]


def figures(count: int = COUNT) -> Iterator[Figure]:
    yield from asyncio.run(main(count))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100_000)
    sys.exit(show(figures(parser.parse_args().count)))
