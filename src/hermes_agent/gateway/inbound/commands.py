"""Chat commands. Each takes its context and the words after its name, and returns the reply."""

import time
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple, Protocol, get_args

from hermes_agent.core import events as ev
from hermes_agent.core.chat_commands import ABOUT
from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.gateway import (
    ChatBinding,
    Identity,
    InboundMessage,
    InboxEntry,
    PseudonymHasher,
    Role,
    chat_key,
    person_of,
)
from hermes_agent.core.messages import Effort
from hermes_agent.core.records import Session, SessionMessage
from hermes_agent.gateway.access.admission import Admission
from hermes_agent.gateway.access.identities import attributed, who
from hermes_agent.gateway.approvals.questions import (
    SHORT,
    AnswerHandler,
    parked_hash,
    question_hash,
)
from hermes_agent.host.context import RuntimeContext
from hermes_agent.learning.service import Learning
from hermes_agent.runtime.model_selection import ModelSelection
from hermes_agent.runtime.session_history import SessionHistory
from hermes_agent.runtime.sessions import SessionService

if TYPE_CHECKING:
    from hermes_agent.core.jobs import Job

LISTED = 10
MANY = 1_000
AGAIN = "Trying again."
STANDS = "What you have done stands: look at it, and do not do it again."
STEPS: tuple[str, ...] = get_args(Effort)


class CommandRouter(Protocol):
    """What commands need of the router."""

    context: RuntimeContext
    sessions: SessionService
    learning: Learning
    model_selection: ModelSelection
    session_history: SessionHistory
    answers: AnswerHandler
    admission: Admission
    ids: PseudonymHasher

    async def open(self, entry: InboxEntry, identity: Identity) -> ChatBinding: ...

    async def bind(
        self, arrived: InboundMessage, identity: Identity, session: Session
    ) -> ChatBinding: ...

    async def set_busy(self, entry: InboxEntry, identity: Identity, busy: str) -> None: ...

    def person_key(self, arrived: InboundMessage, identity: Identity) -> str: ...


class CommandContext(NamedTuple):
    """Who wrote a command, and where."""

    router: CommandRouter
    identity: Identity
    binding: ChatBinding | None
    entry: InboxEntry

    @property
    def owner(self) -> bool:
        return self.identity.role == "owner"

    async def session(self) -> Session:
        if self.binding is None:
            raise UsageError("this chat has no session yet", "write something")
        return await self.router.context.store.session(self.binding.session)


class ChatCommand(NamedTuple):
    run: Callable[[CommandContext, str], Awaitable[str]]
    usage: str
    about: str
    owners: bool = False


def name_of(text: str) -> str:
    """The name of the command in a message; empty if it is none."""
    if not text.startswith("/") or len(text) < 2:
        return ""
    name = text[1:].split(maxsplit=1)[0].partition("@")[0]
    return name.lower() if name.replace("-", "").replace("_", "").isalnum() else ""


def split_command(text: str) -> tuple[str, str]:
    """A command's name, and the words after it."""
    return name_of(text), "".join(text.split(maxsplit=1)[1:]).strip()


async def run(here: CommandContext, text: str) -> str:
    name, words = split_command(text)
    command = COMMANDS.get(name)
    if command is None or (command.owners and not here.owner):
        known = [one for one, row in COMMANDS.items() if here.owner or not row.owners]
        near = get_close_matches(name, known, 1, 0.5)
        meant = f"did you mean /{near[0]}? " if near else ""
        raise UsageError(f"no command called /{name}", f"{meant}/help lists them")
    return await command.run(here, words)


async def _help(here: CommandContext, _words: str) -> str:
    rows = [row for row in COMMANDS.values() if here.owner or not row.owners]
    return "\n".join(f"`{row.usage}` {row.about}" for row in rows)


async def _new(here: CommandContext, _words: str) -> str:
    if here.binding is not None:
        await here.router.sessions.interrupt(here.binding.session, who(here.identity))
    await here.router.open(here.entry, here.identity)
    return "Your next message starts a new session."


async def _stop(here: CommandContext, _words: str) -> str:
    stopped = here.binding is not None and await here.router.sessions.interrupt(
        here.binding.session, who(here.identity)
    )
    return "Stopping." if stopped else "Nothing is running."


async def _retry(here: CommandContext, words: str) -> str:
    session = await here.session()
    router, key = here.router, f"retry:{here.entry.number}"
    asked, end = False, None
    for one in await router.context.store.events(session.id):
        if isinstance(one.event, ev.MessageTaken):
            if one.event.key == key:  # submitted before the runtime was killed
                return AGAIN
            asked = True
        elif isinstance(one.event, ev.TurnFinished):
            end = one.event
    if not asked:
        raise UsageError("there is nothing to retry", "write something")
    if (
        session.id in router.sessions.working
        and await router.context.store.waiting(session.id, key) is None
    ):
        raise UsageError("I am still working on it", "/stop stops it; /parked handles parked calls")
    text = f"({_why_again(end)} {STANDS})"
    text = f"{text}\n{words}" if words else text
    if here.entry.arrived.group:
        text = attributed(here.identity, here.entry.arrived.person, text)
    channel = here.identity.channel
    await router.sessions.submit(session, SessionMessage(key, text, channel, True, waits=True))
    return AGAIN


def _why_again(end: ev.TurnFinished | None) -> str:
    if end is None or end.reason == "done":
        return "I want another answer to my last message."
    why = f": {end.error}" if end.error else ""
    return f"Your last turn did not come to its end ({end.reason}{why}). Go on with it."


async def _status(here: CommandContext, _words: str) -> str:
    router = here.router
    lines = []
    if here.binding is not None:
        session = await here.session()
        waits = len(
            [one for one in await router.context.store.questions() if one.session == session.id]
        )
        lines = [f"session {session.id}: {session.state}, {session.model}"]
        lines += [f"open questions: {waits}"] if waits else []
        lines.append(f"while it works, messages {_BUSY[here.binding.busy]}")
    if here.owner:
        lines += [
            f"sessions working: {len(router.sessions.working)}",
            f"store: {router.context.store.health.state}",
            f"parked calls: {len(await router.context.store.parked())}",
        ]
    return "\n".join(lines) or "This chat has no session yet."


async def _sessions(here: CommandContext, _words: str) -> str:
    rows = [one for one in await here.router.context.store.sessions(MANY) if _is_visible(here, one)]
    lines = [f"`{one.id}` {one.title or 'no title yet'} ({one.state})" for one in rows[:LISTED]]
    return "\n".join(lines) or "You have no sessions."


def _is_visible(here: CommandContext, session: Session) -> bool:
    """In a group its sessions; elsewhere one's own, and for owners all but sub-sessions."""
    if session.parent:
        return False
    person = here.router.person_key(here.entry.arrived, here.identity)
    own = person_of(session.key) == person and session.source == here.identity.channel
    return own or (here.owner and not here.entry.arrived.group and session.source != "library")


async def _resume(here: CommandContext, words: str) -> str:
    if not words:
        raise UsageError("name a session", "/sessions lists them")
    try:
        session = await here.router.context.store.session(words)
    except NotFound:
        session = None
    if session is None or not _is_visible(here, session):
        raise UsageError(f"you have no session {words!r}", "/sessions lists them")
    await here.router.bind(here.entry.arrived, here.identity, session)
    return f"This chat continues session {session.id}: {session.title}"


async def _model(here: CommandContext, words: str) -> str:
    said = words.split()
    efforts = [word for word in said if word in STEPS]
    models = [word for word in said if word not in (*STEPS, "anyway")]
    session = await here.session()
    if not said:
        effort = f", effort {session.effort}" if session.effort else ""
        return f"{session.model}{effort}"
    if not here.owner:
        raise UsageError("only an owner may choose a model")
    if len(models) > 1 or len(efforts) > 1:
        raise UsageError("name one model", "/model NAME [EFFORT]")
    model_selection, by = here.router.model_selection, who(here.identity)
    name, effort = "".join(models), "".join(efforts)
    choice = await model_selection.choose(session, name, effort, by, "anyway" in said)
    if not choice.switched:
        return f"{choice.warning}\n`/model {words} anyway` switches anyway"
    shown = f", effort {choice.effort}" if choice.effort else ""
    return f"{choice.model} answers from now on{shown}"


async def _cost(here: CommandContext, _words: str) -> str:
    session = await here.session()
    spent = "unknown" if session.cost is None else f"${session.cost:.4f}"
    return f"{spent}, {session.usage.input:,} tokens in, {session.usage.output:,} out"


async def _undo(here: CommandContext, words: str) -> str:
    if words and not words.isdigit():
        raise UsageError(f"not a valid number: {words!r}", "/undo 2 goes back two messages")
    key, by = f"undo:{here.entry.number}", who(here.identity)
    history = here.router.session_history
    done = await history.rewind(await here.session(), back=int(words or 1), by=by, key=key)
    effects = ", ".join(dict.fromkeys(one.text for one in done.effects))
    return f"Back to before: {done.text}\n{f'Not undone: {effects}' if effects else ''}"


async def _branch(here: CommandContext, words: str) -> str:
    session, entry = await here.session(), here.entry
    channel = here.identity.channel
    person = here.router.person_key(entry.arrived, here.identity)
    branch = await here.router.session_history.branch(
        session, name=words, by=who(here.identity), source=channel,
        key=chat_key(channel, person, entry.number),
    )  # fmt: skip
    await here.router.bind(entry.arrived, here.identity, branch)
    return f"This chat continues in {branch.id}, a branch; /resume {session.id} goes back."


async def _compact(here: CommandContext, _words: str) -> str:
    done = await here.router.session_history.compact(await here.session())
    return f"Messages summarised: {done.messages}. {done.before:,} tokens are now {done.after:,}."


async def _context(here: CommandContext, _words: str) -> str:
    found = await here.router.session_history.context(await here.session())
    lines = [f"{found.used:,} of {found.window:,} tokens; summarised at {found.compacts_at:,}"]
    return "\n".join([*lines, *(f"{one.name}: {one.tokens:,}" for one in found.parts)])


async def _skills(here: CommandContext, _words: str) -> str:
    rows = await here.router.learning.list_skills()
    lines = [f"`/{one['name']}` {one['description']}" for one in rows if one["state"] != "retired"]
    return "\n".join(lines) or "There are no skills yet."


async def _task(here: CommandContext, words: str) -> str:
    if words not in ("", "list"):
        raise UsageError(
            f"/task {words} is not available in chats", "/task list; ask the agent for more"
        )
    jobs = await here.router.context.store.jobs.jobs(limit=LISTED)
    return "\n".join(_job_line(one) for one in jobs) or "There are no jobs."


def _job_line(job: "Job") -> str:
    due = time.strftime("%a %Y-%m-%d %H:%M UTC", time.gmtime(job.next)) if job.next else job.state
    return f"`{job.id}` {job.spec.name or job.spec.prompt[:60]}: {job.schedule.given}, next {due}"


async def _approve(here: CommandContext, words: str) -> str:
    short, _, answer = words.partition(" ")
    return await here.router.answers.answer(here.identity, here.binding, short, answer or "yes")


async def _deny(here: CommandContext, words: str) -> str:
    return await here.router.answers.answer(here.identity, here.binding, words, "no")


async def _answer(here: CommandContext, words: str) -> str:
    short, _, answer = words.partition(" ")
    if not answer.strip():
        raise UsageError("nothing to answer: write /answer ID WORDS")
    return await here.router.answers.answer(here.identity, here.binding, short, answer.strip())


async def _approvals(here: CommandContext, _words: str) -> str:
    ids, rows = here.router.ids, await here.router.context.store.questions()
    lines = [f"`{question_hash(ids, one.id)[:SHORT]}` {one.text[:200]}" for one in rows]
    return "\n".join(lines) or "There are no open questions."


async def _parked(here: CommandContext, words: str) -> str:
    decision, _, short = words.partition(" ")
    if decision:
        return await here.router.answers.decide(here.identity, short.strip(), decision)
    ids, rows = here.router.ids, await here.router.context.store.parked()
    lines = [
        f"`{parked_hash(ids, one.effect)[:SHORT]}` {one.tool} {one.input[:200]}: {one.reason}"
        for one in rows
    ]
    return "\n".join(lines) or "Nothing is parked."


async def _pair(here: CommandContext, words: str) -> str:
    if here.entry.arrived.group:
        raise UsageError("everyone here would see the code", "write to me in private")
    if words not in ("", "member", "owner"):
        raise UsageError(f"no role called {words!r}", "member or owner")
    role: Role = "owner" if words == "owner" else "member"
    code = await here.router.admission.pair(here.identity.channel, role)
    return f"{code}\nWhoever sends me this here within ten minutes becomes {role}."


_BUSY = {
    "queue": "wait for the end of the turn",
    "steer": "join it at its next step",
    "interrupt": "stop it",
}


def _busy(how: str) -> Callable[[CommandContext, str], Awaitable[str]]:
    async def run(here: CommandContext, _words: str) -> str:
        await here.router.set_busy(here.entry, here.identity, how)
        return f"From now on, messages that arrive while I work {_BUSY[how]}."

    return run


COMMANDS = {
    "help": ChatCommand(_help, "/help", ABOUT["help"]),
    "new": ChatCommand(_new, "/new", "start a new session; stops what is running"),
    "stop": ChatCommand(_stop, "/stop", ABOUT["stop"]),
    "retry": ChatCommand(_retry, "/retry [WORDS]", "repeat the last turn; earlier changes stay"),
    "status": ChatCommand(_status, "/status", "what is running"),
    "sessions": ChatCommand(_sessions, "/sessions", ABOUT["sessions"]),
    "resume": ChatCommand(_resume, "/resume ID", ABOUT["resume"]),
    "model": ChatCommand(_model, "/model [NAME] [EFFORT]", ABOUT["model"]),
    "effort": ChatCommand(_model, "/effort EFFORT", "how much the model should think", owners=True),
    "undo": ChatCommand(_undo, "/undo [N]", ABOUT["undo"]),
    "branch": ChatCommand(_branch, "/branch [NAME]", ABOUT["branch"]),
    "compact": ChatCommand(_compact, "/compact", ABOUT["compact"]),
    "context": ChatCommand(_context, "/context", ABOUT["context"]),
    "cost": ChatCommand(_cost, "/cost", ABOUT["cost"]),
    "skills": ChatCommand(_skills, "/skills", "skills you can call as commands"),
    "approve": ChatCommand(_approve, "/approve [ID] [session|always]", "approve a request"),
    "deny": ChatCommand(_deny, "/deny [ID]", "deny a request"),
    "answer": ChatCommand(_answer, "/answer ID WORDS", "answer a question"),
    "approvals": ChatCommand(_approvals, "/approvals", ABOUT["approvals"], owners=True),
    "parked": ChatCommand(
        _parked, "/parked [retry|skip|it-happened ID]", ABOUT["parked"], owners=True
    ),
    "task": ChatCommand(_task, "/task list", "list jobs and when they are due", owners=True),
    "pair": ChatCommand(
        _pair, "/pair [member|owner]", "create a code that lets someone in", owners=True
    ),
    "queue": ChatCommand(_busy("queue"), "/queue", "messages wait while I work"),
    "steer": ChatCommand(_busy("steer"), "/steer", "messages join my current work"),
    "interrupt": ChatCommand(_busy("interrupt"), "/interrupt", "messages stop my current work"),
}
