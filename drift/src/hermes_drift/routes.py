"""The routes of drift audits."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from hermes_agent.core.errors import UsageError
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.policy_shell import PolicyShells
from hermes_agent.host.responses import body_of, reply
from hermes_agent.learning.service import Learning

if TYPE_CHECKING:
    from hermes_agent.runtime.services import Row
    from hermes_drift.service import Drift


class NewAudit(Struct, forbid_unknown_fields=True):
    repository: str
    scopes: tuple[str, ...] = ()
    terminal: str = ""
    ref: str = ""
    policy: str = ""


class DriftDecision(Struct, forbid_unknown_fields=True):
    says: Literal["accepted", "rejected"]
    why: str = ""
    by: str = "cli"


class DriftApi:
    def __init__(self, context: RuntimeContext, shells: PolicyShells, learning: Learning) -> None:
        self._context = context
        self._shells = shells
        self._learning = learning

    def table(self) -> "Sequence[Row]":
        return (
            ("GET", "/v1/drift", self.drift_audits),
            ("POST", "/v1/drift", self.drift_run),
            ("GET", "/v1/drift/{id}", self.drift_show),
            ("POST", "/v1/drift/{id}", self.drift_decide),
        )

    @cached_property
    def _drift(self) -> "Drift":
        from hermes_drift.service import Drift

        return Drift(self._context, self._shells, self._learning)

    async def drift_audits(self, request: Request) -> Response:
        return reply(self._drift.listed())

    async def drift_run(self, request: Request) -> Response:
        new = body_of(await request.body(), NewAudit)
        audit = await self._drift.run(new.repository, new.scopes, new.terminal, new.ref, new.policy)
        return reply(whole(audit))

    async def drift_show(self, request: Request) -> Response:
        """An audit, or one finding of it."""
        id = request.path_params["id"]
        if "." in id:
            return reply(whole(self._drift.audits.finding(id)[1]))
        return reply(whole(self._drift.audits.audit(id)))

    async def drift_decide(self, request: Request) -> Response:
        new = body_of(await request.body(), DriftDecision)
        if new.says == "accepted" and not new.why.strip():
            raise UsageError("a reason is required", "hermes drift accept ID --why TEXT")
        id = request.path_params["id"]
        pattern = await self._drift.decide(id, new.says, new.why.strip(), new.by)
        return reply(whole(pattern))


def whole(value: Struct) -> object:
    """As JSON, with the defaults that the saved form leaves out."""
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    return {name: _plain(inner) for name, inner in fields.items()}


def _plain(value: object) -> object:
    if isinstance(value, Struct):
        return whole(value)
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return msgspec.to_builtins(value)
