"""The gateway as a service of the runtime: its channels and its routes."""

from collections.abc import Sequence

from hermes_agent.gateway.service import ChannelHost
from hermes_agent.runtime.services import Row


class Gateway(ChannelHost):
    """One per runtime."""

    def table(self) -> Sequence[Row]:
        from hermes_agent.gateway.people_routes import PeopleApi
        from hermes_agent.gateway.routes import Routes

        people = PeopleApi(self.context, self._outbound, lambda: self.router)
        return [*Routes(self).table(), *people.table()]

    def public(self) -> Sequence[Row]:
        from hermes_agent.gateway.routes import Routes

        return Routes(self).public()
