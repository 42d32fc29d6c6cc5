"""What every transport does, whatever machine it reaches. One suite for all of them."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from hermes_agent.terminals.transport import ByteStream
from tests.support.apptainer import apptainer_way
from tests.support.cluster import kubernetes_way
from tests.support.dockerd import docker_way
from tests.support.drill_box import box_way
from tests.support.fake_transports import daytona_way, e2b_way, modal_way
from tests.support.podman import podman_way
from tests.support.sandboxes import landlock_way, sandbox_way
from tests.support.sshd import ssh_way
from tests.support.transports import Way, subprocess_way

WAYS: dict[str, Callable[[Path], AbstractAsyncContextManager[Way]]] = {
    "local": subprocess_way,
    "ssh": ssh_way,
    "sandbox": sandbox_way,
    "landlock": landlock_way,
    "box": box_way,
    "docker": docker_way,
    "podman": podman_way,
    "kubernetes": kubernetes_way,
    "apptainer": apptainer_way,
    "modal": modal_way,
    "e2b": e2b_way,
    "daytona": daytona_way,
}
SLOW = {"podman", "kubernetes", "apptainer"}
"""Ways that only `make test-all` goes."""
PATIENT = (pytest.mark.slow, pytest.mark.timeout(400))


@pytest.fixture(params=[pytest.param(name, marks=PATIENT if name in SLOW else ()) for name in WAYS])
async def way(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Way]:
    async with WAYS[request.param](tmp_path) as made:
        await made.transport.ready()
        yield made


async def test_a_program_gets_its_words_as_they_are(way: Way) -> None:
    words = ["", "a  b", "$HOME", "'", '"', "*", "`x`", "\\", "a\nb", "é漢", "--"]
    done = await way.transport.call(["bash", "-c", r"""printf '%s\0' "$@" """, "name", *words])
    assert (done.code, done.stderr) == (0, b"")
    assert done.stdout.decode().split("\0")[:-1] == words


async def test_the_exit_code_comes_back(way: Way) -> None:
    for code in (0, 1, 7, 127, 255):
        assert (await way.transport.call(["bash", "-c", f"exit {code}"])).code == code


async def test_a_program_that_is_not_there_has_an_exit_code_that_says_so(way: Way) -> None:
    assert (await way.transport.call(["no-such-program"])).code in (126, 127)


async def test_a_call_keeps_output_and_errors_apart(way: Way) -> None:
    done = await way.transport.call(["bash", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.code, done.stdout, done.stderr) == (3, b"out\n", b"err\n")


async def test_a_call_without_input_finds_it_ended(way: Way) -> None:
    assert (await way.transport.call(["cat"])).stdout == b""


async def test_megabytes_of_any_bytes_go_both_ways_in_a_call(way: Way) -> None:
    data = bytes(range(256)) * 12_000
    done = await way.transport.call(["cat"], data)
    assert done.code == 0
    assert done.stdout == data


async def test_input_that_is_not_read_to_its_end_does_not_hold_a_call_up(way: Way) -> None:
    done = await way.transport.call(["bash", "-c", "read -r line; echo $line"], b"a\n" * 300_000)
    assert (done.code, done.stdout) == (0, b"a\n")


async def test_many_calls_at_once_do_not_mix(way: Way) -> None:
    async def ask(number: int) -> bytes:
        return (await way.transport.call(["cat"], b"%d" % number * 1000)).stdout

    assert await asyncio.gather(*map(ask, range(12))) == [b"%d" % n * 1000 for n in range(12)]


async def test_a_channel_carries_bytes_both_ways_as_they_come(way: Way) -> None:
    channel = await started(way, "cat")
    if channel is None:
        return
    for part in (b"one\n", bytes(range(256)), b"\n" * 3):
        await channel.write(part)
        assert await exactly(channel, len(part)) == part
    await channel.close()


async def test_a_channel_carries_megabytes(way: Way) -> None:
    channel = await started(way, "cat")
    if channel is None:
        return
    data = os.urandom(2_000_000)
    reading = asyncio.create_task(exactly(channel, len(data)))
    for place in range(0, len(data), 100_000):
        await channel.write(data[place : place + 100_000])
    assert await reading == data
    await channel.close()


async def test_the_end_of_the_program_ends_the_channel(way: Way) -> None:
    channel = await started(way, "bash", "-c", "echo out; echo err >&2")
    if channel is None:
        return
    assert await rest(channel) == b"out\n"
    assert await channel.read() == b""
    await channel.close()


async def test_a_program_sees_the_end_of_its_input_when_the_channel_is_closed(way: Way) -> None:
    mark = f"{way.folder}/ended"
    channel = await started(way, "bash", "-c", f"cat; echo > {mark}")
    if channel is None:
        return
    await channel.close()
    while (await way.transport.call(["test", "-e", mark])).code:
        await asyncio.sleep(0.01)
    assert (await way.transport.call(["test", "-e", mark])).code == 0


async def test_calls_and_channels_run_beside_each_other(way: Way) -> None:
    channels = [await started(way, "cat") for _ in range(3)]
    for number, channel in enumerate(channels):
        if channel is not None:
            await channel.write(b"%d" % number)
    assert (await way.transport.call(["echo", "hi"])).stdout == b"hi\n"
    for number, channel in enumerate(channels):
        if channel is not None:
            assert await exactly(channel, 1) == b"%d" % number
            await channel.close()


async def test_a_cut_way_is_seen_by_whoever_uses_it(way: Way) -> None:
    channel = await started(way, "cat")
    if channel is None:
        return
    await channel.write(b"x")
    assert await exactly(channel, 1) == b"x"
    await way.transport.close()
    try:
        assert await rest(channel) == b""
        for _ in range(1000):
            await channel.write(b"x")
            await asyncio.sleep(0)
    except ConnectionError:
        pass
    else:
        raise AssertionError("a channel without a way took everything")


async def test_a_transport_serves_again_after_it_was_closed(way: Way) -> None:
    await way.transport.close()
    await way.transport.close()
    await way.transport.ready()
    assert (await way.transport.call(["echo", "hi"])).stdout == b"hi\n"


async def test_the_place_and_what_runs_there_outlive_the_connection(way: Way) -> None:
    """Found again by a transport made with the same arguments."""
    note = f"{way.folder}/note"
    begun = f"echo kept > {note}; (while [ ! -e {note}.go ]; do sleep 0.05; done; echo > {note}.on)"
    await way.transport.call(["bash", "-c", f"({begun}) </dev/null >/dev/null 2>&1 &"])
    await way.transport.close()
    later = way.again()
    await later.ready()
    while (await later.call(["cat", note])).stdout != b"kept\n":
        await asyncio.sleep(0.01)
    await later.call(["touch", f"{note}.go"])
    while (await later.call(["test", "-e", f"{note}.on"])).code:
        await asyncio.sleep(0.01)
    assert (await later.call(["test", "-e", f"{note}.on"])).code == 0


async def test_resting_loses_no_file(way: Way) -> None:
    note = f"{way.folder}/note"
    await way.transport.call(["bash", "-c", f"echo kept > {note}"])
    await way.transport.rest()
    await way.transport.ready()
    assert (await way.transport.call(["cat", note])).stdout == b"kept\n"


async def test_a_place_can_be_destroyed_twice_and_by_somebody_else(way: Way) -> None:
    await way.transport.destroy()
    await way.transport.destroy()
    later = way.again()
    await later.destroy()
    await later.close()
    assert later is not way.transport


async def started(way: Way, *argv: str) -> ByteStream | None:
    channel = await way.transport.start(list(argv))
    assert (channel is not None) == way.channels
    return channel


async def exactly(channel: ByteStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = await channel.read()
        assert part != b"", f"ended after {len(data)} of {size} bytes"
        data += part
    return data


async def rest(channel: ByteStream) -> bytes:
    data = b""
    while part := await channel.read():
        data += part
    return data
