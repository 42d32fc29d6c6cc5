"""Sandboxes at E2B: the official SDK against a server on this machine that speaks its wire."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import E2bPlace
from hermes_agent.terminals.hosted.e2b import LIFE, E2bTransport
from tests.support.fake_e2b import FakeE2b
from tests.support.fake_transports import NAME, SESSION

Make = Callable[..., E2bTransport]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeE2b]:
    with FakeE2b(tmp_path_factory.mktemp("e2b")) as fake:
        yield fake


@pytest.fixture
async def make(service: FakeE2b, tmp_path: Path) -> AsyncIterator[Make]:
    """A transport of the session, as each process makes its own."""
    made: list[E2bTransport] = []

    def make(network: bool = False, every: float = 1000.0) -> E2bTransport:
        place = E2bPlace("python", network, service.workspace(NAME))
        made.append(E2bTransport(place, SESSION, tmp_path, service.environ, every))
        return made[-1]

    yield make
    for transport in made:
        await transport.close()
    service.refuse = None
    service.forget_replies = False
    service.do(service.clear())


async def said(transport: E2bTransport, script: str) -> str:
    done = await transport.call(["bash", "-c", script])
    assert done.code == 0, done.stderr
    return done.stdout.decode()


async def test_a_session_has_one_sandbox_cut_off_from_the_network(
    service: FakeE2b, make: Make
) -> None:
    first, second = make(), make()
    await first.ready()
    await first.ready()
    await second.ready()
    assert service.counted("create") == 1
    assert service.box.template == "python"
    assert service.box.metadata == {"hermes-session": NAME}
    assert not service.box.internet
    assert service.box.auto_pause


async def test_the_network_follows_the_settings(service: FakeE2b, make: Make) -> None:
    await make(network=True).ready()
    assert service.box.internet
    await make(network=False).ready()
    assert not service.box.internet
    await make(network=False).ready()
    assert service.counted("network") == 1


async def test_a_sandbox_that_was_made_just_before_a_crash_is_found_by_its_name(
    service: FakeE2b, make: Make, tmp_path: Path
) -> None:
    await make().ready()
    id = service.box.id
    (tmp_path / "e2b.json").unlink()
    later = make(network=True)
    await later.ready()
    assert service.box.id == id
    assert service.box.internet


async def test_a_sandbox_whose_making_was_not_heard_of_is_not_made_twice(
    service: FakeE2b, make: Make
) -> None:
    service.forget_replies = True
    transport = make()
    with pytest.raises(HermesError, match="lost the connection"):
        await transport.ready()
    service.forget_replies = False
    await transport.ready()
    assert len(service.boxes) == 1
    assert await said(transport, "echo hi") == "hi\n"


@pytest.mark.parametrize("noted", [True, False])
async def test_a_connection_that_died_unseen_is_made_again(
    service: FakeE2b, make: Make, tmp_path: Path, noted: bool
) -> None:
    await make().ready()
    if not noted:
        (tmp_path / "e2b.json").unlink()
    service.dead = 2
    later = make()
    await later.ready()
    assert service.counted("create") == 1
    assert await said(later, "echo hi") == "hi\n"


async def test_it_rests_with_what_runs_there_and_wakes_where_it_was(
    service: FakeE2b, make: Make
) -> None:
    transport, folder = make(), service.workspace(NAME)
    await transport.ready()
    loop = f"for i in 1 2 3; do until [ -e {folder}/$i ]; do sleep 0.02; done; done; echo > end"
    await said(transport, f"cd {folder}; ({loop}) </dev/null >/dev/null 2>&1 &")
    await transport.close()
    await transport.rest()
    assert service.box.paused
    await transport.rest()
    with pytest.raises(ConnectionError):
        await transport.call(["true"])
    await transport.ready()
    assert not service.box.paused
    await said(transport, f"cd {folder}; touch 1 2 3; until [ -e end ]; do sleep 0.02; done")
    assert service.counted("create") == 1


async def test_a_sandbox_that_the_service_paused_is_woken_by_asking_again(
    service: FakeE2b, make: Make
) -> None:
    transport = make()
    await transport.ready()
    service.box.pause()
    with pytest.raises(ConnectionError, match="lost the connection"):
        await transport.call(["true"])
    await transport.ready()
    assert await said(transport, "echo hi") == "hi\n"


async def test_a_sandbox_whose_memory_cannot_be_woken_is_started_from_its_files(
    service: FakeE2b, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    transport, note = make(), f"{service.workspace(NAME)}/note"
    await transport.ready()
    await said(transport, f"echo kept > {note}")
    await transport.rest()
    service.box.stuck = True
    with caplog.at_level(logging.WARNING):
        await transport.ready()
    assert await said(transport, f"cat {note}") == "kept\n"
    assert "but without its processes" in caplog.text


async def test_a_program_that_does_not_want_its_input_ends_as_it_likes(make: Make) -> None:
    transport = make()
    await transport.ready()
    calls = (transport.call(["bash", "-c", "exec <&-; exit 5"], b"x") for _ in range(8))
    assert {done.code for done in await asyncio.gather(*calls)} == {5}


async def test_a_sandbox_is_kept_awake_while_it_is_used(service: FakeE2b, make: Make) -> None:
    transport = make(every=0.01)
    await transport.ready()
    while service.counted("timeout") < 2:
        await asyncio.sleep(0.01)
    assert set(service.box.timeouts) == {LIFE}


async def test_a_sandbox_that_is_gone_is_replaced_and_the_loss_is_told(
    service: FakeE2b, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    await make().ready()
    old = service.box.id
    service.do(service.lose(old))
    transport = make()
    with caplog.at_level(logging.WARNING):
        await transport.ready()
    assert f"{old} of E2B is gone with its files" in caplog.text
    assert service.box.id != old
    assert await said(transport, f"ls {service.workspace(NAME)}") == ""


async def test_resting_a_sandbox_that_is_gone_is_told_and_does_no_harm(
    service: FakeE2b, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    transport = make()
    await transport.ready()
    service.do(service.lose(service.box.id))
    with caplog.at_level(logging.WARNING):
        await transport.rest()
    assert "was not paused" in caplog.text


@pytest.mark.parametrize(
    ("code", "message", "said", "hint"),
    [
        (401, "no such key", "refused the key", "E2B_API_KEY"),
        (429, "too many sandboxes", "limits requests", "wait"),
        (503, "no capacity", "no capacity", "again"),
        (404, "template 'python' not found", "template 'python' not found", "hermes terminals"),
    ],
)
async def test_what_the_service_refuses_is_a_sentence_with_a_way_out(
    service: FakeE2b, make: Make, code: int, message: str, said: str, hint: str
) -> None:
    service.refuse = code, message
    with pytest.raises(HermesError, match=said) as raised:
        await make().ready()
    assert hint in raised.value.hint


async def test_a_service_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    environ = {"E2B_API_KEY": "x", "E2B_API_URL": "http://127.0.0.1:9"}
    transport = E2bTransport(E2bPlace(), SESSION, tmp_path, environ)
    with pytest.raises(HermesError, match="lost the connection") as raised:
        await transport.ready()
    assert "E2B" in raised.value.hint


async def test_small_input_goes_by_a_pipe_and_large_by_a_file_that_does_not_stay(
    service: FakeE2b, make: Make
) -> None:
    transport = make()
    await transport.ready()
    assert (await transport.call(["cat"], b"\xff\0")).stdout == b"\xff\0"
    assert service.counted("upload") == 0
    large = b"\xff\0" * 20_000
    where = ["bash", "-c", "cat; readlink /proc/self/fd/0 >&2"]
    done = await transport.call(where, large)
    assert done.stdout == large
    assert done.stderr.endswith(b" (deleted)\n")
    assert service.counted("upload") == 1


async def test_pieces_that_are_written_at_once_all_arrive_whole(make: Make) -> None:
    transport = make()
    await transport.ready()
    channel = await transport.start(["cat"])
    assert channel is not None
    pieces = [b"%d" % number * 2000 + b"\n" for number in range(1, 9)]
    await asyncio.gather(*map(channel.write, pieces))
    read = b""
    while len(read) < sum(map(len, pieces)):
        read += await channel.read()
    assert sorted(read.splitlines(keepends=True)) == sorted(pieces)
    await channel.close()


async def test_destroying_removes_all_that_carry_the_name(service: FakeE2b, make: Make) -> None:
    transport = make()
    await transport.ready()
    await make().destroy()
    assert service.boxes == {}
    with pytest.raises(ConnectionError):
        await transport.call(["true"])
