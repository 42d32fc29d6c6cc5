"""Where a browser may go. It outlives the calls that drive it, and none of them speaks for all."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from hermes_agent.core.tools import EgressCheck
from hermes_agent.tools.browser.tab import Tab


class Reaches:
    """The latest call says. What an earlier one was let to besides stays in reach as long as a tab
    shows a page of that host: the page goes on asking its server, whatever call comes next."""

    def __init__(self) -> None:
        self.tabs: Mapping[str, Tab] = {}
        self._now: EgressCheck = _nobody
        self._before: dict[str, EgressCheck] = {}

    def follow(self, reach: EgressCheck | None) -> None:
        """A new call drives the browser."""
        shown = self._shown()
        self._before = {host: said for host, said in self._before.items() if host in shown}
        self._now = reach or _nobody

    def __call__(self, host: str, address: str, public: bool) -> bool:
        if self._now(host, address, public):
            if not public:
                self._before[host] = self._now
            return True
        before = None if public else self._before.get(host)
        return before is not None and host in self._shown() and before(host, address, public)

    def _shown(self) -> set[str]:
        hosts = (urlsplit(tab.url).hostname for tab in self.tabs.values())
        return {host.rstrip(".") for host in hosts if host}


def _nobody(_host: str, _address: str, _public: bool) -> bool:
    return False
