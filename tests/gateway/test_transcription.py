"""Voice memos: real speech, heard by a model on this machine, or by a service."""

import subprocess
from pathlib import Path
from threading import Event

from msgspec.structs import replace

from hermes_agent.core import events as ev
from hermes_agent.core.messages import Media
from hermes_agent.core.settings.root import GatewaySettings, ModelSettings
from hermes_agent.core.settings.services import ServiceSettings
from tests.support.fake_channel import MANIFEST, room
from tests.support.fake_time import until
from tests.support.model_server import ModelServer, Raw, Received
from tests.support.patience import PATIENCE
from tests.support.runtime_fixture import script


def spoken(folder: Path, words: str) -> bytes:
    """As phones send it: Opus in Ogg."""
    import soundfile

    sound = folder / "said.wav"
    subprocess.run(["espeak-ng", "-v", "en-us", "-s", "130", "-w", str(sound), words], check=True)
    samples, rate = soundfile.read(sound, dtype="float32")
    assert rate == 22_050
    memo = folder / "said.ogg"
    soundfile.write(memo, samples, 24_000, format="OGG", subtype="OPUS")
    return memo.read_bytes()


async def test_a_service_hears_and_where_it_fails_this_machine_does(tmp_path: Path) -> None:
    said = Media("audio/ogg", spoken(tmp_path, "Is the server working today?"), "memo.ogg")
    model = script(tmp_path, "m", {"say": "It is"})
    with ModelServer([Raw.json({"text": "Order seven lamps"})]) as server:
        server_of = {"ear": ServiceSettings(url=f"{server.root}/v1", needs_key=False)}
        models, voice = ModelSettings(services=server_of, retries=0), "ear/whisper-1"
        async with room(tmp_path, model, gateway=GatewaySettings(voice=voice), models=models) as r:
            await r.know("ada")
            await r.say("", voice=[said])
            server.answer_next(Raw.json({"error": {"message": "unsupported"}}, 400))
            await r.say("", voice=[said])
            await r.rest()
            (session,) = await r.runtime.context.store.sessions()
            events = await r.fixture.journal(session)
        assert [one.path for one in server.requests] == ["/v1/audio/transcriptions"] * 2
    first, second = [one.text for one in events if isinstance(one, ev.MessageTaken)]
    assert first.endswith("\nOrder seven lamps")
    assert "working" in second.lower()


async def test_what_is_said_in_a_memo_reaches_the_agent(tmp_path: Path) -> None:
    said = Media("audio/ogg", spoken(tmp_path, "Is the server working today?"), "memo.ogg")
    rubbish = Media("audio/ogg", b"OggS but no sound", "rubbish.ogg")
    model = script(tmp_path, "m", {"say": "It is"})
    async with room(tmp_path, model, gateway=GatewaySettings(voice="local/tiny")) as r:
        await r.know("ada")
        await r.say("", voice=[said])
        await r.say("", voice=[rubbish])
        await r.rest()
        (session,) = await r.runtime.context.store.sessions()
        events = await r.fixture.journal(session)
    first, second = [one.text for one in events if isinstance(one, ev.MessageTaken)]
    assert "server" in first.lower()
    assert "working" in first.lower()
    assert "not transcribed" in second


async def test_a_service_speaks_the_answer_to_a_memo_and_the_text_is_there_without_it(
    tmp_path: Path,
) -> None:
    said = Media("audio/ogg", b"OggS", "memo.ogg")
    heard, spoken = Raw.json({"text": "Is it up?"}), Raw([b"OggS spoken"])
    refused = Raw.json({"error": {"message": "unsupported"}}, 400)
    answers, told = iter([heard, spoken, heard, refused]), Event()

    def answer(received: Received) -> Raw:
        if received.path.endswith("/speech"):
            assert told.wait(PATIENCE)  # the text does not wait for the voice
        return next(answers)

    with ModelServer(answer) as server:
        server_of = {"ear": ServiceSettings(url=f"{server.root}/v1", needs_key=False)}
        models = ModelSettings(services=server_of, retries=0)
        gateway = GatewaySettings(voice="ear/whisper-1", speak="ear/tts-1")
        model, files = script(tmp_path, "m", {"say": "It **is**"}), replace(MANIFEST, files=True)
        async with room(tmp_path, model, manifest=files, gateway=gateway, models=models) as r:
            await r.know("ada")
            for _ in range(2):
                await r.say("", voice=[said])
                await until(lambda: r.pad.every)
                told.set()
                await r.rest()
            await r.say("And now?")
            await r.rest()
            sent = [(one.text, [file.data for file in one.files]) for one in r.pad.every]
    text = ("It **is**", [])
    assert sent == [text, ("", [b"OggS spoken"]), text, text]
    asked = server.requests[1]
    assert (asked.path, asked.json["model"], asked.json["input"]) == (
        "/v1/audio/speech", "tts-1", "It is",
    )  # fmt: skip
