"""Sandboxes at Modal: the official SDK against a server on this machine that speaks its wire."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from grpclib import Status
from modal_proto import api_pb2 as api

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import Limits, ModalPlace
from hermes_agent.terminals.hosted.modal import DAY, ModalTransport
from tests.support.fake_modal import FakeModal
from tests.support.fake_transports import NAME, SESSION

Make = Callable[..., ModalTransport]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeModal]:
    with FakeModal(tmp_path_factory.mktemp("modal")) as fake:
        yield fake


@pytest.fixture
async def make(service: FakeModal, tmp_path: Path) -> AsyncIterator[Make]:
    """A transport of the session, as each process makes its own."""
    made: list[ModalTransport] = []

    def make(every: float = 1000.0, **settings: object) -> ModalTransport:
        place = ModalPlace(workspace=service.workspace(NAME), **settings)
        made.append(ModalTransport(place, SESSION, tmp_path, service.environ, every))
        return made[-1]

    yield make
    for transport in made:
        await transport.close()
    service.refuse = None
    service.images.clear()
    service.do(service.clear())


async def said(transport: ModalTransport, script: str) -> str:
    done = await transport.call(["bash", "-c", script])
    assert done.code == 0, done.stderr
    return done.stdout.decode()


def blocked(service: FakeModal) -> bool:
    kind: int = service.box.definition.network_access.network_access_type
    return kind == api.NetworkAccess.BLOCKED


async def test_a_session_has_one_sandbox_with_limits_and_cut_off_from_the_network(
    service: FakeModal, make: Make
) -> None:
    limits = Limits(memory_mb=1024, cpus=1.5)
    first, second = make(limits=limits), make(limits=limits)
    await first.ready()
    await first.ready()
    await second.ready()
    assert service.counted("create") == 1
    definition = service.box.definition
    assert definition.name == NAME
    assert definition.timeout_secs == DAY
    assert definition.resources.memory_mb_max == 1024
    assert definition.resources.milli_cpu_max == 1500
    assert blocked(service)


async def test_a_change_of_the_network_moves_the_files_to_another_sandbox(
    service: FakeModal, make: Make
) -> None:
    first = make(network=True)
    await first.ready()
    assert not blocked(service)
    await said(first, f"echo kept > {service.workspace(NAME)}/note")
    second = make()
    await second.ready()
    assert blocked(service)
    assert await said(second, f"cat {service.workspace(NAME)}/note") == "kept\n"


async def test_a_sandbox_that_was_made_just_before_a_crash_is_found_by_its_name(
    service: FakeModal, make: Make, tmp_path: Path
) -> None:
    await make().ready()
    id = service.box.id
    (tmp_path / "modal.json").unlink()
    await make().ready()
    assert service.box.id == id


async def test_it_rests_as_an_image_and_wakes_with_its_files(
    service: FakeModal, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    transport, note = make(), f"{service.workspace(NAME)}/note"
    await transport.ready()
    await said(transport, f"echo 1 > {note}")
    await transport.close()
    await transport.rest()
    assert service.boxes == {}
    assert len(service.images) == 1
    await transport.rest()
    with pytest.raises(ConnectionError):
        await transport.call(["true"])
    later = make()
    with caplog.at_level(logging.WARNING):
        await later.ready()
    assert await said(later, f"cat {note}; echo 2 >> {note}") == "1\n"
    await later.rest()
    assert len(service.images) == 1
    await transport.ready()
    assert await said(transport, f"cat {note}") == "1\n2\n"
    assert caplog.text == ""


async def test_a_crash_between_the_image_and_the_end_of_the_sandbox_loses_nothing(
    service: FakeModal, make: Make, tmp_path: Path
) -> None:
    transport = make()
    await transport.ready()
    id, noted = service.box.id, (tmp_path / "modal.json").read_bytes()
    (tmp_path / "modal.json").write_bytes(noted.replace(id.encode(), b""))
    await make().ready()
    assert service.box.id == id


async def test_files_are_kept_while_it_is_used_so_that_its_end_loses_little(
    service: FakeModal, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    transport, note = make(every=0.05), f"{service.workspace(NAME)}/note"
    await transport.ready()
    await said(transport, f"echo kept > {note}")
    before = service.counted("snapshot")
    while service.counted("snapshot") < before + 2:
        await asyncio.sleep(0.01)
    await transport.close()
    assert len(service.images) == 1
    old = service.box.id
    service.do(service.end(old))
    with caplog.at_level(logging.WARNING):
        later = make()
        await later.ready()
    assert f"{old} of Modal is gone; its files are as last saved" in caplog.text
    assert await said(later, f"cat {note}") == "kept\n"


async def test_a_sandbox_that_ended_before_its_files_were_kept_is_told_as_a_loss(
    service: FakeModal, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    transport = make()
    await transport.ready()
    old = service.box.id
    service.do(service.end(old))
    with pytest.raises(ConnectionError, match="lost the connection"):
        await transport.call(["true"])
    with caplog.at_level(logging.WARNING):
        await transport.ready()
    assert f"{old} of Modal is gone; its files are lost" in caplog.text
    assert await said(transport, "echo hi") == "hi\n"


@pytest.mark.parametrize(
    ("status", "said", "hint"),
    [
        (Status.UNAUTHENTICATED, "refused the token", "MODAL_TOKEN_ID"),
        (Status.RESOURCE_EXHAUSTED, "limits requests", "wait"),
        (Status.INVALID_ARGUMENT, "not like this", "hermes terminals"),
    ],
)
async def test_what_the_service_refuses_is_a_sentence_with_a_way_out(
    service: FakeModal, make: Make, status: Status, said: str, hint: str
) -> None:
    service.refuse = status, "not like this"
    with pytest.raises(HermesError, match=said) as raised:
        await make().ready()
    assert hint in raised.value.hint


async def test_an_image_of_ones_own_is_what_it_is_made_of(service: FakeModal, make: Make) -> None:
    first = make()
    await first.ready()
    await said(first, f"echo own > {service.workspace(NAME)}/note")
    image = service.do(service.snapshot(service.box))
    await first.destroy()
    second = make(image=image)
    await second.ready()
    assert await said(second, f"cat {service.workspace(NAME)}/note") == "own\n"
    await second.destroy()
    assert image in service.images


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


async def test_destroying_removes_the_image_too(service: FakeModal, make: Make) -> None:
    transport = make()
    await transport.ready()
    await transport.rest()
    await transport.ready()
    await make().destroy()
    assert (service.boxes, service.images) == ({}, {})
    await transport.destroy()
