"""Caches facts about rooms: members, our own messages, and the private room for probes."""

from collections import OrderedDict

from hermes_agent.core.errors import HermesError
from hermes_agent.gateway.channels.matrix.wire import MatrixClient, MatrixError

OWN = "org.hermes-agent.room"
"""The account data that names our private room."""
KNOWN = 10_000


class Rooms:
    def __init__(self, wire: MatrixClient) -> None:
        self._wire = wire
        self._members: dict[str, dict[str, str]] = {}
        self._ours: OrderedDict[str, bool] = OrderedDict()
        self._own = ""

    def changed(self, room: str) -> None:
        """The members changed."""
        self._members.pop(room, None)

    async def is_group(self, room: str) -> bool:
        return len(await self._in(room)) > 2

    async def name(self, room: str, person: str) -> str:
        return (await self._in(room)).get(person, "") or person

    async def _in(self, room: str) -> dict[str, str]:
        if room not in self._members:
            try:
                found = await self._wire.call("GET", "/rooms/{}/joined_members", room)
            except MatrixError as error:
                if error.status not in (403, 404):  # or a group could pass for a private chat
                    raise
                return {}  # we have left
            joined = found.get("joined")
            members = joined if isinstance(joined, dict) else {}
            self._members[room] = {
                id: str((facts or {}).get("display_name") or "") for id, facts in members.items()
            }
        return self._members[room]

    async def is_ours(self, room: str, event: str, me: str) -> bool:
        """Whether a message is one of our own."""
        if not event:
            return False
        if event not in self._ours:
            try:
                found = await self._wire.call("GET", "/rooms/{}/event/{}", room, event)
            except MatrixError:
                return False
            self._ours[event] = found.get("sender") == me
            while len(self._ours) > KNOWN:
                self._ours.popitem(last=False)
        return self._ours[event]

    async def own(self, me: str) -> str:
        """The private room, created if there is none."""
        if self._own:
            return self._own
        path = "/user/{}/account_data/{}"
        try:
            found = await self._wire.call("GET", path, me, OWN)
            self._own = str(found.get("room", ""))
        except MatrixError as error:
            if error.status != 404:
                raise
        if not self._own:
            body = {"preset": "private_chat", "name": "Hermes: probes"}
            made = await self._wire.call("POST", "/createRoom", json=body)
            room = str(made.get("room_id", ""))
            if not room:
                raise HermesError("the homeserver did not create a room")
            await self._wire.call("PUT", path, me, OWN, json={"room": room})
            self._own = room
        return self._own
