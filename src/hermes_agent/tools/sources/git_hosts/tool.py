"""Tools for Git hosts: what happened in a repository around a time, why CI failed, what a change
was; and opening a pull request, which asks."""

import asyncio
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import replace

from hermes_agent.core.errors import ToolError
from hermes_agent.core.settings.sources import SourceKind
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import RecoveryResult, ToolContext, tool
from hermes_agent.tools.sources.connection import (
    Source,
    attempted,
    pick,
    required,
    segment,
    settled,
)
from hermes_agent.tools.sources.git_hosts.hosts import FAILED, GitHubHost, Happening, host_for
from hermes_agent.tools.sources.redaction import text_without_secrets
from hermes_agent.tools.sources.results import Change, answer, table
from hermes_agent.tools.sources.times import Window, stamp, window

KINDS: tuple[SourceKind, ...] = ("github", "gitlab", "gitea")
DIFF_CHARS, FILE_LINES, FILES = 14_000, 150, 60
JOBS, LOG_LINES = 3, 40
_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z ", re.MULTILINE)
_TERMINAL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|section_(start|end):\d+:\S*\r?")


@tool(capabilities=("network",), repeatable=True, sources=KINDS)
async def git_host(
    context: ToolContext,
    action: Literal[
        "recent", "commits", "pulls", "runs", "releases", "deployments", "diff", "failure"
    ],
    repository: str = "",
    ref: str = "",
    path: str = "",
    since: str = "1d ago",
    until: str = "now",
    limit: Annotated[int, Meta(ge=1, le=200)] = 40,
    source: str = "",
) -> ToolResult:
    """A repository (owner/name) on GitHub, GitLab or Gitea. recent: all that happened since then:
    commits, merges, releases, deployments, failed CI. commits, runs: of the branch `ref`. diff: of
    `ref`: a commit, #12 (pull or merge request) or a...b. failure: failed jobs of the CI run `ref`,
    or the last that failed, with the ends of their logs."""
    host = host_for(pick(context, source, *KINDS))
    where = _repository(host.source, repository)
    if action == "diff":
        required(ref, "ref", "a commit, #12 or main...branch")
        return _shown(host.source, ref, await host.diff(where, ref))
    span = window(since, until, context.clock())
    if action == "failure":
        return await _failure(host, where, ref, span)
    if action == "recent":
        found, notes = await _recent(host, where, span)
        rows = [(stamp(one.time), one.what, one.who, one.link) for one in found]
        text = table(("time", "what", "who", "link"), rows, limit) if rows else "nothing happened"
        return answer(host.source, f"{where}\n{text}", {"count": len(found)}, notes)
    happened = await host.happened(action, where, span, ref, path)
    return _listed(host.source, where, action, happened, limit)


def _repository(source: Source, named: str) -> str:
    known = source.settings.repositories
    if named or len(known) == 1:
        where = (named or known[0]).strip("/")
        for part in where.split("/"):
            segment(part)  # refuses what is no name
        return where
    there = ", ".join(known) or "as owner/name"
    raise ToolError("which repository?", f"`repository`: {there}", "changed")


def _listed(
    source: Source, where: str, what: str, happened: Sequence[Happening], limit: int
) -> ToolResult:
    rows = [
        (stamp(one.time), one.id, one.state, one.title, one.ref, one.who, one.link)
        for one in sorted(happened, key=lambda one: -one.time)
    ]
    headers = ("time", "id", "state", "title", "branch", "who", "link")
    text = table(headers, rows, limit) if rows else f"no {what} in that time"
    return answer(source, f"{where}: {len(rows)} {what}\n{text}", {"count": len(rows)})


async def _recent(
    host: GitHubHost, repository: str, span: Window
) -> tuple[list[Change], list[str]]:
    """What happened, latest first, and what could not be asked."""
    parts = ("commits", "pulls", "runs", "releases", "deployments")
    lists = await asyncio.gather(
        *(attempted(host.happened(part, repository, span)) for part in parts)
    )
    if isinstance(lists[0], ToolError):
        raise lists[0]  # no commits: there is no such repository, or it may not be seen
    found, notes = [], []
    for part, some in zip(parts, lists, strict=True):
        if isinstance(some, ToolError):
            notes.append(f"no {part}: {some.message}")
        else:
            rows = [Change(one.time, _told(part, one), one.who, one.link) for one in some]
            found += [row for row in rows if row.what]
    return sorted(found, key=lambda one: (one.time, one.what), reverse=True), notes


def _told(part: str, one: Happening) -> str:
    """A happening in a sentence; empty if nobody has to know of it."""
    match part:
        case "commits":
            return f"commit {one.id}: {one.title}"
        case "pulls":
            return f"{one.id} merged, {one.ref}: {one.title}" if one.state == "merged" else ""
        case "runs":
            failed = one.state in FAILED
            return f"CI run {one.id} failed on {one.ref}: {one.title}" if failed else ""
        case "releases":
            return f"release {one.id} {one.title}".rstrip()
    return f"deployment {one.title}, {one.state}: {one.ref}"


async def changes(source: Source, span: Window) -> list[Change]:
    """Commits, merges, releases, deployments and failed CI runs of the configured repositories."""
    host, found, troubles = host_for(source), [], []
    for repository in source.settings.repositories:
        try:
            happened, _ = await _recent(host, repository, span)
        except ToolError as error:
            troubles.append(error)
            continue
        found += [replace(one, what=f"{repository}: {one.what}") for one in happened]
    if troubles and not found:
        raise troubles[0]
    return found


async def _failure(host: GitHubHost, where: str, run: str, span: Window) -> ToolResult:
    head = f"{where}: run {run}"
    if not run:
        failed = [one for one in await host.happened("runs", where, span) if one.state in FAILED]
        if not failed:
            return answer(host.source, f"{where}: no CI run failed in that time", {"jobs": 0})
        last = max(failed, key=lambda one: one.time)
        run, head = last.id, f"{where}: run {last.id}, {last.title}, {last.ref}, {stamp(last.time)}"
    jobs = await host.failed_jobs(where, run)
    lines = [head, f"{len(jobs)} jobs failed: {', '.join(one.name for one in jobs)}"]
    logs = await asyncio.gather(*(attempted(host.log(where, one.id)) for one in jobs[:JOBS]))
    for job, log in zip(jobs, logs, strict=False):
        about = f", {job.about}" if job.about else ""
        lines += ["", f"{job.name}: {job.state}{about} {job.link}".rstrip()]
        if isinstance(log, ToolError):
            lines.append(f"its log could not be read: {log.message}")
        else:
            lines += log_end(log)
    return answer(host.source, "\n".join(lines), {"run": run, "jobs": len(jobs)})


def log_end(log: str) -> list[str]:
    """The lines before the last error that a job tells, or its last ones."""
    clean = _TERMINAL.sub("", _STAMP.sub("", log))
    lines = [line.rstrip() for line in clean.splitlines() if line.strip()]
    errors = [at for at, line in enumerate(lines) if line.startswith(("##[error]", "ERROR:"))]
    end = errors[-1] + 1 if errors else len(lines)
    # What a secret of several lines begins with may be further up.
    text = text_without_secrets("\n".join(lines[max(0, end - 10 * LOG_LINES) : end]))
    return text.splitlines()[-LOG_LINES:]


def _shown(source: Source, ref: str, diff: str) -> ToolResult:
    """The files with counts, then the text, each file and the whole cut."""
    files = re.split(r"^(?=diff --git )", diff, flags=re.MULTILINE)[1:]
    rows, texts = [], []
    for one in files:
        lines = one.splitlines()
        name = lines[0].rpartition(" b/")[2]
        body = lines[
            next((at for at, line in enumerate(lines) if line.startswith("@@")), len(lines)) :
        ]
        added, removed = (sum(line.startswith(sign) for line in body) for sign in "+-")
        rows.append((f"+{added} -{removed}", name))
        more = [f"… {len(lines) - FILE_LINES} more lines"] if len(lines) > FILE_LINES else []
        texts.append("\n".join([*lines[:FILE_LINES], *more]))
    text = text_without_secrets("\n".join(texts))
    if len(text) > DIFF_CHARS:
        text = f"{text[:DIFF_CHARS]}\n… {len(text) - DIFF_CHARS} more characters"
    head = f"{ref}: {len(files)} files\n{table(('lines', 'file'), rows, FILES)}"
    return answer(source, f"{head}\n\n{text}" if files else f"{ref}: changes nothing",
                  {"files": len(files)})  # fmt: skip


async def verify(source: Source) -> str:
    return await host_for(source).verify()


# --- an effect


async def _recover(context: ToolContext, _note: dict[str, Any], **given: Any) -> RecoveryResult:
    host, where, base = await _target(context, given)
    found = await host.find_pull(where, given["head"], base)
    return _opened(host.source, where, found) if found else "not-run"


def _inverse(_note: Any, _given: Any, result: ToolResult) -> str:
    return f"close {result.data['id']} of {result.data['repository']}: {result.data['link']}"


@tool(capabilities=("network",), sources=KINDS, recover=_recover, inverse=_inverse)
async def open_pull_request(
    context: ToolContext,
    title: str,
    head: str,
    base: str = "",
    body: str = "",
    repository: str = "",
    source: str = "",
) -> ToolResult:
    """Open a pull or merge request from the branch `head`, which has been pushed, to `base` (the
    default branch) on GitHub, GitLab or Gitea."""
    given = {"repository": repository, "base": base, "source": source}
    host, where, onto = await _target(context, given)
    if (there := await host.find_pull(where, head, onto)) is not None:
        return _opened(host.source, where, there, "is open already")
    try:
        made = await host.open_pull(where, head, onto, title, body)
    except ToolError as error:
        made = await settled(error, lambda: host.find_pull(where, head, onto))
    return _opened(host.source, where, made)


async def _target(context: ToolContext, given: dict[str, Any]) -> tuple[GitHubHost, str, str]:
    host = host_for(pick(context, given.get("source", ""), *KINDS))
    where = _repository(host.source, given.get("repository", ""))
    return host, where, given.get("base") or await host.default_branch(where)


def _opened(source: Source, where: str, one: Happening, how: str = "is open") -> ToolResult:
    data = {"source": source.name, "repository": where, "id": one.id, "link": one.link}
    return ToolResult(f"{one.id} {how}: {one.link}", data)
