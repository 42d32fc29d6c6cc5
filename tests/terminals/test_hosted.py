"""What the services that rent out sandboxes have in common."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import DaytonaPlace, E2bPlace, ModalPlace, PlaceSettings
from hermes_agent.terminals.hosted.base import (
    SandboxRecord,
    SandboxRecords,
    StreamChannel,
    name_of,
    plain,
    words,
)
from hermes_agent.terminals.registry import KINDS, check, missing, open_transport

PLACES: dict[str, PlaceSettings] = {
    "modal": ModalPlace(),
    "e2b": E2bPlace(),
    "daytona": DaytonaPlace(),
}


@pytest.mark.parametrize("kind", PLACES)
async def test_a_key_that_is_not_set_is_named(kind: str) -> None:
    place, keys = PLACES[kind], KINDS[kind].keys
    assert await check(kind, place, dict.fromkeys(keys, "x")) == ""
    assert await check(kind, None, dict.fromkeys(keys, "x")) == ""
    for key in keys:
        environ = {name: "x" for name in keys if name != key} | {key: ""}
        assert key in await check(kind, place, environ)


@pytest.mark.parametrize("kind", PLACES)
def test_a_place_without_a_key_is_not_opened(kind: str, tmp_path: Path) -> None:
    with pytest.raises(HermesError, match=KINDS[kind].keys[0]) as raised:
        open_transport(PLACES[kind], session="s", workspace="", folder=tmp_path, environ={})
    assert raised.value.hint


def test_a_missing_sdk_is_told_with_what_to_install() -> None:
    lacking = replace(KINDS["modal"], libraries=("no_such_sdk",))
    assert "hermes add modal" in missing(lacking)
    assert missing(KINDS["modal"]) == ""


@pytest.mark.parametrize("kind", PLACES)
def test_asking_whether_a_place_can_be_had_does_not_load_its_sdk(kind: str) -> None:
    code = (
        "import asyncio, sys; from hermes_agent.terminals.registry import check; "
        f"asyncio.run(check({kind!r}, None, {{}})); "
        f"print({kind!r} in sys.modules, 'httpx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_a_note_is_found_again_and_can_be_removed_twice(tmp_path: Path) -> None:
    notes, note = SandboxRecords(tmp_path / "a" / "b", "e2b"), SandboxRecord("id", 2, "image", True)
    assert notes.read() == SandboxRecord()
    notes.write(note)
    assert SandboxRecords(tmp_path / "a" / "b", "e2b").read() == note
    notes.remove()
    notes.remove()
    assert notes.read() == SandboxRecord()


def test_a_session_has_a_name_that_every_service_takes() -> None:
    assert name_of("k3jz2a4q") == "hermes-k3jz2a4q"
    strange = name_of("Ä/" * 100)
    assert strange != name_of("Ä/" * 99)
    assert strange.isascii()
    assert len(strange) < 60


def test_words_that_are_no_text_reach_a_program_through_bash() -> None:
    argv = ["printf", "%s\n", "a b", "'", "\udcff\udcfe'x", "é"]
    assert plain(argv[:4]) == tuple(argv[:4])
    for command in (plain(argv), ("bash", "-c", words(argv))):
        done = subprocess.run(command, capture_output=True, check=True)
        assert done.stdout == b"a b\n'\n\xff\xfe'x\n\xc3\xa9\n"
        assert all(word.encode() for word in command)


async def test_a_channel_whose_output_breaks_off_has_ended() -> None:
    async def output() -> AsyncIterator[bytes]:
        yield b"a"
        yield b""
        raise ConnectionResetError("cut")

    async def send(data: bytes) -> None:
        raise AssertionError(data)

    channel = StreamChannel(output(), send, lambda: send(b""))
    assert [await channel.read() for _ in range(3)] == [b"a", b"", b""]
    with pytest.raises(ConnectionError, match="ended"):
        await channel.write(b"x")
    await channel.close()


async def test_a_channel_that_is_cut_ends_for_whoever_reads() -> None:
    async def output() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b"never"

    async def ignore(data: bytes = b"") -> None:
        del data

    channel = StreamChannel(output(), ignore, ignore)
    reading = asyncio.create_task(channel.read())
    await asyncio.sleep(0)
    await channel.cut()
    assert await reading == b""
