"""A channel that is kept connected: made, run, begun again when it breaks, and seldom when it is
refused."""

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec.structs import replace

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import InboundMessage
from hermes_agent.core.messages import Media
from hermes_agent.core.supervise import backoff, first_of
from hermes_agent.gateway.channel import Channel, CredentialsRejected

log = logging.getLogger("hermes.gateway")

FIRST_SECONDS = 1.0
MAX_SECONDS = 300.0
STEADY_SECONDS = 10.0
"""A connection that held for so long, and for longer than was waited for it, was a good one."""
REFUSED_SECONDS = 3_600.0
"""How often one that is refused, or lacks something, is tried all the same: platforms err, too."""
CLOSE_SECONDS = 10.0

State = Literal["starting", "up", "waiting", "refused", "missing"]
"""`waiting`: it broke and is begun again in a while. `missing`: it lacks something to be made of.
`refused`: the platform does not accept us."""


class ChannelConnection:
    """`make` gives a new channel, or raises what it lacks."""

    def __init__(
        self,
        name: str,
        make: Callable[[], Channel],
        *,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        random: Callable[[], float],
        came_up: Callable[[], None],
    ) -> None:
        self.name = name
        self._make = make
        self._monotonic = monotonic
        self._sleep = sleep
        self._random = random
        self._came_up = came_up
        self._again = asyncio.Event()
        self.channel: Channel | None = None
        self.state: State = "starting"
        self.error = ""
        self.hint = ""

    async def run(self) -> None:
        """Live until cancelled."""
        failures, wait = 0, 0.0
        while True:
            self._again.clear()
            began = self._monotonic()
            stays = await self._live()
            held = self._monotonic() - began
            failures = 1 if held > max(STEADY_SECONDS, wait) else failures + 1
            if self._again.is_set():
                continue
            wait = backoff(failures, FIRST_SECONDS, MAX_SECONDS, self._random)
            seldom = REFUSED_SECONDS if stays else wait
            await first_of(self._again.wait(), self._sleep(seldom))

    def restart(self) -> None:
        """Begin again at once."""
        if self.channel is None:
            self.state = "starting"
        self._again.set()

    async def _live(self) -> bool:
        """One life of the channel; True when it hardly helps to begin again by itself."""
        self.state = "starting"
        try:
            channel = self._make()
        except HermesError as error:
            self._say("missing", error.message, error.hint)
            return True
        except Exception as error:
            log.exception("%s could not be made", self.name)
            self._say("missing", f"{type(error).__name__}: {error}", "`hermes logs` says more")
            return True
        running = asyncio.create_task(channel.run())
        try:
            self.channel = channel
            self._say("up")
            self._came_up()
            await first_of(asyncio.wait({running}), self._again.wait())
            if running.done():
                return self._ended(running)
            self._say("waiting", "it is begun again")
            return False
        finally:
            self.channel = None
            await self._close(channel, running)

    def _ended(self, running: asyncio.Task[None]) -> bool:
        error = None if running.cancelled() else running.exception()
        if isinstance(error, CredentialsRejected):
            self._say("refused", error.message, error.hint)
            return True
        if isinstance(error, HermesError):
            self._say("waiting", error.message, error.hint)
        elif error is not None:
            log.error("%s broke", self.name, exc_info=error)
            self._say("waiting", f"{type(error).__name__}: {error}")
        else:
            self._say("waiting", "the connection ended")
        return False

    async def _close(self, channel: Channel, running: asyncio.Task[None]) -> None:
        """A channel that hangs while it is closed is left behind."""
        for _ in range(2):  # the first is lost where something arrives in the same moment
            running.cancel()
            await asyncio.wait({running}, timeout=CLOSE_SECONDS / 2)
        if running.done() and not running.cancelled() and (error := running.exception()):
            log.debug("%s ended: %s", self.name, error)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await channel.close()
        except TimeoutError:
            log.warning("%s did not close in time", self.name)
        except Exception:
            log.exception("%s did not close", self.name)

    def _say(self, state: State, error: str = "", hint: str = "") -> None:
        if error and (state, error) != (self.state, self.error):
            log.warning("%s: %s", self.name, error)
        self.state, self.error, self.hint = state, error, hint


def clean(arrived: InboundMessage) -> InboundMessage:
    """What can be kept: platforms send halves of signs and times that are no numbers."""
    with contextlib.suppress(UnicodeEncodeError):
        for text in _texts(arrived):
            text.encode()
        if math.isfinite(arrived.time):
            return arrived
    chat, person = arrived.chat, arrived.person
    return replace(
        arrived,
        id=_whole(arrived.id),
        chat=replace(chat, chat=_whole(chat.chat), thread=_whole(chat.thread)),
        person=replace(person, id=_whole(person.id), name=_whole(person.name)),
        text=_whole(arrived.text),
        files=tuple(_media(one) for one in arrived.files),
        voice=tuple(_media(one) for one in arrived.voice),
        reply_to=_whole(arrived.reply_to),
        time=arrived.time if math.isfinite(arrived.time) else 0.0,
    )


def _texts(arrived: InboundMessage) -> list[str]:
    chat, person = arrived.chat, arrived.person
    media = [text for one in (*arrived.files, *arrived.voice) for text in (one.type, one.name)]
    own = [arrived.id, arrived.text, arrived.reply_to]
    return [*own, chat.chat, chat.thread, person.id, person.name, *media]


def _media(media: Media) -> Media:
    return replace(media, type=_whole(media.type), name=_whole(media.name))


def _whole(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
