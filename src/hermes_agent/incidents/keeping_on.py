"""Work that goes on for as long as the runtime lives, whatever goes wrong in one round."""

import logging
from collections.abc import Awaitable, Callable

from hermes_agent.core.errors import HermesError

log = logging.getLogger("hermes.incidents")


async def supervise(
    what: str, step: Callable[[], Awaitable[None]], pause: Callable[[], Awaitable[None]]
) -> None:
    """One round after another. The same expected trouble is said once."""
    said = ""
    while True:
        try:
            await step()
            said = ""
        except HermesError as error:
            if error.message != said:
                log.warning("%s waits: %s", what, error.message)
            said = error.message
        except Exception:
            log.exception("%s failed; it goes on", what)
        await pause()
