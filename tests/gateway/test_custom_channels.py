"""A channel of one's own is a folder in the home; its code runs only where it is named and safe."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core.errors import HermesError
from hermes_agent.gateway.gateway import Gateway
from hermes_agent.gateway.registry import ChannelRegistry
from hermes_agent.runtime.runtime import Runtime
from hermes_agent.runtime.services import Domains
from tests.support.fake_time import until

DATA = """\
title: Spool
about: Letters in a folder of this machine
fields:
  - {name: folder, about: where letters lie, required: true}
"""
CODE = '''\
"""Letters: what is put into `in` is read, what is said is put into `out`."""

import json
from pathlib import Path

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import Chat, InboundMessage, Person


def make(settings, surroundings):
    return Spool(Path(settings["folder"]), surroundings)


class Spool:
    def __init__(self, folder, around):
        self.folder, self.around = folder, around

    async def run(self):
        while True:
            for path in sorted((self.folder / "in").glob("*.json")):
                letter = json.loads(path.read_text())
                chat, person = Chat("spool", letter["chat"]), Person(letter["from"])
                message = InboundMessage(path.name, chat, person, letter["text"])
                await self.around.receive(message, "")
                path.unlink()
            await self.around.sleep(0.05)

    async def send(self, outgoing, key):
        name = key.replace("/", "_")
        letter = {"chat": outgoing.chat.chat, "text": outgoing.text}
        (self.folder / "out" / name).write_text(json.dumps(letter))
        return name

    async def typing(self, chat):
        pass

    async def probe(self):
        if not (self.folder / "in").is_dir():
            raise HermesError("the letter box is gone")

    async def close(self):
        pass
'''


@asynccontextmanager
async def spool(tmp_path: Path, code: str = CODE, **channels: Any) -> AsyncIterator[Gateway]:
    home, mail = tmp_path / "home", tmp_path / "mail"
    folder = home / "channels" / "spool"
    for path in (mail / "in", mail / "out", folder):
        path.mkdir(parents=True, exist_ok=True)
    for path in (home, folder.parent, folder):
        path.chmod(0o700)
    for name, text in (("manifest.yaml", DATA), ("channel.py", code)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    model = tmp_path / "echo.json"
    model.write_text(json.dumps({"turns": [{"replies": [{"say": "Heard: ", "echo": True}]}]}))
    config = {"model": f"scripted/{model}", "channels": channels}
    (home / "config.yaml").write_text(json.dumps(config))
    made: list[Gateway] = []

    def face(domains: Domains) -> Gateway:
        made.append(Gateway(domains))
        return made[0]

    runtime = Runtime(home, {}, services=(face,))
    await runtime.start()
    try:
        yield made[0]
    finally:
        await runtime.stop()


def given(tmp_path: Path) -> dict[str, Any]:
    return {"folder": str(tmp_path / "mail"), "allow": ["ada"]}


def test_a_channel_takes_less_than_sixty_lines() -> None:
    assert len((DATA + CODE).splitlines()) < 60


async def test_a_channel_of_the_home_is_talked_by(tmp_path: Path) -> None:
    async with spool(tmp_path, spool=given(tmp_path)) as gateway:
        letter = {"chat": "desk", "from": "ada", "text": "hello"}
        draft = tmp_path / "mail" / "in" / "draft"
        draft.write_text(json.dumps(letter))
        draft.rename(draft.with_name("1.json"))
        out = tmp_path / "mail" / "out"
        await until(lambda: any(out.iterdir()))
        (answer,) = out.iterdir()
        await until(lambda: answer.read_text().endswith("}"))
        assert json.loads(answer.read_text()) == {"chat": "desk", "text": "Heard: hello"}
        proof = await gateway.supervisor("spool").liveness.test(20.0)
        assert proof.error == ""


async def test_what_the_settings_do_not_name_is_not_run(tmp_path: Path) -> None:
    code = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n{CODE}"
    async with spool(tmp_path, code) as gateway:
        await gateway.apply_settings()
        assert gateway.registry.manifests()["spool"].title == "Spool"
        assert not gateway.busy
    async with spool(tmp_path, code, spool={**given(tmp_path), "enabled": False}) as gateway:
        await gateway.apply_settings()
    assert not (tmp_path / "ran").exists()
    async with spool(tmp_path, code, spool=given(tmp_path)) as gateway:
        await until(lambda: gateway.channel("spool"))
    assert (tmp_path / "ran").exists()


def writable(folder: Path) -> None:
    (folder / "channel.py").chmod(0o660)


def open_folder(folder: Path) -> None:
    folder.parent.chmod(0o777)


def linked(folder: Path) -> None:
    (folder / "channel.py").rename(folder.parent.parent / "elsewhere.py")
    (folder / "channel.py").symlink_to(folder.parent.parent / "elsewhere.py")


def anothers(folder: Path) -> None:
    os.chown(folder / "channel.py", 12_345, -1)


@pytest.mark.parametrize("spoil", [writable, open_folder, linked, anothers])
async def test_what_others_could_have_written_is_not_run(tmp_path: Path, spoil: Any) -> None:
    code = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n{CODE}"
    async with spool(tmp_path, code) as gateway:
        folder = tmp_path / "home" / "channels" / "spool"
        spoil(folder)
        config = gateway.context.home.config
        new = {**json.loads(config.read_text()), "channels": {"spool": given(tmp_path)}}
        config.write_text(json.dumps(new))
        await until(lambda: gateway.busy)
        line = gateway.supervisor("spool").connection
        await until(lambda: line.state == "missing")
        assert "not loaded" in line.error
    assert not (tmp_path / "ran").exists()


async def test_a_module_that_breaks_is_said_and_one_that_is_mended_is_taken(tmp_path: Path) -> None:
    async with spool(tmp_path, "def make(:", spool=given(tmp_path)) as gateway:
        await until(lambda: gateway.busy)
        line = gateway.supervisor("spool").connection
        await until(lambda: line.state == "missing")
        assert "SyntaxError" in line.error
        (tmp_path / "home" / "channels" / "spool" / "channel.py").write_text(CODE)
        line.restart()
        await until(lambda: line.state == "up")


def test_a_manifest_that_is_none_is_passed_over_and_a_bundled_name_is_not_taken(
    tmp_path: Path,
) -> None:
    for name, text in (("telegram", DATA), ("bad", "- a list"), ("Worse!", DATA), ("odd", "a: 1")):
        (tmp_path / "channels" / name).mkdir(parents=True)
        (tmp_path / "channels" / name / "manifest.yaml").write_text(text)
    book = ChannelRegistry(home=tmp_path)
    assert book.manifests()["telegram"].title == "Telegram"
    assert not {"bad", "Worse!", "odd"} & set(book.manifests())
    with pytest.raises(HermesError, match="no channel called 'spool'"):
        book.manifest("spool")
    (tmp_path / "channels" / "spool").mkdir()
    (tmp_path / "channels" / "spool" / "manifest.yaml").write_text(DATA)
    assert book.manifest("spool").fields[0].required
