"""Instances of Apptainer. The suites of transports and of terminals go over them too."""

import asyncio
import json
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import ApptainerPlace
from hermes_agent.terminals import apptainer
from hermes_agent.terminals.transport import Transport
from tests.support.apptainer import apptainer_place, environment

slow = pytest.mark.slow
Make = Callable[[ApptainerPlace], Transport]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Transports of one session; what they made is removed afterwards."""
    session = uuid.uuid4().hex
    made: list[Transport] = []

    def transport(place: ApptainerPlace) -> Transport:
        made.append(
            apptainer.transport(
                place, session=session, workspace="", folder=tmp_path, environ=environment()
            )
        )
        return made[-1]

    yield transport
    await made[0].destroy()
    for each in made:
        await each.close()


async def said(transport: Transport, script: str) -> str:
    return (await transport.call(["bash", "-c", f"exec 2>&1; {script}"])).stdout.decode()


def instances(name: str) -> int:
    command = [apptainer_place().program, "instance", "list", "--json", name]
    listed = subprocess.run(command, capture_output=True, check=True)
    return len(json.loads(listed.stdout)["instances"])


async def name_of(transport: Transport) -> str:
    return await said(transport, "printf %s $APPTAINER_INSTANCE")


@slow
async def test_commands_have_no_privileges_and_are_not_root(make: Make) -> None:
    box = make(apptainer_place())
    await box.ready()
    status = await said(box, "cat /proc/self/status")
    for line in ("Uid:\t1000\t1000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000",
                 "NoNewPrivs:\t1"):  # fmt: skip
        assert line in status
    assert "denied" in await said(box, "echo x > /proc/sys/kernel/core_pattern")
    assert "Read-only file system" in await said(box, "touch /bin/x")


@slow
async def test_neither_files_nor_processes_nor_variables_of_the_host_are_inside(
    make: Make, tmp_path: Path
) -> None:
    (tmp_path / "of the host").touch()
    box = make(apptainer_place())
    await box.ready()
    assert await said(box, f"ls {tmp_path} >/dev/null && echo there") != "there\n"
    assert "SECRET_TOKEN" not in await said(box, "env")
    assert "pytest" not in await said(box, "ps")


@slow
async def test_there_is_no_network_unless_it_is_granted(make: Make) -> None:
    box = make(apptainer_place())
    await box.ready()
    assert "127.0.0.1" in await said(box, "ip -o -4 addr")
    assert len((await said(box, "ip -o link")).splitlines()) == 1
    await box.destroy()
    granted = make(msgspec.structs.replace(apptainer_place(), network=True))
    await granted.ready()
    here = await said(granted, "cat /proc/net/dev")
    assert here.count(":") == Path("/proc/net/dev").read_text().count(":")


@slow
async def test_some_that_come_at_once_share_one_instance(make: Make) -> None:
    one, other, third = (make(apptainer_place()) for _ in range(3))
    await asyncio.gather(one.ready(), other.ready(), third.ready())
    await one.call(["touch", "/workspace/mark"])
    assert (await other.call(["ls", "/workspace"])).stdout == b"mark\n"
    assert instances(await name_of(one)) == 1


@slow
async def test_an_instance_that_died_is_replaced_and_the_files_are_there(make: Make) -> None:
    box = make(apptainer_place())
    await box.ready()
    await box.call(["bash", "-c", "echo kept > /workspace/a; echo kept > ~/b"])
    name = await name_of(box)
    stop = [apptainer_place().program, "instance", "stop", "--signal", "KILL", name]
    channel = await box.start(["cat"])
    assert channel is not None
    await asyncio.to_thread(subprocess.run, stop, check=True, capture_output=True)
    assert await channel.read() == b""
    await channel.close()
    with pytest.raises(ConnectionError):
        await box.call(["true"])
    await box.ready()
    assert await said(box, "cat /workspace/a ~/b") == "kept\nkept\n"


@slow
async def test_destroying_leaves_neither_an_instance_nor_a_folder(
    make: Make, tmp_path: Path
) -> None:
    box = make(apptainer_place())
    await box.ready()
    name = await name_of(box)
    await box.call(["bash", "-c", "mkdir -p d/e; touch d/e/f; chmod 500 d/e; chmod 500 d"])
    await box.destroy()
    assert instances(name) == 0
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConnectionError):
        await box.call(["true"])


@slow
async def test_an_image_that_is_none_is_named_with_what_the_program_says(
    make: Make, tmp_path: Path
) -> None:
    image = tmp_path / "not.sif"
    image.write_text("hello")
    with pytest.raises(HermesError, match=r"no instance of .*not\.sif.* could be started: \w"):
        await make(msgspec.structs.replace(apptainer_place(), image=str(image))).ready()


@slow
async def test_a_place_that_can_be_used_has_nothing_missing() -> None:
    assert await apptainer.check(apptainer_place(), environment()) == ""


async def test_a_program_that_is_not_installed_is_named(tmp_path: Path) -> None:
    place = ApptainerPlace(image=__file__, program="no-such-apptainer")
    assert "'no-such-apptainer' is not installed" in await apptainer.check(place, environment())
    assert "install Apptainer" in await apptainer.check(None, {"PATH": str(tmp_path)})
    box = apptainer.transport(
        place, session="s", workspace="", folder=tmp_path, environ=environment()
    )
    with pytest.raises(HermesError, match="is not installed"):
        await box.ready()


async def test_an_image_that_is_not_there_is_named(tmp_path: Path) -> None:
    place = ApptainerPlace(image="~/none.sif", program="sh")
    found = await apptainer.check(place, {"PATH": environment()["PATH"], "HOME": str(tmp_path)})
    assert "no image at '~/none.sif'" in found
    (tmp_path / "none.sif").touch()
    assert await apptainer.check(place, {**environment(), "HOME": str(tmp_path)}) == ""
