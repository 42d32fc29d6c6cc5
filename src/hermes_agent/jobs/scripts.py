"""Runs the scripts of jobs: commands on the job's terminal, judged by the gate. The shell daemon
keeps each under its own name, so that the next runtime can find out what became of it."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.effects import Actor, Effect, Verdict, outside_calls
from hermes_agent.core.errors import NotFound, OutcomeUnknown, UsageError
from hermes_agent.core.jobs import JOBS, Job, Run
from hermes_agent.core.protocols import CommandState, ShellCommand, Terminal
from hermes_agent.core.records import Session
from hermes_agent.core.text.format import span
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.policy_shell import (
    NotAllowed,
    PolicyShells,
    as_allowed,
    synthetic_session,
)
from hermes_agent.jobs.messages import cut, title
from hermes_agent.policy.path_resolvers import on_disk
from hermes_agent.terminals.registry import kind_of

HERE = ("local", "sandbox")
"""Kinds of terminals that work in a folder of this machine."""
LOST = "the outcome of its script is unknown"
SHOWN = 20_000
"""Characters of its output that are used."""

Builtin = Callable[[], Awaitable[str]]


class ScriptOutput(Struct, frozen=True):
    """The output of a script that has ended."""

    text: str
    wakes: bool
    """Whether to wake the agent, or deliver the result."""
    error: str = ""
    """Why it failed."""


class Scripts:
    """`builtins` are functions of the runtime that a job can name in place of a script; each may
    run twice without harm."""

    def __init__(
        self, context: RuntimeContext, shells: PolicyShells, builtins: Mapping[str, Builtin]
    ) -> None:
        self._context = context
        self._shells = shells
        self._builtins = builtins
        self._at_work: dict[int, Terminal] = {}

    async def builtin(self, job: Job) -> ScriptOutput:
        text = job.spec.prompt if job.spec.is_reminder else await self._act(job)()
        return ScriptOutput(text, bool(text))

    def _act(self, job: Job) -> Builtin:
        act = self._builtins.get(job.spec.script)
        if act is None:
            known = ", ".join(sorted(self._builtins))
            raise UsageError(f"no builtin {job.spec.script!r}", f"available: {known}")
        return act

    async def run(self, job: Job, run: Run, seconds: float, *, fresh: bool) -> ScriptOutput:
        """Run the script, or wait for it if an earlier runtime started it. `OutcomeUnknown` if
        nobody can tell what became of it."""
        await self.folder(job)
        session = self._stand_in(job, f"run-{run.id}")
        name = session.terminals[0]
        terminal = self._shells.terminals.terminals(session)[name]
        command = ShellCommand(f"script-{run.attempts}", job.spec.script, seconds)
        self._at_work[run.id] = terminal
        try:
            known = "not-run" if fresh else await terminal.recover(command)
            if known is None:
                raise OutcomeUnknown(LOST, f"`hermes task decide {run.id} done|again|failed`")
            if isinstance(known, str):
                folder = await terminal.where()
                effect = self._effect(job, session, terminal.workspace, folder, job.spec.script)
                verdict = await self._shells.require_allowed(session, effect, terminal.trace)
                outside = outside_calls(self._shells.gate(session), effect, terminal.trace)
                known = await terminal.run(as_allowed(command, verdict, outside))
        finally:
            self._at_work.pop(run.id, None)
        if known.state in ("lost", "running"):
            raise OutcomeUnknown(LOST, f"`hermes task decide {run.id} done|again|failed`")
        return printed(known, seconds)

    async def foresee(self, job: Job) -> str:
        """Why the gate would deny the script, as far as that is known now. Raises if its policy
        does not exist."""
        if job.spec.is_reminder:
            return ""
        if job.spec.is_builtin:
            self._act(job)
            return ""
        verdict = await self.verdict(job, job.spec.script, strict=True)
        if verdict.action == "allow" or not job.spec.script:
            return ""
        return NotAllowed(verdict).message

    async def verdict(self, job: Job, command: str, *, strict: bool = False) -> Verdict:
        """What the gate would say now to a command of the job; `strict` for its script."""
        await asyncio.sleep(0)  # a list of jobs has many judged; others work in between
        session = self._stand_in(job, "run-0")
        effect = self._effect(job, session, session.workspace, session.workspace, command)
        return await self._shells.gate(session).judge(replace(effect, strict=strict), on_disk)

    def is_here(self, job: Job) -> bool:
        """Whether its commands run in a folder of this machine."""
        name = self._stand_in(job, "run-0").terminals[0]
        return kind_of(self._shells.terminals.place(name)).name in HERE

    async def folder(self, job: Job) -> str:
        """The folder a job runs in: the one it names, which must be there, else its own."""
        folder = Path(folder_of(self._context, job))
        if not job.spec.folder:
            await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        elif self.is_here(job) and not await asyncio.to_thread(folder.is_dir):
            raise NotFound(
                f"its folder {folder} is gone",
                f"bring it back, or `hermes task edit {job.id} --folder FOLDER`",
            )
        return str(folder)

    def leave(self) -> None:
        """The process stops: scripts continue in their shell daemons."""
        for terminal in self._at_work.values():
            terminal.leave()

    async def forget(self, job: Job, run: Run) -> None:
        """Remove its spool: its output has been stored."""
        if job.spec.script and not job.spec.is_builtin:
            await self._shells.terminals.forget(self._stand_in(job, f"run-{run.id}"))

    def _stand_in(self, job: Job, id: str) -> Session:
        settings, folder = self._context.settings, folder_of(self._context, job)
        session = synthetic_session(id, JOBS, folder, job.spec.policy or settings.policy)
        return replace(session, terminals=job.spec.terminals or (settings.terminal.default,))

    def _effect(
        self, job: Job, session: Session, workspace: str, folder: str, command: str
    ) -> Effect:
        name = session.terminals[0]
        return Effect(
            session.id, "terminal", {"command": command}, session.id, workspace, folder,
            name, kind_of(self._shells.terminals.place(name)).name, ("process", "filesystem"),
            command or "true", actor=Actor("job", title(job), JOBS),
            time=self._context.clock(), strict=True,
        )  # fmt: skip


def folder_of(context: RuntimeContext, job: Job) -> str:
    return job.spec.folder or str(context.home.path / "jobs" / job.id)


def printed(done: CommandState, seconds: float) -> ScriptOutput:
    """A script that exits with 0 and prints nothing, or ends with `{"wake": false}`, wakes
    nobody."""
    output = cut(done.stdout.strip(), SHOWN)
    if done.state == "timeout":
        return ScriptOutput(
            _both(output, done), True, f"the script took longer than {span(seconds)}"
        )
    if done.state != "exited":
        return ScriptOutput(_both(output, done), True, f"the script did not finish: {done.state}")
    if done.code:
        return ScriptOutput(
            _both(output, done), True, f"the script ended with exit code {done.code}"
        )
    if not output:
        return ScriptOutput("", False)
    *lines, last = output.split("\n")
    wakes = _wakes(last)
    if wakes is None:
        return ScriptOutput(output, True)
    text = "\n".join(lines).strip()
    return ScriptOutput(text, wakes)


def _both(output: str, done: CommandState) -> str:
    return "\n".join(filter(None, (output, cut(done.stderr.strip(), SHOWN))))


def _wakes(line: str) -> bool | None:
    """The `wake` value of the last line, if it has one."""
    if not line.strip().startswith("{"):
        return None
    try:
        said = json.loads(line)
    except ValueError:
        return None
    wake = said.get("wake") if isinstance(said, dict) else None
    return wake if isinstance(wake, bool) else None
