"""Images in the conversation: seen by a model that can, put into words for one that cannot."""

import base64
import json
from pathlib import Path

import pytest

from hermes_agent.agent.trajectory import trajectories
from hermes_agent.core import events as ev
from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import Media, ModelFacts, Reply, Request, UserMessage
from hermes_agent.core.records import SessionMessage
from hermes_agent.core.settings.root import BudgetSettings, Settings
from hermes_agent.models.scripted import ScriptedModel
from hermes_agent.store.store import Store
from tests.support.billing_model import LOOK, Paid, facts
from tests.support.turns import Bench, bench

SHOT = Media("image/png", b"\x89PNG a screen with an error", "shot.png")
PHOTO = Media("image/jpeg", b"\xff\xd8 a cat", "cat.jpg")
REPORT = Media("application/pdf", b"%PDF-1.7 figures", "report.pdf")
SEEING = ModelFacts(sees=True)


class Listens(ScriptedModel):
    """Says the same to everything, and keeps what it was sent."""

    def __init__(self, say: str, name: str, facts: ModelFacts | None = None) -> None:
        self.sent: list[Request] = []
        self.fails = 0

        def answer(request: Request) -> Reply:
            self.sent.append(request)
            if self.fails:
                self.fails -= 1
                raise ModelError("overload", "the eyes are busy")
            return Reply(say)

        super().__init__(*[answer] * 50, name=name, facts=facts)


async def show(b: Bench, text: str, *files: Media) -> ev.TurnFinished:
    b.sent += 1
    await b.store.receive(b.session.id, SessionMessage(f"m{b.sent}", text, "test", False, files))
    end = await (await b.worker()).run()
    assert end is not None
    return end


async def test_a_model_that_sees_gets_the_image(tmp_path: Path) -> None:
    model, eyes = Listens("I see", "one/seeing", SEEING), Listens("a screen", "one/eyes")
    async with bench(tmp_path, model) as b:
        b.uses["vision"] = eyes
        end = await show(b, "what is this?", SHOT)
    assert end.text == "I see"
    assert model.sent[0].messages == (UserMessage("what is this?", (SHOT,)),)
    assert eyes.sent == []


async def test_one_that_cannot_see_gets_words_and_the_names_of_the_rest(tmp_path: Path) -> None:
    model, eyes = Listens("I see", "one/blind"), Listens("a red error", "one/eyes", SEEING)
    async with bench(tmp_path, model) as b:
        b.uses["vision"] = eyes
        await show(b, "what is this?", SHOT, REPORT, PHOTO)
        await show(b, "and now?")
        (described,) = await b.events(ev.ImageDescribed)
        (charged,) = await b.events(ev.CostCharged)
        uses = {cost.name for cost in await b.store.costs("use")}
    words = (
        "[shot.png, cat.jpg, as one/eyes describes it]\na red error\n"
        "[report.pdf: this model cannot read it]"
    )
    assert (described.text, described.by) == (words, "one/eyes")
    assert model.sent[0].messages == (UserMessage(f"what is this?\n\n{words}"),)
    assert model.sent[1].messages[0] == model.sent[0].messages[0]
    assert [request.messages[0].files for request in eyes.sent] == [(SHOT, PHOTO)]
    assert (charged.use, charged.model) == ("vision", "one/eyes")
    assert uses == {"main", "vision"}


async def test_without_a_model_for_it_nothing_is_described(tmp_path: Path) -> None:
    model = Listens("I am told that there is an image", "one/blind")
    async with bench(tmp_path, model) as b:
        assert (await show(b, "what is this?", SHOT)).reason == "done"
        assert await b.events(ev.ImageDescribed) == []
    assert model.sent[0].messages[0].files == (SHOT,)


async def test_a_session_may_go_from_one_that_sees_to_one_that_does_not_and_back(
    tmp_path: Path,
) -> None:
    seeing, blind = Listens("I see", "one/seeing", SEEING), Listens("I read", "one/blind")
    eyes = Listens("a screen", "one/eyes", SEEING)
    async with bench(tmp_path, seeing) as b:
        b.uses["vision"] = eyes
        b.models = {"one/seeing": seeing, "one/blind": blind}
        await show(b, "first", SHOT)
        await b.store.note(b.session.id, ev.ModelChosen("one/blind"))
        await show(b, "second")
        await b.store.note(b.session.id, ev.ModelChosen("one/seeing"))
        await show(b, "third", PHOTO)
    assert seeing.sent[0].messages[0].files == (SHOT,)
    assert "a screen" in blind.sent[0].messages[0].text
    assert not blind.sent[0].messages[0].files
    assert seeing.sent[1].messages[:3] == blind.sent[0].messages[:3]
    assert seeing.sent[1].messages[-1].files == (PHOTO,)
    assert len(eyes.sent) == 1


async def test_what_cannot_be_described_is_said_once_and_the_turn_goes_on(tmp_path: Path) -> None:
    model = Paid(facts(1.0, 1.0), steps=3)
    eyes = Listens("a screen", "one/eyes", SEEING)
    eyes.fails = 1
    async with bench(tmp_path, model, tools=[LOOK]) as b:
        b.uses["vision"] = eyes
        end = await show(b, "look", SHOT, PHOTO)
        assert (end.reason, end.steps) == ("done", 3)
        notes = await b.events(ev.NoticeIssued)
        assert [note.text for note in notes] == ["cannot describe the images: the eyes are busy"]
        await show(b, "try again")
        assert len(await b.events(ev.ImageDescribed)) == 1
    assert len(eyes.sent) == 2


@pytest.mark.parametrize("prices", [(1.0, 1.0), None])
async def test_a_description_that_no_budget_is_left_for_is_said_once(
    tmp_path: Path, prices: tuple[float, float] | None
) -> None:
    """Nor is one made whose price is not known."""
    model = Paid(facts(0.0, 0.0), steps=3, most=9)
    eyes = Listens("a screen", "one/eyes", facts(*prices, sees=True) if prices else SEEING)
    settings = Settings(budgets=BudgetSettings(day_dollars=0.000_1))
    async with bench(tmp_path, model, tools=[LOOK], settings=settings) as b:
        b.uses["vision"] = eyes
        end = await show(b, "look", SHOT)
        (note,) = await b.events(ev.NoticeIssued)
    assert end.reason == "done"
    assert eyes.sent == []
    expected = "no budget left for vision: dollars of this day" if prices else "no price is known"
    assert expected in note.text


async def test_a_message_of_many_images_sets_enough_aside(tmp_path: Path) -> None:
    eyes = Paid(facts(10.0, 10.0, sees=True, max_output=1_000), name="one/eyes")
    settings = Settings(budgets=BudgetSettings(day_dollars=9.0))
    async with bench(tmp_path, Paid(facts(0.0, 0.0)), settings=settings) as b:
        b.uses["vision"] = eyes
        await show(b, "words " * 20_000, *[SHOT] * 20)
        requested = (await b.events(ev.ModelRequested))[0]
    assert requested.use == "vision"
    assert requested.most is not None
    assert eyes.dollars <= requested.most


async def test_images_are_kept_found_by_their_words_exported_and_deleted(tmp_path: Path) -> None:
    large = Media("image/png", b"\x89PNG" + bytes(range(256)) * 1_000, "large.png")
    model = Listens("a diagram", "one/seeing", SEEING)
    async with bench(tmp_path, model) as b:
        await show(b, "the architecture diagram", large, REPORT)
        recorded = await b.store.events(b.session.id)
        taken = next(one.event for one in recorded if isinstance(one.event, ev.MessageTaken))
        assert taken.files == (large, REPORT)
        assert len(await b.store.search("architecture")) == 1
        assert await b.store.search("PNG") == []

        prompt = await b.store.prompt(b.session.prompt)
        (line,) = trajectories(b.session.id, prompt, recorded, "openai")
        content = line["messages"][1]["content"]
        assert content[0] == {"type": "text", "text": "the architecture diagram"}
        url = content[1]["image_url"]["url"]
        assert base64.b64decode(url.partition(",")[2]) == large.data
        assert content[2]["file"]["filename"] == "report.pdf"
        assert ev.decode(json.dumps(json.loads(ev.encode(taken)))) == taken
        (line,) = trajectories(b.session.id, prompt, recorded, "sharegpt")
        assert "<image/png large.png>" in line["conversations"][1]["value"]

        files = [path for path in (tmp_path / "home" / "blobs").rglob("*") if path.is_file()]
        assert files, "too large for the database"
        copy = tmp_path / "copy"
        copy.mkdir()
        await b.store.backup(copy / "state.db")
        (tmp_path / "home" / "blobs").rename(copy / "blobs")
        again = await Store.open(copy)
        assert [one.event for one in await again.events(b.session.id)] == [
            one.event for one in recorded
        ]
        await again.delete_session(b.session.id)
        await again.close()
        assert not [path for path in (copy / "blobs").rglob("*") if path.is_file()]
        await b.store.delete_session(b.session.id)
