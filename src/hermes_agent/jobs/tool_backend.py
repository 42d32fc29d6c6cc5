"""The backend of the agent's `task` tool."""

from collections.abc import Mapping
from typing import Any

import msgspec

from hermes_agent.core.errors import HermesError, ToolError
from hermes_agent.core.jobs import REMINDER, JobSpec
from hermes_agent.core.records import Session
from hermes_agent.core.text.format import shortened
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import Provenance
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.outbound import ORIGIN
from hermes_agent.jobs.messages import cut, stamp, title
from hermes_agent.jobs.service import JobService, JobView, RunReport

HERE = "here"
TITLE = 60
"""Characters of its prompt by which a job without a name is known."""
RUNS = 10
SHOWN = 500
"""Characters of a result in a list."""


class JobTool:
    def __init__(self, context: RuntimeContext, service: JobService, session: Session) -> None:
        self._context = context
        self._service = service
        self._session = session

    async def act(self, action: str, given: Mapping[str, Any], by: Provenance) -> ToolResult:
        try:
            return await self._act(action, given, by)
        except msgspec.ValidationError as error:
            raise ToolError(f"an option is wrong: {error}", retry="changed") from None
        except HermesError as error:
            raise ToolError(error.message, error.hint, "changed") from None

    async def _act(self, action: str, given: Mapping[str, Any], by: Provenance) -> ToolResult:
        service, name = self._service, str(given["name"])
        match action:
            case "add":
                return await self._add(service, given, by)
            case "remind":
                return await self._remind(service, given, by)
            case "list":
                found = await service.all()
                text = "\n".join(_line(one) for one in found) or "no jobs"
                return ToolResult(text, {"jobs": msgspec.to_builtins(found)})
            case "history":
                runs = await service.history(name, RUNS)
                text = "\n".join(_run_line(run) for run in runs) or "no runs"
                return ToolResult(text, {"runs": msgspec.to_builtins(runs)})
            case "run":
                run = await service.ask(name)
                return ToolResult(f"run {run.id} started", msgspec.to_builtins(run))
            case "remove":
                job = await service.remove(name)
                return ToolResult(f"{title(job)} is removed", {"job": job.id})
            case "show":
                return _result(await service.show(name))
            case "edit":
                changes = _options(given)
                zone = str(changes.pop("zone", ""))
                return _result(await service.edit(name, changes, str(given["when"]), zone))
        return _result(await service.set_state(name, "paused" if action == "pause" else "active"))

    async def _add(
        self, service: JobService, given: Mapping[str, Any], by: Provenance
    ) -> ToolResult:
        options = _options(given)
        zone = str(options.pop("zone", ""))
        if given["name"]:
            options.setdefault("name", given["name"])
        options.setdefault("policy", self._session.policy)
        options.setdefault("folder", self._session.workspace)
        spec = msgspec.convert(options, JobSpec)
        if unknown := options.keys() - set(JobSpec.__struct_fields__):
            raise ToolError(f"a job has no {min(unknown)!r}", retry="changed")
        key = f"tool:{by.session}/{by.effect}"
        who, origin = f"agent:{by.session}", await self._origin()
        when = str(given["when"])
        return _result(await service.add(spec, when, zone, who, origin, key, reads_delivery=True))

    async def _remind(
        self, service: JobService, given: Mapping[str, Any], by: Provenance
    ) -> ToolResult:
        target, origin = str(given["target"]), await self._origin()
        if target == HERE and not origin:
            hint = "name a channel or `phone` as the target"
            raise ToolError("this session has no chat to remind in", hint, "changed")
        deliver = (ORIGIN if target == HERE else target,)
        spec = JobSpec(
            prompt=str(given["prompt"]), name=str(given["name"]), deliver=deliver, script=REMINDER,
            script_only=True, policy=self._session.policy,
        )  # fmt: skip
        key, when = f"tool:{by.session}/{by.effect}", str(given["when"])
        return _result(await service.add(spec, when, "", f"agent:{by.session}", origin, key))

    async def _origin(self) -> str:
        """The chat that the session is bound to."""
        bond = await self._context.store.gateway.binding_of(self._session.id)
        return bond.chat.target if bond is not None else ""


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    options = dict(given["options"] or {})
    if given["prompt"]:
        options["prompt"] = given["prompt"]
    return options


def _result(shown: JobView) -> ToolResult:
    job = shown.job
    lines = [_line(shown), f"prompt: {job.spec.prompt}" if job.spec.prompt else ""]
    lines.append(f"results: {shown.results}")
    lines += [f"warning: {one}" for one in shown.warnings]
    lines += [_run_line(run) for run in shown.runs]
    return ToolResult("\n".join(filter(None, lines)), msgspec.to_builtins(shown))


def _line(shown: JobView) -> str:
    job = shown.job
    failing = f", failures in a row: {job.failures}" if job.failures else ""
    named = job.spec.name or shortened(job.spec.prompt, TITLE) or job.id
    return f"{job.id} {named!r}: {job.state}, {shown.meaning}{failing}"


def _run_line(run: RunReport) -> str:
    said = run.error or run.output or ("nothing to say" if run.state == "done" else "")
    results = f" [{run.results}]" if run.results else ""
    when = stamp(run.slot, "UTC")
    return f"run {run.id} due {when}: {run.state} {cut(said, SHOWN)}".rstrip() + results
