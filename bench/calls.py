"""`python -m bench.calls`: makes the calls that standard input lists and prints how many TLS
contexts there are then. Nothing but the package is imported, so that none is anybody else's."""

import asyncio
import gc
import ssl
import sys
from importlib import import_module

import msgspec
from msgspec import Struct

from hermes_agent.core.messages import Prompt, Reply, Request, UserMessage
from hermes_agent.models.wires.base import Credential, Endpoint, WireClient

REQUEST = Request(Prompt("Be brief."), (UserMessage("hi"),))


class Calls(Struct, frozen=True):
    module: str
    endpoint: Endpoint
    credential: Credential
    times: int


async def ask(speaker: WireClient, credential: Credential) -> None:
    """Hear one answer to its end."""
    chunks = [chunk async for chunk in speaker.stream(REQUEST, credential)]
    assert isinstance(chunks[-1], Reply)


async def main() -> int:
    speakers = []
    for calls in msgspec.json.decode(sys.stdin.buffer.read(), type=list[Calls]):
        speaker: WireClient = import_module(calls.module).open_client(calls.endpoint)
        speakers.append(speaker)
        for _ in range(calls.times):
            await ask(speaker, calls.credential)
    contexts = sum(isinstance(each, ssl.SSLContext) for each in gc.get_objects())
    for speaker in speakers:
        await speaker.close()
    return contexts


if __name__ == "__main__":
    print(asyncio.run(main()))
