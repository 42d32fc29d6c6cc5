"""Only the time counts in which we are awake."""

import asyncio

import pytest

from hermes_agent.core.timeouts import awake
from tests.support.awake_loop import stand_still


async def test_what_takes_longer_is_ended() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(TimeoutError):
        async with awake(0.2):
            await asyncio.Event().wait()
    assert loop.time() - began >= 0.2


async def test_what_came_while_we_stood_still_came_in_time() -> None:
    arrived = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.call_soon(stand_still, 1.0)
    async with awake(0.5):
        await asyncio.sleep(0)
        loop.call_soon(arrived.set)
        await arrived.wait()
        await asyncio.sleep(0.001)  # nor does what is done with it take long
    assert arrived.is_set()


async def test_nobody_is_ended_who_is_done() -> None:
    async with awake(0.05):
        pass
    assert await asyncio.sleep(0.2, "undisturbed") == "undisturbed"


async def test_a_limit_inside_ends_what_is_inside_of_it_alone() -> None:
    async with awake(1000):
        with pytest.raises(TimeoutError):
            async with awake(0.01):
                await asyncio.Event().wait()
        await asyncio.sleep(0)
