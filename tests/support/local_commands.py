"""Looks at this machine, as the runtime's do, without a gate."""

import asyncio
from collections.abc import Mapping

from hermes_agent.core.command_results import CommandOutcome
from hermes_agent.incidents.response.verification import RunCommand


def local_runner(moved: Mapping[str, str] | None = None) -> RunCommand:
    """`moved`: what stands for a folder in commands."""

    async def run(command: str, timeout: float | None) -> CommandOutcome:  # noqa: ASYNC109
        for name, path in (moved or {}).items():
            command = command.replace(name, path)
        made = await asyncio.create_subprocess_exec(
            "bash", "-c", command, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await asyncio.wait_for(made.communicate(), timeout or 60)
        return CommandOutcome(made.returncode, output.decode(errors="replace"))

    return run
