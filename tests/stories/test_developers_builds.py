"""A developer starts a build and goes away: it goes on, and they are told once how it ended."""

import asyncio
import json
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.messages import Reply, Request, ToolCall, ToolMessage
from hermes_agent.core.records import AfterCommand
from hermes_agent.models.media.speaking import speak
from hermes_agent.models.media.transcription import transcribe
from hermes_agent.policy.files.rule_lint import CAPABILITIES
from hermes_agent.runtime.background_commands import WAKES
from hermes_agent.runtime.tools.selection import EmbeddedTools
from tests.support.cli import Hermes, Pane, wait_until
from tests.support.fake_channel import room
from tests.support.openai_server import OpenAIServer
from tests.support.patience import PATIENCE
from tests.support.platforms.telegram import CHATS, PERSON, TOKEN, TelegramPlatform
from tests.support.platforms.world import until
from tests.support.runtime_fixture import RuntimeFixture, open_runtime
from tests.support.runtime_fixture import until as until_async
from tests.support.skills import put_skill, skill_text

pytestmark = pytest.mark.sample_file(7)

_NO_MODELS: Any = None
WHERE = ("private", "group")
BUILD = "until [ -e go ]; do sleep 0.02; done; echo compiled; echo 'no rule' >&2; exit 2"
ENDED = re.compile(r"background command \S+ \(until .*\) ended after \d+ s with exit code 2")


def building(**more: Any) -> dict[str, Any]:
    call = {"tool": "terminal", "with": {"command": BUILD, "background": True, **more}}
    return {"calls": [call]}


# Telegram, a kill -9, the phone


def call(tool: str, **given: object) -> Reply:
    return Reply("", (ToolCall(f"c-{tool}", tool, json.dumps(given)),), stop="calls")


def tell_the_phone(request: Request) -> Reply:
    """What a model does with the id in the result of the command that it has started."""
    started = next(one for one in reversed(request.messages) if isinstance(one, ToolMessage))
    id = re.search(r"id (\S+?)\]", started.text)
    assert id is not None
    return call("send_message", text="Your build", target="phone", after=id[1])


def what_it_knows(request: Request) -> Reply:
    said = [one.text for one in request.messages if ENDED.search(one.text)]
    return Reply(f"I was told {len(said)} times: {'no rule' in said[0]}")


class Desk:
    """A runtime in a process of its own, Telegram, and a service with a model."""

    def __init__(self, folder: Path, telegram: TelegramPlatform, model: OpenAIServer) -> None:
        self.hermes = Hermes(folder / "hermes")
        self.telegram = telegram
        self.model = model
        home = self.hermes.home
        home.mkdir()
        (home / ".env").write_text(f"TELEGRAM_TOKEN={TOKEN}\n")
        (home / ".env").chmod(0o600)

    def set(self, gateway: dict[str, str] | None = None, **channel: object) -> None:
        service = {"url": self.model.url, "needs_key": False}
        telegram = {"token": "TELEGRAM_TOKEN", "address": self.telegram.address, **channel}
        config = {
            "model": "ours/builder",
            "models": {"services": {"ours": service}, "retries": 0},
            "policy": "sandbox",
            "channels": {"telegram": {"owners": [str(PERSON["id"])], **telegram}},
            "gateway": {"workspace": str(self.hermes.work), **(gateway or {})},
        }
        (self.hermes.home / "config.yaml").write_text(json.dumps(config))
        self.hermes.environ.pop("HERMES_MODEL", None)

    async def up(self) -> None:
        await asyncio.to_thread(self.hermes.good, "up")

    async def kill(self) -> None:
        await asyncio.to_thread(self.hermes.kill_runtime)

    async def rest(self) -> None:
        """Until the platform has confirmed all that was sent: it does not know a message again."""

        def sent() -> bool:
            found = self.hermes.api.get("/v1/gateway/deliveries")["deliveries"]
            return all(one["state"] == "sent" for one in found)

        await asyncio.to_thread(wait_until, sent, "the outbox to be empty")

    async def hears(self, part: str, where: str = "private") -> str:
        await until(lambda: any(part in text for text in self.texts(where)))
        return next(text for text in self.texts(where) if part in text)

    def texts(self, where: Any = "private") -> list[str]:
        chat = str(CHATS[where]["id"])
        return [shown.text for shown in self.telegram.sent() if shown.chat.chat == chat]


@asynccontextmanager
async def open_desk(
    folder: Path, *replies: Reply | Callable[[Request], Reply]
) -> AsyncIterator[Desk]:
    telegram = TelegramPlatform()
    await telegram.start(folder)
    with OpenAIServer(replies) as model:
        made = Desk(folder, telegram, model)
        try:
            yield made
        finally:
            await asyncio.to_thread(made.hermes.close)
            await telegram.stop()


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    build = call("terminal", command=BUILD, background=True)
    begun = Reply("I have started it")
    async with open_desk(tmp_path, build, tell_the_phone, begun, what_it_knows) as made:
        yield made


async def test_a_build_outlives_the_runtime_and_its_end_is_told_once_here_and_on_the_phone(
    desk: Desk,
) -> None:
    desk.set(home=str(CHATS["group"]["id"]))
    await desk.up()
    await desk.telegram.say("Build it, and tell me on my phone when it is done")
    await desk.hears("I have started it")
    await desk.rest()
    asked = len(desk.model.requests)
    await desk.kill()
    (desk.hermes.work / "go").touch()
    await desk.up()
    notice = await desk.hears("exit code 2")
    assert ENDED.search(notice)
    assert "compiled" in notice
    assert "no rule" in notice
    assert "Your build" in await desk.hears("exit code 2", "group")
    assert len(desk.model.requests) == asked  # no model was paid for it
    await desk.rest()
    await desk.kill()
    await desk.up()
    await desk.telegram.say("How did it go?")
    await desk.hears("I was told 1 times: True")
    told = [sum("exit code" in one for one in desk.texts(at)) for at in WHERE]
    assert told == [1, 1]


async def test_without_a_channel_the_tool_says_so_at_once(desk: Desk) -> None:
    desk.set()
    await desk.up()
    await desk.telegram.say("Build it, and tell me on my phone when it is done")
    await desk.hears("I have started it")
    said = desk.model.requests[-1].body.decode()
    assert "no channel has a home chat" in said
    (desk.hermes.work / "go").touch()
    await desk.hears("exit code 2")


async def test_a_chat_that_is_the_phone_is_told_once(desk: Desk) -> None:
    desk.set(home=str(PERSON["id"]))
    await desk.up()
    await desk.telegram.say("Build it, and tell me on my phone when it is done")
    await desk.hears("I have started it")
    (desk.hermes.work / "go").touch()
    await desk.hears("exit code 2")
    await desk.hears("Your build")
    await desk.telegram.say("How did it go?")
    await desk.hears("I was told 1 times: True")
    said = " ".join(desk.texts())
    assert (said.count("exit code"), said.count("Your build")) == (1, 1)


async def test_who_asks_by_voice_is_answered_by_voice_too(tmp_path: Path) -> None:
    asked = await speak("local/en-us", _NO_MODELS, "Is the server working today?")
    assert asked is not None
    answers = [Reply("The server is **working**.\n```\nuptime\n```"), Reply("Written")]
    async with open_desk(tmp_path, *answers) as desk:
        desk.set(gateway={"voice": "local/tiny", "speak": "local/en-us"})
        await desk.up()
        await desk.telegram.say("", voice=asked)
        await until(lambda: any(shown.files for shown in desk.telegram.sent()))
        await desk.hears("The server is working")
        (memo,) = [file for shown in desk.telegram.sent() for file in shown.files]
        assert memo.type == "audio/ogg"
        assert "working" in (await transcribe("local/tiny", _NO_MODELS, memo)).lower()
        heard = desk.model.requests[-1].body.decode().lower()
        assert "said in a voice memo" in heard
        assert "server" in heard
        await desk.telegram.say("And in writing?")
        await desk.hears("Written")
        assert sum(len(shown.files) for shown in desk.telegram.sent()) == 1


# at a terminal

SCRIPT = f"""
turns:
  - when: build
    replies:
      - calls: [{{tool: terminal, with: {{command: {json.dumps(BUILD)}, background: true}}}}]
      - say: I have started it.
  - replies: [{{say: Good day.}}]
"""


@pytest.fixture
def hermes(tmp_path: Path) -> Iterator[Hermes]:
    made = Hermes(tmp_path / "hermes", SCRIPT)
    yield made
    made.close()


def chat(hermes: Hermes, *words: str) -> Pane:
    command = [sys.executable, "-m", "hermes_agent", "chat", *words]
    return Pane(hermes.work, command, hermes.environ)


def test_a_build_outlives_the_terminal_it_was_started_in_and_the_next_one_shows_its_end(
    hermes: Hermes,
) -> None:
    first = chat(hermes, "--name", "building")
    try:
        first.shows("idle")
        first.enter("build it")
        first.shows("I have started it.")
    finally:
        first.close()
    second = chat(hermes, "--session", "building")
    try:
        second.shows("I have started it.")
        (hermes.work / "go").touch()
        second.shows("exit code 2")
        second.shows("no rule")
    finally:
        second.close()
    (session,) = hermes.sessions()
    assert hermes.good("sessions", "show", session["id"]).count("ended after") == 1


# what the model is told


def developer(folder: Path, *replies: dict[str, Any]) -> str:
    """A model that says these when it is asked to build, and reads what it is told of commands."""
    turns = [
        {"when": "build it", "replies": [*replies, {"say": "Done"}]},
        {"when": "^wait", "replies": [*replies, {"say": "Waited"}]},
        {"when": "^.background command .* ended", "replies": [{"say": "I see"}]},
    ]
    folder.mkdir(exist_ok=True)
    path = folder / "developer.json"
    path.write_text(json.dumps({"turns": turns}))
    return f"scripted/{path}"


SENDING_ASKS = """
version: 1
name: mine
rules:
  - id: sending
    match: {kind: call, tool: process, input: {action: send}}
    then: ask
    reason: it types
"""


async def ended(h: RuntimeFixture, session: Any) -> ev.CommandEnded:
    found: list[ev.CommandEnded] = []

    async def there() -> bool:
        found[:] = [one for one in await h.journal(session) if isinstance(one, ev.CommandEnded)]
        return bool(found)

    await until_async(there)
    (only,) = found
    return only


async def test_a_model_that_asked_to_be_woken_gets_a_turn_with_the_end(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as h:
        session = await h.open(developer(tmp_path, building(wake=True)))
        await h.say(session, "build it")
        (h.work / "go").touch()
        assert (await ended(h, session)).wake

        async def woken() -> bool:
            return sum(isinstance(one, ev.TurnFinished) for one in await h.journal(session)) == 2

        await until_async(woken)
        taken = [one for one in await h.journal(session) if isinstance(one, ev.MessageTaken)]
        assert [one.source for one in taken] == ["test", "command"]
        assert ENDED.search(taken[1].text)
        assert not await h.runtime.context.store.background_commands()


@pytest.mark.slow
async def test_a_model_that_wakes_itself_again_and_again_comes_to_rest(tmp_path: Path) -> None:
    command = "until [ -e go ]; do sleep 0.02; done; rm go"
    again = {"tool": "terminal", "with": {"command": command, "background": True, "wake": True}}
    replies = [{"calls": [again]}, {"say": "Waiting"}]
    path = tmp_path / "again.json"
    path.write_text(json.dumps({"turns": [{"when": ".", "replies": replies}]}))
    async with open_runtime(tmp_path) as h:
        session = await h.open(f"scripted/{path}")
        await h.say(session, "build it")
        for turns in range(1, WAKES + 2):

            async def waiting(turns: int = turns) -> bool:
                journal = await h.journal(session)
                return sum(isinstance(one, ev.TurnFinished) for one in journal) == turns

            await until_async(waiting)
            (h.work / "go").touch()

        async def ended() -> bool:
            ends = [one for one in await h.journal(session) if isinstance(one, ev.CommandEnded)]
            return [one.wake for one in ends] == [*[True] * WAKES, False]

        await until_async(ended)
        taken = [one for one in await h.journal(session) if isinstance(one, ev.MessageTaken)]
        assert [one.source for one in taken] == ["test", *["command"] * WAKES]


async def test_a_working_model_reads_the_end_with_its_next_results(tmp_path: Path) -> None:
    waiting = "touch begun; until [ -e on ]; do sleep 0.02; done"
    wait = {"tool": "terminal", "with": {"command": waiting}}
    async with open_runtime(tmp_path) as h:
        session = await h.open(developer(tmp_path, building(), {"calls": [wait]}))
        await h.send(session, "build it")

        async def begun() -> bool:
            return (h.work / "begun").exists()

        await until_async(begun)
        (h.work / "go").touch()
        event = await ended(h, session)
        (h.work / "on").touch()
        await h.idle(session)
        conversation = await h.runtime._turns.conversation(session.id)
    roles = [type(one).__name__ for one in conversation.messages[-3:]]
    assert roles == ["ToolMessage", "UserMessage", "AssistantMessage"]
    assert event.text in conversation.messages[-2].text


async def test_an_end_that_the_model_has_read_itself_is_not_told_again(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as h:
        session = await h.open(developer(tmp_path, building()))
        events = await h.say(session, "build it")
        (started,) = [one for one in events if isinstance(one, ev.CallFinished)]
        follow = {"action": "follow", "id": started.data["id"], "wait": 60}
        to_the_end = {"calls": [{"tool": "process", "with": follow}]}
        model = developer(tmp_path / "other", to_the_end)
        await h.runtime.model_selection.choose(session, model, "", "", True)
        await h.send(session, "wait for it")
        (h.work / "go").touch()
        assert (await ended(h, session)).known
        await h.idle(session)
        conversation = await h.runtime._turns.conversation(session.id)
        assert sum("exit code 2" in one.text for one in conversation.messages) == 1


@pytest.mark.parametrize(
    "calls",
    [
        [{"tool": "process", "with": {"action": "send", "text": "y"}}],
        [{"tool": "ask_user", "with": {"question": "Now?"}},
         {"tool": "process", "with": {"action": "follow", "wait": 60}}],
    ],
)  # fmt: skip
async def test_an_end_is_told_while_a_call_on_the_command_waits_for_a_person(
    tmp_path: Path, calls: list[dict[str, Any]]
) -> None:
    (tmp_path / "home/policies").mkdir(parents=True)
    (tmp_path / "home/policies/mine.yaml").write_text(SENDING_ASKS)
    async with open_runtime(tmp_path) as h:
        session = await h.open(developer(tmp_path, building()))
        (started,) = [
            one for one in await h.say(session, "build it") if isinstance(one, ev.CallFinished)
        ]
        for one in calls[-1:]:
            one["with"]["id"] = started.data["id"]
        model = developer(tmp_path / "other", {"calls": calls})
        await h.runtime.model_selection.choose(session, model, "", "", True)
        await h.send(session, "wait for it", interactive=True)

        async def waits() -> bool:
            return any(isinstance(one, ev.QuestionAsked) for one in await h.journal(session))

        await until_async(waits)
        (h.work / "go").touch()
        assert not (await ended(h, session)).known


async def test_a_build_of_which_nothing_is_left_is_reported_as_lost(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as h:
        session = await h.open(developer(tmp_path, building()))
        await h.say(session, "build it")
    (tmp_path / "work/go").touch()
    shutil.rmtree(tmp_path / "home/terminals" / session.id)
    async with open_runtime(tmp_path) as h:
        event = await ended(h, session)
    assert event.state == "lost"
    assert "how it ended is unknown" in event.text


async def test_a_message_for_an_end_that_the_model_has_read_itself_is_sent(tmp_path: Path) -> None:
    async with room(tmp_path, developer(tmp_path, building())) as r:
        await r.know("ada")
        await r.say("build it")
        await r.hears("Done")
        (session,) = await r.runtime.context.store.sessions()
        (started,) = [
            one for one in await r.fixture.journal(session) if isinstance(one, ev.CallFinished)
        ]
        id = started.data["id"]
        send = {"tool": "send_message", "with": {"text": "Your build", "after": id}}
        follow = {"tool": "process", "with": {"action": "follow", "id": id, "wait": 60}}
        model = developer(tmp_path / "other", {"calls": [send]}, {"calls": [follow]})
        await r.runtime.model_selection.choose(session, model, "", "", True)
        await r.say("wait for it")

        async def waits() -> bool:
            (command,) = await r.runtime.context.store.background_commands()
            return bool(command.messages)

        await until_async(waits)
        (Path(session.workspace) / "go").touch()
        assert (await ended(r.fixture, session)).known
        assert "exit code 2" in await r.hears("Your build")
        await r.hears("Waited")
        await r.rest()
        assert sum("Your build" in one.text for one in r.pad.every) == 1


async def test_others_are_told_while_the_program_that_was_to_be_woken_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with room(tmp_path, model := developer(tmp_path, building(wake=True))) as r:
        runtime, commands = r.runtime, r.runtime._maintenance._commands
        session = await r.fixture.open(model, source="library", key="library:mine")
        program = EmbeddedTools({}, frozenset(CAPABILITIES), True)
        runtime.embedded.attach(session.id, program)
        events = await r.fixture.say(session, "build it")
        (id,) = [one.data["id"] for one in events if isinstance(one, ev.CallFinished)]
        waiting = [AfterCommand("effect/e2", "pad:other", "Your build")]
        assert await runtime.context.store.add_after_command(id, waiting)
        # As a crash leaves it: the end is in the journal, the message that wakes is not.
        commands.stop()
        commands._tasks[id] = held = asyncio.create_task(asyncio.sleep(PATIENCE))
        end = ev.CommandEnded(id, "make", "local", "exited", 2, 1.0, "it ended", wake=True)
        await runtime._turns.add(session, end)
        runtime.embedded._tools.clear()
        held.cancel()
        del commands._tasks[id]
        await commands.watch()
        assert "it ended" in await r.hears("Your build", "other")
        assert "is not reported yet" not in caplog.text
        runtime.embedded.attach(session.id, program)

        async def woken() -> bool:
            taken = [
                one for one in await r.fixture.journal(session) if isinstance(one, ev.MessageTaken)
            ]
            return [one.source for one in taken] == ["test", "command"]

        await until_async(woken)
        await r.rest()
        (r.fixture.work / "go").touch()


# a skill of one chat


async def test_a_skill_of_one_chat_is_listed_and_opened_only_there(tmp_path: Path) -> None:
    model = developer(tmp_path, {"say": "Restarted"})
    async with room(tmp_path, model) as r:
        await r.know("ada")
        await r.know("bob")
        limited = skill_text("ops-restart", hermes_channels="pad:with-ada")
        put_skill(tmp_path / "home/skills", "ops-restart", limited)
        await r.say("build it", "ada")
        await r.say("build it", "bob")
        await r.rest()
        sessions = await r.runtime.context.store.sessions()
        prompts = [await r.runtime.context.store.prompt(one.prompt) for one in sessions]
        assert sorted("ops-restart" in one.system for one in prompts) == [False, True]
        await r.say("/ops-restart build it", "bob")
        assert "limited to pad:with-ada" in await r.hears("limited", "with-bob")
        await r.say("/ops-restart build it", "ada")
        await r.rest()
        assert sum("Restarted" in text for text in r.texts("with-ada")) == 2
