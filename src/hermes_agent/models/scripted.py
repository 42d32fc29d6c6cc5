"""A model that says what a script says, for tests and demos. Its answer is a pure function of the
request, so a turn that is resumed goes on where it was.

`ScriptedModel(Reply(...), Reply(...))` answers a request that holds n replies with reply n.

A script file (YAML or JSON) is written in turns:

    name: scripted/tour          # optional, as are the next three
    context: 32000
    delay: 0.02                  # seconds between the pieces of a text
    price: {input: 1.0, output: 2.0}
    turns:
      - when: disk|space         # optional: found in the message (ignoring case)
        replies:
          - say: I will look
            calls: [{tool: terminal, with: {command: df -h}}]
          - say: There is enough room
            wait: 0.5            # optional: seconds before it
            echo: true           # optional: then says what began the turn, too
            stop: length         # optional

A turn of the conversation begins with the messages of the user that follow a finished answer (a
reply without calls). A message that arrives among tool results steers the turn that is running;
it begins a new one only when some `when` fits it. Within a turn the replies come one by one.
- Where no entry has a `when`, the n-th entry answers the n-th turn, and the script ends.
- Otherwise a turn is answered by an entry that fits: those whose `when` is found, in their order;
  failing these, those without one. Among the ones that fit, the next that has not served yet
  comes first, and when all have served the last serves again.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ModelError, UsageError
from hermes_agent.core.messages import (
    AssistantMessage,
    Chunk,
    Delta,
    ModelFacts,
    Rates,
    Reply,
    Request,
    Stop,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from hermes_agent.core.settings.root import ModelSettings, Price
from hermes_agent.models.shared import (
    estimated_usage,
    known_call_ids,
    known_facts,
    new_call_id,
    replies_so_far,
)

BUNDLED = Path(__file__).parent / "scripts"
_PIECE = re.compile(r"(?:\s*\S+){1,3}\s*|\s+")


class ScriptedModel:
    def __init__(
        self,
        *replies: Reply | Callable[[Request], Reply],
        name: str = "scripted/test",
        facts: ModelFacts | None = None,
        delay: float = 0.0,
    ) -> None:
        self.name = name
        self.facts = facts or ModelFacts()
        self._replies = replies
        self._delay = delay

    @property
    def ways(self) -> Mapping[str, ModelFacts]:
        return {self.name: self.facts}

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        reply, wait = self._next(request)
        if wait:
            await asyncio.sleep(wait)
        for piece in _PIECE.findall(reply.text):
            # Even without a delay, so that the stream can be interrupted.
            await asyncio.sleep(self._delay)
            yield Delta(piece)
        yield self._complete(reply, request)

    async def close(self) -> None:
        """Nothing to close."""

    def _next(self, request: Request) -> tuple[Reply, float]:
        """The reply to a request, and the delay before it."""
        number = replies_so_far(request)
        if number >= len(self._replies):
            raise self._used_up(f"its {len(self._replies)} replies are used up")
        reply = self._replies[number]
        return (reply if isinstance(reply, Reply) else reply(request)), 0.0

    def _used_up(self, why: str) -> ModelError:
        return ModelError(
            "bad_request", f"the script of {self.name} is used up: {why}", "add to the script"
        )

    def _complete(self, reply: Reply, request: Request) -> Reply:
        usage = reply.usage
        if usage == Usage():
            usage = estimated_usage(request, reply.text, reply.calls)
        return msgspec.structs.replace(
            reply,
            usage=usage,
            stop="calls" if reply.calls and reply.stop == "end" else reply.stop,
            model=reply.model or self.name,
            cost=self.facts.cost(usage) if reply.cost is None else reply.cost,
        )


class _Call(Struct, frozen=True, forbid_unknown_fields=True, rename={"arguments": "with"}):
    tool: str
    arguments: dict[str, Any] = {}


class _Line(Struct, frozen=True, forbid_unknown_fields=True):
    say: str = ""
    calls: tuple[_Call, ...] = ()
    stop: Stop = "end"
    wait: float = 0.0
    echo: bool = False


class _Entry(Struct, frozen=True, forbid_unknown_fields=True):
    replies: tuple[_Line, ...]
    when: str | None = None

    def fits(self, text: str) -> bool:
        return (
            self.when is not None
            and re.search(self.when, text, re.IGNORECASE | re.MULTILINE) is not None
        )


class _Script(Struct, frozen=True, forbid_unknown_fields=True):
    turns: tuple[_Entry, ...]
    name: str = ""
    context: int = 128_000
    delay: float = 0.0
    price: Price | None = None

    @property
    def facts(self) -> ModelFacts:
        if self.price is None:
            return ModelFacts(context=self.context)
        return ModelFacts(
            context=self.context,
            rates=(
                Rates(self.price.input, self.price.output, self.price.cached, self.price.written),
            ),
        )


class _TurnModel(ScriptedModel):
    """The model of a script file."""

    def __init__(self, script: _Script, name: str, facts: ModelFacts) -> None:
        super().__init__(name=name, facts=facts, delay=script.delay)
        self._turns = script.turns

    def _next(self, request: Request) -> tuple[Reply, float]:
        begun, replies = self._read(request)
        entry = self._entry(begun)
        if replies >= len(entry.replies):
            raise self._used_up(f"turn {len(begun)} has only {len(entry.replies)} replies")
        line = entry.replies[replies]
        taken = known_call_ids(request)
        calls = []
        for call in line.calls:
            own = new_call_id(request, taken)
            taken.add(own)
            calls.append(ToolCall(own, call.tool, msgspec.json.encode(call.arguments).decode()))
        text = line.say + begun[-1] if line.echo else line.say
        return Reply(text, tuple(calls), stop=line.stop), line.wait

    def _read(self, request: Request) -> tuple[list[str], int]:
        """The message that began each turn, and the number of replies in the last one."""
        begun: list[str] = []
        replies, calling = 0, False
        for message in request.messages:
            match message:
                case AssistantMessage(calls=calls):
                    replies, calling = replies + 1, bool(calls)
                case ToolMessage():
                    calling = True
                case UserMessage(text=text):
                    if calling and not any(entry.fits(text) for entry in self._turns):
                        continue
                    if begun and replies == 0:
                        begun[-1] += "\n" + text
                    else:
                        begun.append(text)
                        replies, calling = 0, False
        return begun or [""], replies

    def _entry(self, begun: Sequence[str]) -> _Entry:
        """The entry for the last of the turns."""
        turns = self._turns
        if all(entry.when is None for entry in turns):
            if len(begun) > len(turns):
                raise self._used_up(f"it has {len(turns)} turns and this is turn {len(begun)}")
            return turns[len(begun) - 1]
        served: list[_Entry] = []
        fitting: list[_Entry] = []
        for text in begun:
            fitting = [entry for entry in turns if entry.fits(text)]
            fitting = fitting or [entry for entry in turns if entry.when is None]
            served += [e for e in fitting if not _is_among(e, served)][:1] or fitting[-1:]
        if not fitting:
            raise self._used_up(f"no turn matches {begun[-1]!r}")
        return served[-1]


def _is_among(entry: _Entry, entries: Sequence[_Entry]) -> bool:
    # By identity: two entries may say the same.
    return any(entry is other for other in entries)


def load_script(path: Path, name: str = "", settings: ModelSettings | None = None) -> ScriptedModel:
    """The model of a script file. The settings override its context and price."""
    try:
        body = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read the script {path}: {error.strerror or error}",
            "name a YAML or JSON file, as in HERMES_MODEL=scripted/./script.yaml",
        ) from None
    decode = msgspec.json.decode if path.suffix == ".json" else msgspec.yaml.decode
    try:
        script = decode(body, type=_Script)
        for entry in script.turns:
            re.compile(entry.when or "")
    except (msgspec.MsgspecError, UnicodeDecodeError, re.error) as error:
        raise UsageError(
            f"the script {path} is not well formed: {error}",
            "the format is described in the module hermes_agent.models.scripted",
        ) from None
    full = name or script.name or f"scripted/{path}"
    return _TurnModel(script, full, known_facts(full, settings or ModelSettings(), script.facts))


def open_named(name: str, settings: ModelSettings, environ: Mapping[str, str]) -> ScriptedModel:
    """`scripted/NAME`: a script that ships with Hermes; `scripted/PATH`: a file."""
    _, _, wanted = name.partition("/")
    if "/" in wanted or wanted.endswith((".yaml", ".yml", ".json")):
        if wanted.startswith("~/") and "HOME" in environ:
            wanted = environ["HOME"] + wanted[1:]
        return load_script(Path(wanted), name, settings)
    bundled = {path.stem: path for path in BUNDLED.glob("*.yaml")}
    if wanted not in bundled:
        raise UsageError(
            f"no script is called {wanted!r}",
            f"bundled: {', '.join(sorted(bundled))}; or name a file, as in scripted/./script.yaml",
        )
    return load_script(bundled[wanted], name, settings)
