"""How a turn ended, as commands collect it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass


def collect(event: dict[str, Any], outcome: dict[str, Any]) -> None:
    match event["kind"]:
        case "call_parked":
            outcome["parked"].append(event["effect"])
        case "turn_finished":
            for key in ("text", "reason", "error", "hint", "steps", "usage", "cost", "seconds"):
                outcome[key] = event[key]
