"""Tries a channel for real."""

from urllib.parse import quote

from hermes_agent.cli.actions import runtime as started
from hermes_agent.cli.output.formatting import print_json
from hermes_agent.core.text.terminal import clean


def tested(channel: str, *, json: bool) -> int:
    """Try a channel for real; 1 when it is not proven to hear."""
    told = started().post(f"/v1/gateway/{quote(channel, safe='')}/test")
    if json:
        print_json(told)
    elif told["proven_now"]:
        proves = "what is sent to it arrives" if told["proof"] == "round-trip" else "it answers"
        print(f"{channel}: proven just now: {proves}")
    else:
        print(f"{channel}: not proven: {clean(str(told['error']))}")
        hint = told.get("hint") or "it is begun again by itself; `hermes logs` may say more"
        print(f"hint: {clean(str(hint))}")
    return 0 if told["proven_now"] else 1
