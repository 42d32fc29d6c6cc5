"""The channel of the loop platform, as a real one would be written."""

import asyncio
import contextlib
import json
import uuid
from typing import Any

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import Chat, InboundMessage, OutboundMessage, Person
from hermes_agent.gateway.channel import (
    Channel,
    ChannelContext,
    CredentialsRejected,
    Manifest,
    SendError,
    SettingField,
    Settings,
)
from tests.support.patience import PATIENCE


def manifest(name: str, **more: Any) -> Manifest:
    given: dict[str, Any] = {
        "title": name.title(),
        "about": "A platform on this machine.",
        "fields": (
            SettingField("address", "where it is", required=True),
            SettingField("account", "whose messages"),
        ),
        "knows_twice": True,
        "proof": "round-trip",
        **more,
    }
    return Manifest(name=name, module=__name__, **given)


def make(settings: Settings, surroundings: ChannelContext) -> Channel:
    return LoopChannel(settings, surroundings)


class _Lost(HermesError):
    """The connection is gone."""


class LoopChannel:
    def __init__(self, settings: Settings, surroundings: ChannelContext) -> None:
        host, _, port = str(settings["address"]).rpartition(":")
        self._at = (host, int(port))
        self._account = str(settings["account"])
        self._around = surroundings
        self._echoes: dict[str, asyncio.Future[None]] = {}

    async def run(self) -> None:
        after = int(await self._around.mark() or 0)
        async with self._connected() as ask:
            while True:
                told = await ask({"do": "poll", "after": after})
                for update in _checked(told)["updates"]:
                    await self._take(update)
                    after = max(after, update["n"])

    async def _take(self, update: dict[str, Any]) -> None:
        if "echo" in update:
            waiting = self._echoes.pop(update["echo"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
            await self._around.save_cursor(str(update["n"]))
            return
        arrived = InboundMessage(
            update["id"],
            Chat(self._account, update["chat"], update.get("thread", "")),
            Person(update["person"], update["person"]),
            update["text"],
        )
        await self._around.receive(arrived, str(update["n"]))

    async def send(self, outgoing: OutboundMessage, key: str) -> str:
        message = {"do": "send", "chat": outgoing.chat.chat, "text": outgoing.text, "key": key}
        more = {"edit": outgoing.edit, "files": [one.name for one in outgoing.files]}
        try:
            async with self._connected() as ask:
                told = await ask({**message, **more})
        except ConnectionError as error:
            raise SendError(f"unreachable: {error}", channel=True) from None
        except _Lost as error:
            raise SendError(error.message, doubtful=True) from None
        try:
            return str(_checked(told)["id"])
        except CredentialsRejected as error:
            raise SendError(error.message, channel=True) from None

    async def typing(self, chat: Chat) -> None:
        """There is no such thing here."""

    async def probe(self) -> None:
        token = uuid.uuid4().hex
        heard = self._echoes[token] = asyncio.get_running_loop().create_future()
        try:
            async with self._connected() as ask:
                _checked(await ask({"do": "echo", "token": token}))
            await heard
        except ConnectionError as error:
            raise _Lost(f"unreachable: {error}") from None
        finally:
            self._echoes.pop(token, None)

    async def close(self) -> None:
        """Connections end with those who use them."""

    @contextlib.asynccontextmanager
    async def _connected(self) -> Any:
        reader, writer = await asyncio.open_connection(*self._at, limit=1 << 24)

        async def ask(asked: dict[str, Any]) -> dict[str, Any]:
            try:
                writer.write(json.dumps({**asked, "account": self._account}).encode() + b"\n")
                await writer.drain()
                async with asyncio.timeout(PATIENCE):
                    line = await reader.readline()
            except (ConnectionError, TimeoutError):
                line = b""
            if not line:
                raise _Lost("the connection was cut")
            found: dict[str, Any] = json.loads(line)
            return found

        try:
            yield ask
        finally:
            writer.transport.abort()


def _checked(told: dict[str, Any]) -> dict[str, Any]:
    match told["status"]:
        case 200:
            return told
        case 401:
            raise CredentialsRejected("the account is not accepted", "set it up again")
        case 429:
            raise SendError("too many at once", after=told["after"])
        case status:
            raise SendError(f"the platform broke ({status})")
