"""What sessions say reaches their chats: answers, drafts, questions, failures."""

import asyncio
import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from hermes_agent.core import events as ev
from hermes_agent.core.effects import Risk
from hermes_agent.core.gateway import Chat, InboundMessage, OutboundMessage, Person
from hermes_agent.core.records import Question
from hermes_agent.gateway.approvals.questions import render_question
from hermes_agent.gateway.approvals.routing import ApprovalRouter
from hermes_agent.gateway.channel import SendError
from hermes_agent.gateway.delivery.rendering import SLACK, render
from tests.support.fake_channel import HELD, MANIFEST, Room, room
from tests.support.patience import PATIENCE
from tests.support.runtime_fixture import script, until

RULES = """\
version: 1
name: chats
profile: chats
extends: operate
rules:
  - id: touching
    match: {program: touch}
    then: %s
    reason: it touches
"""


def asking(folder: Path, *more: dict[str, Any]) -> str:
    touch = {"tool": "terminal", "with": {"command": "touch made"}}
    return script(folder, "m", {"calls": [touch]}, *(more or ({"say": "It is made"},)))


def turns(folder: Path, *made: dict[str, Any]) -> str:
    """A model that has another script for each message."""
    path = folder / "turns.json"
    path.write_text(json.dumps({"turns": list(made)}))
    return f"scripted/{path}"


def rule(folder: Path, ask: str) -> None:
    """Whatever would touch a file asks."""
    policies = folder / "home" / "policies"
    policies.mkdir(parents=True)
    (policies / "chats.yaml").write_text(RULES % ask)


async def test_a_long_answer_comes_in_parts_and_in_order(tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {n}. " + "word " * 30 for n in range(12))
    short = replace(MANIFEST, longest=500)
    async with room(tmp_path, script(tmp_path, "m", {"say": text}), manifest=short) as r:
        await r.know("ada")
        await r.say("tell")
        await r.hears("(6/6)")
        await r.rest()
        assert [part.strip()[-5:] for part in r.texts()] == [f"({n}/6)" for n in range(1, 7)]
        assert r.pad.typed > 0


async def test_a_turn_that_fails_is_told_in_a_sentence(tmp_path: Path) -> None:
    async with room(tmp_path, script(tmp_path, "m")) as r:
        await r.know("ada")
        await r.say("hi")
        assert "Traceback" not in await r.hears("That did not work")


async def test_what_was_said_while_nobody_told_it_is_told_later(tmp_path: Path) -> None:
    model = script(tmp_path, "m", {"say": "Hello"})
    async with room(tmp_path, model, telling=False) as r:
        await r.know("ada")
        await r.say("hi")
        await until_idle(r)
        assert not r.pad.every
    async with room(tmp_path, model) as r:
        await r.hears("Hello")
        await r.rest()
        assert len(r.pad.every) == 1


async def test_a_journal_that_is_damaged_keeps_no_other_chat_from_hearing(tmp_path: Path) -> None:
    long = script(tmp_path, "m", {"say": "".join(f"{n} " for n in range(20_000))})
    async with room(tmp_path, long, telling=False) as r:
        for person in ("ada", "bob", "carl"):
            await r.know(person)
            await r.say("hi", person)
        await until_idle(r)
        first = (await r.runtime.context.store.sessions())[0]
    blobs = tmp_path / "home" / "blobs"
    lost = blobs.rename(blobs.with_name("lost"))
    async with room(tmp_path, script(tmp_path, "n", {"say": "Hello"})) as r:
        await r.know("dora")
        await r.say("hi", "dora", id="d1")
        await r.hears("Hello", "with-dora")
        assert first.id in {
            one.session for one in await r.runtime.context.store.gateway.bindings(behind=True)
        }
    lost.rename(blobs)


async def until_idle(r: Room) -> None:
    async def idle() -> bool:
        return not r.runtime.sessions.working

    await until(idle)


async def test_an_answer_is_shown_while_it_is_written_and_then_stands_in_its_place(
    tmp_path: Path,
) -> None:
    words = " ".join(f"word{n}" for n in range(200))
    model = script(tmp_path, "m", {"calls": [HELD]}, {"say": words})
    async with room(tmp_path, model, pace=0.02) as r:
        await r.know("ada")
        session = await talk(r)
        bus = r.runtime.context.bus
        await r.say("go")
        await r.is_held()
        for piece in (
            "word0 ",
            "word1 ",
            "and a key: sk-proj-",
            "abcdefghijklmnopqrstuvwx12345678 ",
        ):
            bus.publish(ev.Recorded(session, 0, 0.0, ev.TextArrived(piece)))
        await r.hears("word0 word1")
        await r.let_go()
        await r.hears("word199")
        await r.rest()
        drafts = [one for one in r.pad.every if one.text.endswith(" …")]
        assert drafts
        assert not any("abcdefghijkl" in one.text for one in r.pad.every)
        assert r.texts().count(words) == 1
        assert not any(text.endswith(" …") for text in r.texts())


async def talk(r: Room) -> str:
    """A session that has begun."""
    await r.say("/queue")
    await r.hears("wait for")
    (session,) = await r.runtime.context.store.sessions()
    return session.id


async def test_a_platform_that_takes_no_drafts_gets_the_answer(tmp_path: Path) -> None:
    model = script(tmp_path, "m", {"calls": [HELD]}, {"say": "Hello"})
    async with room(tmp_path, model, pace=0.01) as r:
        await r.know("ada")
        session = await talk(r)
        await r.rest()
        before = len(r.pad.every)
        r.pad.trouble = SendError("too many", after=100.0)
        await r.say("hi")
        await r.is_held()
        for _ in range(20):
            r.runtime.context.bus.publish(ev.Recorded(session, 0, 0.0, ev.TextArrived("He ")))
            await asyncio.sleep(0)

        async def tried() -> bool:
            return r.pad.refused > 0

        await until(tried)
        r.pad.trouble = None
        await r.let_go()
        await r.hears("Hello")
        await r.rest()
        assert [one.text for one in r.pad.every[before:]] == ["Hello"]


async def test_consent_is_given_by_a_button_and_shown(tmp_path: Path) -> None:
    rule(tmp_path, "ask")
    async with room(tmp_path, asking(tmp_path), policy="chats") as r:
        await r.know("ada", name="ada")
        await r.say("make it")
        asked = await r.hears("May I")
        assert "touch made" in asked
        assert (await r.press("Yes", "eve")).state == "ignored"
        assert (await r.press("Yes")).state == "done"
        await r.hears("It is made")
        await r.hears("yes: ada")
        await r.rest()
        question = next(one for one in r.pad.sent.values() if "May I" in one.text)
        assert not question.buttons
        assert (await r.press("Yes")).why == "the question is closed"
        assert (await r.say("q:zz:9", kind="press")).state == "ignored"
        assert (await r.say("what", kind="press")).state == "ignored"


async def test_the_answer_to_a_long_question_replaces_its_last_message_alone(
    tmp_path: Path,
) -> None:
    rule(tmp_path, "ask")
    command = "touch made " + " ".join(f"made-{n:03}" for n in range(60))
    call = {"calls": [{"tool": "terminal", "with": {"command": command}}]}
    model, short = (
        script(tmp_path, "m", call, {"say": "It is made"}),
        replace(MANIFEST, longest=300),
    )
    async with room(tmp_path, model, policy="chats", manifest=short) as r:
        await r.know("ada")
        await r.say("make it")

        async def asked() -> bool:
            return any(one.buttons for one in r.pad.every)

        await until(asked)
        *first, last = r.texts()
        assert first
        await r.press("No")
        await r.hears("It is made")
        await r.rest()
        assert r.texts()[: len(first)] == first
        assert r.texts()[len(first)].startswith(last[:40])
        assert "no: " in r.texts()[len(first)]
        assert not [one for one in r.pad.sent.values() if one.buttons]


def test_a_question_that_is_cut_says_so_and_shows_what_is_dangerous() -> None:
    risk = Risk("deletes files", "command", "rm -rf ~/important", 900)
    command = "\n".join(["| echo"] * 20_000)
    asked = Question(
        "q1", "s1", "approval", f"terminal {{}}\ncommand:\n{command}\nit deletes", ("yes", "no"),
        "e1", 0.0, 1.0, reason="it deletes", risks=(risk,),
    )  # fmt: skip
    shown = render_question(asked, lambda *_: "abcdef", buttons=True, group=False).text
    assert len(shown) < 9_000
    assert "! deletes files: rm -rf ~/important (in command, line 900)" in shown
    assert "more characters in 18,875 lines are NOT shown here" in shown
    assert "`hermes approvals show q1` shows all" in shown
    call = f'write_file {{"path":"__init__.py","content":"{"`" * 12}\\n*a*"}}'
    named = replace(asked, text=f"{call}\nit deletes")
    text = render_question(named, lambda *_: "abcdef", buttons=True, group=False).text
    assert "__init__.py" in (read := render(text, SLACK))  # is not read as markup
    assert "*a*" in read
    choice = "a long choice " * 10 + "that ends in delete"
    plain = Question("q2", "s1", "question", "Which?", (choice,), "e1", 0.0, 1.0)
    assert choice in render_question(plain, lambda *_: "abcdef", buttons=True, group=False).text


async def test_consent_is_given_by_words_where_there_are_no_buttons(tmp_path: Path) -> None:
    rule(tmp_path, "ask")
    plain = replace(MANIFEST, buttons=False, edits=False)
    async with room(tmp_path, asking(tmp_path), policy="chats", manifest=plain) as r:
        await r.know("ada")
        await r.say("make it")
        asked = await r.hears("May I")
        id = asked.partition("/deny ")[2][:6]
        await r.say("/approve ffffff")
        await r.hears("no such question")
        await r.say(f"/deny {id}")
        await r.hears("It is made")  # what the script says next
        (session,) = await r.runtime.context.store.sessions()
        answers = [
            one for one in await r.fixture.journal(session) if isinstance(one, ev.QuestionAnswered)
        ]
        assert [one.answer for one in answers] == ["no"]
        await r.rest()
        closed = [one for one in r.texts() if one.startswith("no: ") and "noted" not in one]
        assert len(closed) == 1
        assert "touch made" in closed[0]


async def test_members_do_not_give_consent_and_the_owners_are_asked_at_home(
    tmp_path: Path,
) -> None:
    rule(tmp_path, "ask")
    home = {"home": "ops"}
    async with room(tmp_path, asking(tmp_path), policy="chats", channel=home) as r:
        await r.know("ada", name="ada")
        await r.know("bob", role="member")
        await r.say("make it", "bob")
        await r.hears("I am waiting", "with-bob")
        asked = await r.hears("touch made", "ops")
        (session,) = await r.runtime.context.store.sessions()
        assert "in `pad:with-bob`" in asked
        assert f"`make it`, session `{session.id}`" in asked
        assert "adds a rule for every session: allow" in asked
        assert (await r.press("Yes", "bob")).why == "they may not answer it"
        await r.say("/approve", "bob")
        await r.hears("no such question", "with-bob")
        assert (await r.press("Yes", "ada", chat="ops", group=True)).state == "done"
        await r.hears("It is made", "with-bob")
        await r.hears("yes: ada", "ops")


async def test_owners_are_asked_in_their_own_chats_where_there_is_no_home(tmp_path: Path) -> None:
    rule(tmp_path, "ask")
    model = asking(tmp_path)
    given = {"owners": ["eve"], "allow": ["bob"]}
    async with room(tmp_path, model, policy="chats", channel=given, telling=False) as r:
        asks = ApprovalRouter(r.runtime.domains, r.pad, r.router.ids)
        await r.know("carl", role="member")
        await r.say("make it", "bob")

        async def open_ones() -> Any:
            return await r.runtime.context.store.questions()

        await until(open_ones)
        (question,) = await open_ones()
        await asks.ask_all()
        assert "there is no chat to ask in" in await r.hears("I am waiting", "with-bob")
        await r.say("/queue", "eve")
        await asks.ask_all()
        assert "For `somebody`" in await r.hears("touch made", "with-eve")
        assert not any("touch" in one for one in r.texts("with-carl") + r.texts("with-bob"))
        await r.say(f"/approve {question.id} no", "carl")
        await r.hears("no such question", "with-carl")
        await r.say(f"/approve {question.id}", "eve")
        await r.hears("yes: noted", "with-eve")
        assert not await open_ones()


async def test_several_people_must_agree_and_one_is_one_on_every_channel(tmp_path: Path) -> None:
    rule(tmp_path, "{ask: {by: [ada, pad], count: 2}}")
    async with room(tmp_path, asking(tmp_path), policy="chats") as r:
        await r.know("ada", name="ada")
        await r.know("ada2", name="ada")
        await r.know("bob", name="bob")
        await r.know("carl", role="member", name="carl")
        await r.say("make it", chat="g", group=True)
        await r.hears("2 people must agree")
        assert (await r.press("Yes", "ada", chat="g", group=True)).state == "done"
        await r.hears("Agreed so far: ada")
        assert "already" in (await r.press("Yes", "ada2", chat="g", group=True)).why
        assert (await r.press("Yes", "bob", chat="g", group=True)).state == "done"
        await r.hears("It is made")
        await r.hears("yes: ada (pad), bob (pad)")


async def test_only_those_answer_whom_the_rule_names(tmp_path: Path) -> None:
    rule(tmp_path, "{ask: {by: [carl]}}")
    async with room(tmp_path, asking(tmp_path), policy="chats") as r:
        await r.know("ada", name="ada")
        await r.know("carl", role="member", name="carl")
        await r.know("eve", role="member", name="~carl")
        await r.say("make it", chat="g", group=True)
        await r.hears("answered by: carl")
        for other in ("ada", "eve"):
            assert (await r.press("Yes", other, chat="g", group=True)).state == "ignored"
        assert (await r.press("Yes", "carl", chat="g", group=True)).state == "done"
        await r.hears("It is made")


async def test_a_question_of_the_agents_is_answered_by_a_message(tmp_path: Path) -> None:
    ask = {"tool": "ask_user", "with": {"question": "Which colour?"}}
    choose = {"tool": "ask_user", "with": {"question": "Which size?", "choices": ["small", "big"]}}
    model = script(tmp_path, "m", {"calls": [ask]}, {"calls": [choose]}, {"say": "Thanks"})
    async with room(tmp_path, model) as r:
        await r.know("ada", role="member")
        await r.say("paint it")
        await r.hears("Which colour?")
        await r.say("blue")
        await r.hears("Which size?")
        await r.press("big")
        await r.hears("Thanks")
        (session,) = await r.runtime.context.store.sessions()
        events = await r.fixture.journal(session)
        assert [one.answer for one in events if isinstance(one, ev.QuestionAnswered)] == [
            "blue",
            "big",
        ]
        assert [one.text for one in events if isinstance(one, ev.MessageTaken)] == ["paint it"]


async def test_a_message_beside_the_answer_is_not_taken_for_it_when_handled_again(
    tmp_path: Path,
) -> None:
    ask = {"tool": "ask_user", "with": {"question": "Which colour?"}}
    model = script(tmp_path, "m", {"calls": [ask]}, {"say": "Thanks"})
    async with room(tmp_path, model) as r:
        await r.know("ada")
        await r.say("paint it")
        await r.hears("Which colour?")
        (session,) = await r.runtime.context.store.sessions()
        beside = InboundMessage("m9", Chat("pad", "with-ada"), Person("ada"), "and green")
        kept = await r.runtime.context.store.gateway.add_inbound(beside)
        assert kept is not None
        await r.say("blue")
        await r.hears("Thanks")
        assert (await r.router.handle(replace(kept, tries=1))).state == "done"

        async def taken() -> bool:
            journal = await r.fixture.journal(session)
            return any(isinstance(e, ev.MessageTaken) and e.text == "and green" for e in journal)

        await until(taken)


async def test_a_draft_that_hangs_holds_up_no_other_chat(tmp_path: Path) -> None:
    hello = {"say": "Hello"}
    told = turns(
        tmp_path,
        {"when": "hold on", "replies": [{"calls": [HELD]}, hello]},
        {"when": "hi", "replies": [hello]},
    )
    async with room(tmp_path, told, pace=0.01, patience=PATIENCE) as r:
        await r.know("ada")
        await r.know("bob")
        session = await talk(r)
        released, hangs = asyncio.Event(), asyncio.Event()

        async def hang(outgoing: OutboundMessage) -> None:
            if outgoing.text.endswith(" …") and outgoing.chat.chat == "with-ada":
                hangs.set()
                await released.wait()

        r.pad.slow = hang
        await r.say("hold on")
        await r.is_held()
        r.runtime.context.bus.publish(ev.Recorded(session, 0, 0.0, ev.TextArrived("He ")))
        await hangs.wait()
        await r.let_go()
        await until_idle(r)
        await r.say("hi", "bob")
        await r.hears("Hello", "with-bob")
        assert not any("Hello" in text for text in r.texts("with-ada"))
        released.set()
        await r.hears("Hello", "with-ada")


async def test_a_platform_on_which_typing_hangs_delays_no_answer(tmp_path: Path) -> None:
    async with room(tmp_path, script(tmp_path, "m"), pace=0.01) as r:
        await r.know("ada")
        session = await talk(r)
        typed, r.pad.hung = r.pad.typed, asyncio.Event()
        for event in (ev.TurnStarted(1), ev.TextArrived("He ")):
            r.runtime.context.bus.publish(ev.Recorded(session, 0, 0.0, event))
        await r.hears("He …")
        assert r.pad.typed == typed
        r.pad.hung.set()
