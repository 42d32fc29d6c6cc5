"""The retrieval test set: skills and past sessions, messages that are about one of them, and
messages that are about none. All messages were written before anything was tuned; the bounds were
then chosen on the half called `tuned`, and the half called `held` says what they are worth."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from hermes_agent.core.knowledge import Doc
from hermes_agent.core.messages import Prompt
from hermes_agent.core.records import NewSession
from hermes_agent.core.settings.root import LearningSettings
from hermes_agent.learning.recall.recall import Recall
from hermes_agent.store.store import Store

FOLDER = Path(__file__).parent.parent / "learning" / "retrieval"
NOW = 1_790_000_000.0

Half = Literal["tuned", "held"]
QueryKind = Literal["easy", "paraphrase", "typo", "language"]
T = TypeVar("T")


class Skill(Struct, frozen=True):
    name: str
    description: str
    when: str


class Past(Struct, frozen=True):
    id: str
    title: str
    said: str
    summary: str


class Query(Struct, frozen=True):
    half: Half
    kind: QueryKind
    text: str
    want: tuple[str, ...]


class Nothing(Struct, frozen=True):
    half: Half
    text: str


def _read(name: str, type_: type[T]) -> list[T]:
    lines = (FOLDER / f"{name}.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=type_) for line in lines]


class RetrievalSet:
    def __init__(self, every: int = 1) -> None:
        """All of it, or some of its messages."""
        self.skills = _read("skills", Skill)
        self.sessions = _read("sessions", Past)
        self.queries = _read("queries", Query)[::every]
        self.nothing = _read("nothing", Nothing)[::every]


class Found(Struct, frozen=True):
    """What came of the messages of one group."""

    name: str
    count: int
    first: float
    """The share in which what was wanted was offered first of its kind."""
    offered: float
    """The share in which it was offered at all: among three skills and two sessions."""
    mean_rank: float
    """The mean of 1 by its place among those of its kind; 0 when it was not offered."""

    def row(self) -> str:
        shares = f"{self.first:>8.3f} {self.offered:>8.3f} {self.mean_rank:>8.3f}"
        return f"{self.name:<24} {self.count:>5} {shares}"


class Report(Struct, frozen=True):
    groups: tuple[Found, ...]
    false: dict[str, float]
    """For each half, the share of messages about nothing known that were offered something."""
    offers: float
    """Offers with a message that is about something."""

    def __getitem__(self, name: str) -> Found:
        return next(group for group in self.groups if group.name == name)

    def table(self) -> str:
        head = f"{'group':<24} {'n':>5} {'first':>8} {'offered':>8} {'MRR':>8}"
        false = ", ".join(f"{half} {share:.1%}" for half, share in self.false.items())
        last = f"false offers: {false}; {self.offers:.2f} offers a message"
        return "\n".join([head, *(group.row() for group in self.groups), last])


async def filled(store: Store, data: RetrievalSet, semantic: bool) -> tuple[Recall, dict[str, str]]:
    """A store that knows the set, and the ids of its sessions by their names in the set."""
    recall = Recall(
        store.knowledge,
        store,
        settings=lambda: LearningSettings(semantic=semantic),
        clock=lambda: NOW,
    )
    docs = [
        Doc(
            "skill",
            skill.name,
            f"{skill.name} {skill.name.replace('-', ' ')}",
            f"{skill.description}\n{skill.when}",
        )
        for skill in data.skills
    ]
    await store.knowledge.save_documents(docs)
    ids = {}
    for past in data.sessions:
        opened = await store.open_session(NewSession("/work", "careful", "m"), Prompt("Hermes"))
        ids[past.id] = opened.id
        await recall.index_session(opened.id, past.title, [past.said], past.summary)
    while await recall.embed_some(64):
        pass
    return recall, ids


async def measured(recall: Recall, data: RetrievalSet, ids: dict[str, str]) -> Report:
    known = {skill.name: "given" for skill in data.skills}
    places: list[tuple[Query, int]] = []
    offers = 0
    for query in data.queries:
        got = await recall.offer(query.text, skills=known)
        want = {ids.get(name, name) for name in query.want}
        found = [
            at
            for offered in (got.skills, got.sessions)
            for at, ref in enumerate(offered, 1)
            if ref in want
        ]
        offers += len(got.skills) + len(got.sessions)
        places.append((query, min(found, default=0)))
    false: dict[str, list[bool]] = {}
    for nothing in data.nothing:
        got = await recall.offer(nothing.text, skills=known)
        false.setdefault(nothing.half, []).append(bool(got.text))
    shares = {half: sum(wrong) / len(wrong) for half, wrong in false.items()}
    return Report(tuple(_groups(places)), shares, offers / len(places))


def _groups(places: Sequence[tuple[Query, int]]) -> Iterable[Found]:
    kinds = ("easy", "paraphrase", "typo", "language")
    chosen = {**{kind: (kind,) for kind in kinds}, "plain": kinds[:2], "all": kinds}
    for half in ("tuned", "held"):
        for name, among in chosen.items():
            own = [place for q, place in places if q.half == half and q.kind in among]
            yield _group(f"{name}, {half}", own)


def _group(name: str, own: Sequence[int]) -> Found:
    return Found(
        name,
        len(own),
        sum(place == 1 for place in own) / len(own),
        sum(place > 0 for place in own) / len(own),
        sum(1 / place for place in own if place) / len(own),
    )
