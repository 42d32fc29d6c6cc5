"""A platform on this machine, of a trivial protocol (lines of JSON over TCP), whose servers and
lines are as bad as wanted: answers get lost, connections are cut, it is busy, it breaks, it sends
things twice, and it can be connected and silent."""

import asyncio
import contextlib
import json
import random
from typing import Any

Update = dict[str, Any]
MAX_POLL = 0.5


class LoopPlatform:
    """What is said to the agent stays until a later poll shows that it was read. What the agent
    sends is in `sent`, by account."""

    def __init__(self, *, seed: int = 1) -> None:
        self.chance = random.Random(seed)
        self.forgetful: set[str] = set()
        """Accounts where a key that comes again is another message."""
        self.updates: dict[str, list[Update]] = {}
        self.sent: dict[str, list[Update]] = {}
        self.attempts = 0
        self.cut = self.lost = self.busy = self.broken = self.twice = 0.0
        """How often a connection is cut before anything happens, an answer is lost after it did,
        429 and 500 are answered, and an update comes once more."""
        self.deaf: set[str] = set()
        """Accounts that are connected and get nothing."""
        self.refused: set[str] = set()
        self.down = False
        self.retry_after = 0.02
        self.troubles: dict[str, int] = {}
        self._ahead: dict[str, float] = {}
        """How far off the next trouble of each kind is."""
        self._keys: dict[tuple[str, str], str] = {}
        self._numbers: dict[str, int] = {}
        self._changed = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self.address = ""

    async def __aenter__(self) -> "LoopPlatform":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 24)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.down = True
        self._wake()
        self.cut_all()
        while self._writers:
            await asyncio.sleep(0.001)

    def settings(self, account: str, **more: Any) -> dict[str, Any]:
        """What stands in `channels:` for an account here."""
        return {"address": self.address, "account": account, **more}

    def say(self, account: str, chat: str, text: str, person: str = "p1", **more: Any) -> str:
        """Somebody writes; the id of the message."""
        number = self._numbers[account] = self._numbers.get(account, 0) + 1
        id = f"{account}-{number}"
        update = {"n": number, "id": id, "chat": chat, "person": person, "text": text, **more}
        self.updates.setdefault(account, []).append(update)
        self._wake()
        return id

    def texts(self, account: str, chat: str) -> list[str]:
        return [one["text"] for one in self.sent.get(account, []) if one["chat"] == chat]

    def cut_all(self) -> None:
        for writer in tuple(self._writers):
            writer.transport.abort()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, met: Any, seconds: float = 60.0) -> None:
        """Wait until something is true of what was sent."""
        async with asyncio.timeout(seconds):
            while not met():
                await asyncio.sleep(0.01)

    def _happens(self, what: str, share: float) -> bool:
        """As often as its share says on the whole, and never longer away than twice as long: a
        storm has all troubles, in whatever order its messages come."""
        if share <= 0:
            return False
        left = self._ahead.get(what, self.chance.uniform(0, 2)) - share
        happens = left <= 0
        self._ahead[what] = left + self.chance.uniform(0, 2) if happens else left
        if happens:
            self.troubles[what] = self.troubles.get(what, 0) + 1
        return happens

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while not self.down and (line := await reader.readline()):
                asked = json.loads(line)
                self.attempts += asked["do"] == "send"
                # Polls are many, and a connection that breaks takes a while to come back.
                rare = 1.0 if asked["do"] == "send" else 0.2
                if self._happens("cut", self.cut * rare):
                    break
                told = self._trouble(asked, rare) or await self._answer(asked)
                if asked["do"] == "send" and self._happens("lost", self.lost):
                    break
                writer.write(json.dumps(told).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    def _trouble(self, asked: Update, rare: float) -> Update | None:
        if asked["account"] in self.refused:
            return {"status": 401}
        if self._happens("429", self.busy * rare):
            return {"status": 429, "after": self.retry_after}
        if self._happens("500", self.broken * rare):
            return {"status": 500}
        return None

    async def _answer(self, asked: Update) -> Update:
        match asked["do"]:
            case "poll":
                return await self._poll(asked)
            case "echo":
                self.say(asked["account"], "", "", echo=asked["token"])
                return {"status": 200}
            case _:
                return {"status": 200, "id": self._keep(asked)}

    async def _poll(self, asked: Update) -> Update:
        account, after = asked["account"], asked["after"]
        waiting = self.updates.setdefault(account, [])
        waiting[:] = [one for one in waiting if one["n"] > after]
        changed = self._changed
        if account in self.deaf or not waiting:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), MAX_POLL)
        found = [] if account in self.deaf else waiting[:50]
        updates = [
            one for found_one in found
            for one in [found_one] * (1 + self._happens("twice", self.twice))
        ]  # fmt: skip
        return {"status": 200, "updates": updates}

    def _keep(self, asked: Update) -> str:
        account = asked["account"]
        known = self._keys.get((account, asked["key"]))
        if known is not None and account not in self.forgetful:
            return known
        sent = self.sent.setdefault(account, [])
        id = self._keys[account, asked["key"]] = f"s{len(sent) + 1}"
        sent.append({**asked, "id": id})
        self._wake()
        return id
