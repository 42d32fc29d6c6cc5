"""Finds what was seen before: offered with a message, or searched for."""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from heapq import nlargest
from typing import Literal

from msgspec import Struct

from hermes_agent.core.errors import NotFound
from hermes_agent.core.knowledge import Doc, DocKind
from hermes_agent.core.protocols import Clock
from hermes_agent.core.records import Found, SearchFilter
from hermes_agent.core.settings.root import LearningSettings
from hermes_agent.core.skills import RecallResult
from hermes_agent.learning.recall.embeddings import Embedder, NoSemantics, Vectors
from hermes_agent.learning.recall.formatting import clipped, offered, snippet
from hermes_agent.learning.recall.relevance import BESIDE, Fit, Weighed, fit, fused, telling, weigh
from hermes_agent.learning.recall.terms import RecallTerm, meaningful, prefix, terms
from hermes_agent.store.journal.store import Journal
from hermes_agent.store.knowledge.store import KnowledgeStore

HitKind = Literal["skill", "note", "session", "message", "incident"]
DOC_KINDS: tuple[DocKind, ...] = ("skill", "note", "session", "incident")

LEAST_WORDS = 3
"""Shorter messages get nothing."""
SKILLS, SESSIONS, NOTES = 3, 2, 2
CANDIDATES = 20
"""Documents of a kind that are scored."""
SESSION_CHARS, OUTCOME_CHARS = 4_000, 300
LEAST_MEANING = 0.3
"""The least similarity by which a search finds something."""
SHIPPED = 0.5
"""How much a skill that came with Hermes counts beside what people said and did."""


class RecallHit(Struct, frozen=True):
    """`ref` of a message: its session and event number."""

    kind: HitKind
    ref: str
    title: str
    snippet: str
    score: float
    time: float


class Recall:
    def __init__(
        self,
        knowledge: KnowledgeStore,
        journal: Journal,
        *,
        settings: Callable[[], LearningSettings],
        clock: Clock,
    ) -> None:
        self._knowledge = knowledge
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self._embedder = Embedder()
        self._vectors: Vectors | None = None

    async def offer(
        self,
        text: str,
        *,
        skills: Mapping[str, str],
        session: str = "",
        exclude: Collection[str] = (),
    ) -> RecallResult:
        """What fits a message, if anything does. `skills`: those that may be offered, with their
        states. `exclude`: refs that the session already knows."""
        said = terms(text)
        if not self._settings().recall or meaningful(said) < LEAST_WORDS:
            return RecallResult()
        kinds: tuple[DocKind, ...] = ("skill", "session", "note")
        good = [one for one in await self._fits(text, said, kinds) if one.good]
        allowed = [one for one in good if await self._may(one.doc, skills, session, exclude)]
        best = max((one.value for one in allowed), default=0.0)
        near = [one.doc for one in allowed if one.value >= BESIDE * best]
        fitting = [doc for doc in near if doc.kind == "skill"][:SKILLS]
        held = [doc for doc in fitting if skills[doc.ref] == "candidate" and _held(session, doc)]
        shown = [doc for doc in fitting if doc not in held]
        sessions = [doc for doc in near if doc.kind == "session"][:SESSIONS]
        notes = [doc for doc in near if doc.kind == "note"][:NOTES]
        if notes:
            await self._knowledge.notes_used([int(doc.ref) for doc in notes])
        return RecallResult(
            offered([*shown, *sessions, *notes]),
            tuple(doc.ref for doc in shown),
            tuple(doc.ref for doc in held),
            tuple(doc.ref for doc in sessions),
            tuple(int(doc.ref) for doc in notes),
        )

    async def search(self, query: str, kinds: Collection[str], limit: int) -> Sequence[RecallHit]:
        """Everything that fits, best first: documents by words and meaning, messages by all words
        or else by the rarest."""
        said = terms(query)
        wanted = tuple(kind for kind in DOC_KINDS if kind in kinds)
        fits = [
            one
            for one in await self._fits(query, said, wanted)
            if one.words or one.meaning >= LEAST_MEANING
        ]
        hits: dict[tuple[str, str], RecallHit] = {}
        for one in fits:
            doc = one.doc
            hits[doc.kind, doc.ref] = RecallHit(
                doc.kind, doc.ref, doc.title, snippet(doc, said), 0.0, doc.time
            )
        messages = []
        if "message" in kinds:
            for found in await self._messages(query, said, SearchFilter(limit=limit)):
                ref = f"{found.session}:{found.number}"
                messages.append(("message", ref))
                hits["message", ref] = RecallHit(
                    "message", ref, found.title, found.snippet, 0.0, found.time
                )
        scores = fused([(one.doc.kind, one.doc.ref) for one in fits], messages)
        for skill in await self._knowledge.skills():
            if skill.by == "shipped" and ("skill", skill.name) in scores:
                scores["skill", skill.name] *= SHIPPED
        best = sorted(scores, key=lambda one: -scores[one])[:limit]
        return [_scored(hits[one], scores[one]) for one in best]

    async def index_session(
        self, session: str, title: str, texts: Sequence[str], outcome: str
    ) -> None:
        """Index a session: its outcome first, then the texts, each with an equal share of space."""
        parts = [clipped(outcome, OUTCOME_CHARS)]
        room = SESSION_CHARS - len(parts[0])
        for left, text in zip(range(len(texts), 0, -1), texts, strict=True):
            parts.append(text.strip()[: max(0, room // left - 1)])
            room -= len(parts[-1]) + 1
        doc = Doc("session", session, clipped(title, 200), "\n".join(parts), time=self._clock())
        await self._knowledge.save_documents([doc])

    async def embed_some(self, limit: int) -> int:
        """Embed some documents that have no vector; how many. Raises `NoSemantics`."""
        if not self._settings().semantic:
            return 0
        docs = await self._knowledge.without_vector(self._embedder.name, limit)
        if not docs:
            return 0
        made = await self._embedder.embed([f"{doc.title}\n{doc.text}" for doc in docs])
        vectors = {(doc.kind, doc.ref): one for doc, one in zip(docs, made, strict=True)}
        await self._knowledge.save_vectors(self._embedder.name, vectors)
        self._vectors = None
        return len(docs)

    async def _fits(
        self, text: str, said: Sequence[RecallTerm], kinds: Sequence[DocKind]
    ) -> Sequence[Fit]:
        """Documents that may fit, best first."""
        if not said or not kinds:
            return []
        groups = [term.forms for term in said]
        *counts, total = await self._knowledge.count_docs([*groups, ()], kinds)
        weighed = weigh(said, counts, total)
        meanings = await self._meanings(text, kinds)
        docs = await self._candidates(weighed, kinds, meanings)
        fits = [fit(weighed, doc, meanings.get((doc.kind, doc.ref), 0.0)) for doc in docs]
        return _ranked(fits) if meanings else sorted(fits, key=lambda one: -one.score)

    async def _candidates(
        self,
        weighed: Sequence[Weighed],
        kinds: Sequence[DocKind],
        meanings: Mapping[tuple[DocKind, str], float],
    ) -> Sequence[Doc]:
        """Documents of each kind with any of the words, with a typo, or near in meaning."""
        forms = telling(weighed)
        found = await self._knowledge.find_docs(forms, kinds, CANDIDATES * len(kinds))
        docs = [doc for kind in kinds for doc in [d for d in found if d.kind == kind][:CANDIDATES]]
        if len(found) == CANDIDATES * len(kinds):
            # A frequent kind may have crowded out another.
            there = Counter(doc.kind for doc in found)
            few = [kind for kind in kinds if there[kind] < CANDIDATES // 4]
            docs += await self._knowledge.find_docs(forms, few, CANDIDATES) if few else []
        if slips := [form for one in weighed for form in one.near]:
            docs += await self._knowledge.find_docs(slips, kinds, CANDIDATES)
        if meanings:
            nearest = nlargest(CANDIDATES, meanings, key=lambda one: meanings[one])
            docs += await self._knowledge.get_docs(nearest)
        return list({(doc.kind, doc.ref): doc for doc in docs}.values())

    async def _meanings(
        self, text: str, kinds: Sequence[DocKind]
    ) -> Mapping[tuple[DocKind, str], float]:
        if not self._settings().semantic:
            return {}
        try:
            (query,) = await self._embedder.embed([text])
        except NoSemantics:
            return {}  # `embed_some` reports it
        if self._vectors is None:
            self._vectors = Vectors(await self._knowledge.vectors(self._embedder.name, DOC_KINDS))
        return self._vectors.near(query, kinds)

    async def _may(
        self, doc: Doc, skills: Mapping[str, str], session: str, exclude: Collection[str]
    ) -> bool:
        if doc.ref in exclude or (doc.kind == "skill" and doc.ref not in skills):
            return False
        if doc.kind != "session" or not session:
            return True
        try:
            here, there = await self._journal.session(session), await self._journal.session(doc.ref)
        except NotFound:
            return False
        return here.id != there.id and here.parent != there.id and there.parent != here.id

    async def _messages(
        self, query: str, said: Sequence[RecallTerm], wanted: SearchFilter
    ) -> Sequence[Found]:
        """Messages with all words as written, with all in any form, or with the rarest."""
        found = await self._journal.search(query, wanted)
        if found or not said:
            return found
        words = [term for term in said if not term.whole]
        counts = await self._knowledge.count_docs([term.forms for term in words], DOC_KINDS)
        order = sorted(range(len(words)), key=lambda at: (words[at].common, counts[at]))
        rarest = [prefix(words[at]) for at in order]
        ways = [rarest, rarest[:3], rarest[:2], *([one] for one in rarest[:3])]
        for way in ways:
            found = await self._journal.search(" ".join(way), wanted)
            if found:
                break
        return found


def _held(session: str, doc: Doc) -> bool:
    """Whether a candidate is held back here: in half of all sessions, always the same ones."""
    return hashlib.sha256(f"{session}\0{doc.ref}".encode()).digest()[0] % 2 == 1


def _ranked(fits: Sequence[Fit]) -> list[Fit]:
    """By words and by meaning together."""
    by_words = sorted((one for one in fits if one.words), key=lambda one: -one.score)
    by_meaning = sorted(fits, key=lambda one: -one.meaning)
    scores = fused(
        [(one.doc.kind, one.doc.ref) for one in by_words],
        [(one.doc.kind, one.doc.ref) for one in by_meaning],
    )
    return sorted(fits, key=lambda one: -scores[one.doc.kind, one.doc.ref])


def _scored(hit: RecallHit, score: float) -> RecallHit:
    return RecallHit(hit.kind, hit.ref, hit.title, hit.snippet, score, hit.time)
