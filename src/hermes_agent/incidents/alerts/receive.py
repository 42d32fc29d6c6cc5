"""Takes alerts from other systems over HTTP."""

from hashlib import sha256

from msgspec import Struct
from starlette.responses import Response

from hermes_agent.core.errors import UsageError
from hermes_agent.core.incidents import (
    IngestResult,
    Severity,
    Signal,
)
from hermes_agent.host.responses import body_of, reply
from hermes_agent.incidents.alerts.ingest import Intake


class OutsideSignal(Struct, forbid_unknown_fields=True):
    """What anybody with the token may say is wrong."""

    title: str
    fingerprint: str = ""
    service: str = ""
    severity: Severity = "P2"
    firing: bool = True
    detail: str = ""
    owner: str = ""
    labels: dict[str, str] = {}

    def signal(self) -> Signal:
        if not self.title.strip():
            raise UsageError("the signal has no title", "say in a few words what looks wrong")
        same = self.fingerprint or sha256(f"{self.title}\0{self.service}".encode()).hexdigest()[:16]
        return Signal(
            "person", f"person:{same}", self.title, self.service,
            self.severity, self.firing, self.detail, 0.0, self.owner, self.labels,
        )  # fmt: skip


async def raised_outside(intake: Intake, body: bytes) -> Response:
    signal = body_of(body, OutsideSignal).signal()
    return reply(await intake.raise_signal(signal), 202)


async def raised_by(intake: Intake, kind: str, body: bytes) -> Response:
    """The signals of a webhook: what became of each."""
    from hermes_agent.incidents.alerts.formats import signals_of

    taken: list[IngestResult] = [
        await intake.raise_signal(signal) for signal in signals_of(kind, body)
    ]
    return reply({"taken": taken}, 202)
