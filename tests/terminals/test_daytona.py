"""Sandboxes at Daytona: the official SDK against a server on this machine that speaks its wire."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from daytona_api_client_async import SandboxState

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import DaytonaPlace, Limits
from hermes_agent.terminals.hosted.daytona import INLINE, DaytonaTransport
from tests.support.fake_daytona import FakeDaytona
from tests.support.fake_transports import NAME, SESSION

Make = Callable[..., DaytonaTransport]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeDaytona]:
    with FakeDaytona(tmp_path_factory.mktemp("daytona")) as fake:
        yield fake


@pytest.fixture
async def make(service: FakeDaytona, tmp_path: Path) -> AsyncIterator[Make]:
    """A transport of the session, as each process makes its own."""
    made: list[DaytonaTransport] = []

    def make(every: float = 1000.0, **settings: object) -> DaytonaTransport:
        place = DaytonaPlace(workspace=service.workspace(NAME), **settings)
        made.append(DaytonaTransport(place, SESSION, tmp_path, service.environ, every))
        return made[-1]

    yield make
    for transport in made:
        await transport.close()
    service.refuse = None
    service.forget_replies = False
    service.do(service.clear())


async def said(transport: DaytonaTransport, script: str) -> str:
    done = await transport.call(["bash", "-c", script])
    assert done.code == 0, done.stderr
    return done.stdout.decode()


async def test_a_session_has_one_sandbox_cut_off_from_the_network(
    service: FakeDaytona, make: Make
) -> None:
    first, second = make(snapshot="tools"), make(snapshot="tools")
    await first.ready()
    await first.ready()
    await second.ready()
    assert service.counted("create") == 1
    assert (service.box.name, service.box.snapshot) == (NAME, "tools")
    assert service.box.labels["hermes-session"] == NAME
    assert service.box.blocked
    assert service.box.stops_after > 0


async def test_the_network_follows_the_settings(service: FakeDaytona, make: Make) -> None:
    await make(network=True).ready()
    assert not service.box.blocked
    await make(network=False).ready()
    assert service.box.blocked
    await make(network=False).ready()
    assert service.counted("network") == 1


async def test_a_sandbox_that_was_made_just_before_a_crash_is_found_by_its_name(
    service: FakeDaytona, make: Make, tmp_path: Path
) -> None:
    await make().ready()
    id = service.box.id
    (tmp_path / "daytona.json").unlink()
    await make().ready()
    assert service.box.id == id


async def test_a_sandbox_whose_making_was_not_heard_of_is_not_made_twice(
    service: FakeDaytona, make: Make
) -> None:
    service.forget_replies = True
    transport = make()
    with pytest.raises(HermesError, match="lost the connection"):
        await transport.ready()
    service.forget_replies = False
    await transport.ready()
    assert len(service.boxes) == 1
    assert await said(transport, "echo hi") == "hi\n"


async def test_it_rests_stopped_and_wakes_with_its_files(service: FakeDaytona, make: Make) -> None:
    transport, note = make(), f"{service.workspace(NAME)}/note"
    await transport.ready()
    await said(transport, f"echo kept > {note}")
    await transport.close()
    await transport.rest()
    assert service.box.state == SandboxState.STOPPED
    await transport.rest()
    with pytest.raises(ConnectionError):
        await transport.call(["true"])
    later = make()
    await later.ready()
    assert service.box.state == SandboxState.STARTED
    assert await said(later, f"cat {note}") == "kept\n"
    assert service.counted("create") == 1


async def test_a_sandbox_that_the_service_stopped_is_woken_by_asking_again(
    service: FakeDaytona, make: Make
) -> None:
    transport = make()
    await transport.ready()
    service.do(service.halt(service.box.id))
    with pytest.raises(ConnectionError, match="stopped"):
        await transport.call(["true"])
    await transport.ready()
    assert await said(transport, "echo hi") == "hi\n"


async def test_a_sandbox_is_kept_awake_while_it_is_used(service: FakeDaytona, make: Make) -> None:
    transport = make(every=0.01)
    await transport.ready()
    while service.counted("active") < 2:
        await asyncio.sleep(0.01)
    assert service.box.state == SandboxState.STARTED


async def test_a_sandbox_that_is_gone_is_replaced_and_the_loss_is_told(
    service: FakeDaytona, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    transport = make()
    await transport.ready()
    old = service.box.id
    service.do(service.lose(old))
    with pytest.raises(ConnectionError, match="lost the connection"):
        await transport.call(["true"])
    with caplog.at_level(logging.WARNING):
        await transport.ready()
    assert f"{old} of Daytona is gone with its files" in caplog.text
    assert service.box.id != old
    assert await said(transport, f"ls {service.workspace(NAME)}") == ""


async def test_a_broken_sandbox_is_told_and_not_replaced(service: FakeDaytona, make: Make) -> None:
    await make().ready()
    service.box.state = SandboxState.ERROR
    with pytest.raises(HermesError, match="its disk is full"):
        await make().ready()
    assert service.counted("create") == 1


async def test_a_snapshot_beyond_the_limits_is_told(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        await make(limits=Limits(memory_mb=512)).ready()
    assert "beyond its limits" in caplog.text


@pytest.mark.parametrize(
    ("code", "message", "said", "hint"),
    [
        (401, "Invalid credentials", "refused the key", "DAYTONA_API_KEY"),
        (403, "suspended", "refused the key", "DAYTONA_API_KEY"),
        (429, "slow down", "limits requests", "wait"),
        (400, "Snapshot tools not found", "Snapshot tools not found", "hermes terminals"),
        (500, "oh no", "Daytona failed", "again"),
    ],
)
async def test_what_the_service_refuses_is_a_sentence_with_a_way_out(
    service: FakeDaytona, make: Make, code: int, message: str, said: str, hint: str
) -> None:
    service.refuse = code, message
    with pytest.raises(HermesError, match=said) as raised:
        await make().ready()
    assert hint in raised.value.hint


async def test_a_service_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    environ = {"DAYTONA_API_KEY": "x", "DAYTONA_API_URL": "http://127.0.0.1:9/api"}
    transport = DaytonaTransport(DaytonaPlace(), SESSION, tmp_path, environ)
    with pytest.raises(HermesError, match="lost the connection") as raised:
        await transport.ready()
    assert "Daytona" in raised.value.hint
    await transport.close()


async def test_output_and_errors_of_any_size_come_back_apart_and_leave_no_file(
    service: FakeDaytona, make: Make
) -> None:
    transport = make()
    await transport.ready()
    for size in (0, INLINE // 2, INLINE):
        data = b"\xff\0\n\r" * (size // 4)
        done = await transport.call(["tee", "/dev/stderr"], data)
        assert (done.code, done.stdout, done.stderr) == (0, data, data)
    assert service.counted("download") == 2
    assert list(service.box.temporary.iterdir()) == []
    assert len(service.uploads) >= 2
    assert not any(path.exists() for path in service.uploads)


async def test_a_program_that_leaves_something_running_does_not_hold_a_call_up(
    make: Make,
) -> None:
    transport = make()
    await transport.ready()
    assert await said(transport, "sleep 1000 & echo $((1 + 1))") == "2\n"


async def test_a_snapshot_without_bash_is_told(service: FakeDaytona, make: Make) -> None:
    transport = make()
    await transport.ready()
    service.box.path = "/no/such/folder"
    with pytest.raises(HermesError, match="bash") as raised:
        await transport.call(["true"])
    assert "bash" in raised.value.hint


async def test_destroying_finds_it_by_its_name(
    service: FakeDaytona, make: Make, tmp_path: Path
) -> None:
    await make().ready()
    (tmp_path / "daytona.json").unlink()
    await make().destroy()
    assert service.boxes == {}
