"""Renders questions as chat messages, with buttons or commands, and handles the answers. People who
may not answer, and old buttons, get no response."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from msgspec import to_builtins

from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.gateway import Button, ChatBinding, Identity, PseudonymHasher
from hermes_agent.core.ports import Sessions
from hermes_agent.core.records import Parked, Question
from hermes_agent.core.text.consent import (
    ConsentSection,
    ConsentView,
    consent_view,
    numbered_choice,
)
from hermes_agent.core.text.format import code_fence
from hermes_agent.core.text.terminal import visible
from hermes_agent.gateway.access.identities import names, who
from hermes_agent.host.context import RuntimeContext

SHORT = 6
"""Characters of an id that people type."""
ROW = 2
"""Buttons per row."""
MAX_BUTTON = 40
MAX_TEXT = 8_000
"""Characters of a question in a chat: two or three messages."""
SHOW = "hermes approvals show {}"

_LABELS = {"yes": "Yes", "no": "No", "session": "For this session", "always": "Always"}
DECISIONS = {"retry": "Run it again", "skip": "Skip it", "it-happened": "It happened"}


class RenderedQuestion(NamedTuple):
    text: str
    buttons: tuple[tuple[Button, ...], ...]


def question_hash(ids: PseudonymHasher, id: str) -> str:
    return ids("question", id)


def parked_hash(ids: PseudonymHasher, effect: str) -> str:
    return ids("parked", effect)


def render_question(
    question: Question, ids: PseudonymHasher, *, buttons: bool, group: bool, elsewhere: bool = False
) -> RenderedQuestion:
    """`elsewhere`: not in the chat of its session, where the next message is the answer."""
    hash = question_hash(ids, question.id)
    view = consent_view(to_builtins(question))
    lines, meanings = [_shown(question, view)], []
    for answer in view.answers:
        if question.purpose == "approval" and answer.value in ("session", "always"):
            if group and answer.value == "always":
                continue
            meaning = _part(answer.meaning, SHOW.format(question.id))
            meanings.append(f"“{_LABELS[answer.value]}” {meaning}")
    lines += [_code("\n".join(meanings))] if meanings else []
    choices = question.choices
    if question.purpose == "question" and not choices and not elsewhere:
        lines.append("Answer with your next message.")
    elif not buttons or not choices:
        how = f"`/answer {hash[:SHORT]} …`" if question.purpose == "question" else (
            f"`/approve {hash[:SHORT]}` or `/deny {hash[:SHORT]}`"
        )  # fmt: skip
        lines.append(f"Answer with {how}.")
    made = [
        Button(_LABELS.get(choice, one_line(choice)), f"q:{hash}:{at}")
        for at, choice in enumerate(choices)
    ]
    return RenderedQuestion("\n\n".join(lines), _rows(made) if buttons else ())


def render_parked(parked: Parked, ids: PseudonymHasher, *, buttons: bool) -> RenderedQuestion:
    hash = parked_hash(ids, parked.effect)
    given = _part(f"{parked.tool} {parked.input}", "hermes parked --json")
    text = f"It is unknown whether this has happened ({visible(parked.reason)}):\n{_code(given)}"
    if not buttons:
        text += f"\n\nDecide with `/parked retry|skip|it-happened {hash[:SHORT]}`."
    made = [Button(label, f"p:{hash}:{word}") for word, label in DECISIONS.items()]
    return RenderedQuestion(text, _rows(made) if buttons else ())


def _shown(question: Question, view: ConsentView) -> str:
    match question.purpose:
        case "approval":
            body = "\n".join(line for one in view.sections for line in _lines(one))
            parts = [_part(text, SHOW.format(question.id)) for text in (view.title, body)]
            return "May I do this?\n" + _code("\n".join(parts))
        case "budget":
            return visible(question.text)
        case _:
            whole = (" ".join(visible(one).split()) for one in question.choices)
            listed = [f"{at}. {one}" for at, one in enumerate(whole, 1)]
            return "\n".join([question.text, *listed])


def _lines(section: ConsentSection) -> Iterator[str]:
    if section.title and not section.extra:
        yield f"{section.title}:"
    for line in () if section.extra else section.lines:
        yield f"{'!' if line.mark == 'danger' else ' '} {line.text}"


def _part(text: str, command: str) -> str:
    """As much of a text as fits into a few messages, how much is missing, and what shows it. What
    is dangerous stands first."""
    if len(text) <= MAX_TEXT:
        return text
    kept = text[:MAX_TEXT]
    lines = text.count("\n", MAX_TEXT) + 1
    missing = f"{len(text) - len(kept):,} more characters in {lines:,} lines are NOT shown here"
    return f"{kept}\n… {missing}; `{command}` shows all"


def _code(text: str) -> str:
    """A code block, so that nothing is read as markup."""
    text = visible(text).rstrip("\n")
    fence = code_fence(text)
    return f"{fence}\n{text}\n{fence}"


def one_line(text: str) -> str:
    line = " ".join(visible(text).split())
    return line if len(line) <= MAX_BUTTON else f"{line[: MAX_BUTTON - 1]}…"


def _rows(buttons: Sequence[Button]) -> tuple[tuple[Button, ...], ...]:
    return tuple(tuple(buttons[at : at + ROW]) for at in range(0, len(buttons), ROW))


def may_answer(identity: Identity, question: Question, binding: ChatBinding | None) -> bool:
    """Whether a person may answer: owners and those the question names; a question of the agent
    itself, everybody in its chat."""
    mine = names(identity)
    wanted = question.consent.by
    if wanted and not any(fnmatchcase(one, name) for one in mine for name in wanted):
        return False
    if identity.role == "owner":
        return True
    if question.purpose == "question":
        return binding is not None and binding.session == question.session
    return any(fnmatchcase(one, name) for one in mine[:-1] for name in wanted)


class AnswerHandler:
    """Passes answers on to the sessions that wait for them."""

    def __init__(self, context: RuntimeContext, sessions: Sessions, ids: PseudonymHasher) -> None:
        self._context = context
        self._sessions = sessions
        self._ids = ids

    async def press(self, identity: Identity, binding: ChatBinding | None, data: str) -> str:
        """Handles a pressed button; returns why it was ignored."""
        kind, _, rest = data.partition(":")
        hash, _, chosen = rest.partition(":")
        try:
            if kind == "q":
                return await self._pressed(identity, binding, hash, chosen)
            if kind == "p":
                return await self._decided(identity, hash, chosen)
        except (NotFound, UsageError) as error:
            return error.message
        return "not one of our buttons"

    async def _pressed(
        self, identity: Identity, binding: ChatBinding | None, hash: str, chosen: str
    ) -> str:
        question = await self._open(hash)
        if question is None:
            return "the question is closed"
        if not may_answer(identity, question, binding):
            return "they may not answer it"
        if not chosen.isdecimal() or int(chosen) >= len(question.choices):
            return "no such choice"
        await self._answer(identity, question, question.choices[int(chosen)])
        return ""

    async def _decided(self, identity: Identity, hash: str, decision: str) -> str:
        for parked in await self._context.store.parked():
            if parked_hash(self._ids, parked.effect) == hash:
                if identity.role != "owner":
                    return "they may not decide it"
                await self._sessions.decide(parked.effect, decision, who(identity))
                return ""
        return "it is no longer parked"

    async def answer(
        self, identity: Identity, binding: ChatBinding | None, short: str, answer: str
    ) -> str:
        """Handles a command such as `/approve ID`; returns the reply."""
        open_ones = [
            one
            for one in await self._context.store.questions()
            if may_answer(identity, one, binding)
        ]
        here = [one for one in open_ones if binding is not None and one.session == binding.session]
        fit = [one for one in open_ones if self._fits(one, short)] if short else here
        if len(fit) != 1:
            raise UsageError(
                "several questions are open" if len(fit) > 1 else "no such question is open",
                "name one by its id; /approvals lists them for owners",
            )
        if fit[0].purpose == "question":
            answer = numbered_choice(fit[0].choices, answer)
        await self._answer(identity, fit[0], answer)
        return f"{answer}: noted"

    async def decide(self, identity: Identity, short: str, decision: str) -> str:
        parked = [
            one for one in await self._context.store.parked()
            if _names(short, one.effect, parked_hash(self._ids, one.effect))
        ]  # fmt: skip
        if len(parked) != 1:
            raise UsageError("nothing with this id is parked", "/parked lists parked calls")
        await self._sessions.decide(parked[0].effect, decision, who(identity))
        return f"{decision}: resuming"

    async def answer_freely(self, identity: Identity, binding: ChatBinding, text: str) -> bool:
        """Uses a message as the answer to the question of its session, if there is one."""
        for one in await self._context.store.questions():
            if one.session == binding.session and one.purpose == "question":
                if not may_answer(identity, one, binding):
                    return False
                try:
                    await self._answer(identity, one, numbered_choice(one.choices, text))
                except HermesError:
                    return False  # it was just answered elsewhere
                return True
        return False

    async def _answer(self, identity: Identity, question: Question, answer: str) -> None:
        await self._sessions.answer(question.id, answer, who(identity), names(identity))

    async def _open(self, hash: str) -> Question | None:
        for one in await self._context.store.questions():
            if question_hash(self._ids, one.id) == hash:
                return one
        return None

    def _fits(self, question: Question, short: str) -> bool:
        return _names(short, question.id, question_hash(self._ids, question.id))


def _names(short: str, *ids: str) -> bool:
    """Whether it is the beginning of an id, as in chats or as in `hermes approvals`."""
    return len(short) >= SHORT and any(id.startswith(short) for id in ids)
