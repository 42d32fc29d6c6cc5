"""What the doctor says of channels: whether each is proven to hear, and whether somebody can be
asked there."""

from collections.abc import Iterator
from typing import Any, Literal

from hermes_agent.core.settings.root import Settings
from hermes_agent.core.text.terminal import clean

Report = tuple[Literal["ok", "info", "warn", "fail"], str, str]


def look(settings: Settings, status: dict[str, Any] | None) -> Iterator[Report]:
    """`status` is what a runtime that is up says of itself."""
    if status is None:
        names = [name for name, given in settings.channels.items() if given.get("enabled", True)]
        if names:
            listed = ", ".join(sorted(names))
            yield "warn", f"nobody is listening on {listed}: the runtime is not up", "`hermes up`"
        return
    gateway = status.get("gateway") or {}
    for name, row in (gateway.get("left") or {}).items():
        what = f"{name} is no longer configured; it left behind: {sum(row.values())}"
        yield "warn", what, f"`hermes gateway setup {name}`, or `hermes gateway dead --drop all`"
    for name, row in (gateway.get("channels") or {}).items():
        yield _of(name, row)
        for unknown in row.get("unknown", ()):
            what = f"{name}: there is no setting channels.{name}.{unknown}"
            yield "warn", what, "check the spelling in config.yaml"
        if row.get("asks") == []:
            yield (
                "warn", f"{name}: nobody can approve anything: no home chat, no owner",
                f"`hermes gateway pair {name} --role owner`, or set channels.{name}.home",
            )  # fmt: skip
        if row.get("dead") or row.get("set_aside"):
            given_up = row["dead"] + row["set_aside"]
            yield "warn", f"{name}: {given_up} given up", "`hermes gateway dead` lists them"


def _of(name: str, row: dict[str, Any]) -> Report:
    state, says, error = row["state"], clean(row.get("says", "")), clean(row["error"])
    if state == "up":
        return ("ok", f"{name}: {says}", "") if row["well"] else (
            ("info", f"{name}: not checked yet: {says}", f"`hermes gateway test {name}`")
        )  # fmt: skip
    what = f"{name}: {state}: {error or says}"
    if state in ("starting", "waiting"):
        return "warn", what, row["hint"] or f"`hermes gateway test {name}` tries it"
    return "fail", what, row["hint"] or f"`hermes gateway test {name}`; `hermes logs` says more"
