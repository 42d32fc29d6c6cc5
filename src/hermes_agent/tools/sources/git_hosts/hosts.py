"""What GitHub, Gitea and GitLab say of a repository, in the same words."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx
from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.errors import ToolError
from hermes_agent.core.text.addresses import host_of
from hermes_agent.tools.sources.connection import (
    COMPRESSED,
    Source,
    body_of,
    quoted,
    segment,
)
from hermes_agent.tools.sources.times import Window, iso, parsed

PAGE = 50
FAILED = {"failure", "failed", "timed_out", "startup_failure", "error"}
Json = Mapping[str, Any]


class Happening(Struct, frozen=True):
    """A commit, pull request, run, release or deployment."""

    time: float
    id: str
    title: str
    state: str = ""
    who: str = ""
    ref: str = ""
    link: str = ""


class FailedJob(Struct, frozen=True):
    id: str
    name: str
    state: str
    about: str = ""
    """The step that failed, or the reason."""
    link: str = ""


def _segments(path: str) -> str:
    return "/".join(segment(one) for one in path.split("/"))


class GitHubHost:
    """GitHub's API; Gitea's differs in few places."""

    api = "/api/v3"
    size = "per_page"

    def __init__(self, source: Source) -> None:
        url = source.settings.url.rstrip("/")
        if host_of(url) == "github.com":
            url = "https://api.github.com"
        elif host_of(url) != "api.github.com" and self.api not in url:
            url += self.api
        self.source = replace(source, settings=replace(source.settings, url=url))

    async def get(self, path: str, /, **params: Any) -> Any:
        return await self.source.get(path, {name: one for name, one in params.items() if one})

    def at(self, repository: str) -> str:
        return f"/repos/{quote(repository)}"

    async def commits(
        self, repository: str, span: Window, branch: str = "", path: str = ""
    ) -> list[Happening]:
        found = await self.get(
            f"{self.at(repository)}/commits", since=iso(span.start), until=iso(span.end),
            sha=branch, path=path, **{self.size: PAGE},
        )  # fmt: skip
        return [
            Happening(
                parsed(one["commit"]["committer"]["date"]), one["sha"][:12],
                one["commit"]["message"].partition("\n")[0],
                who=(one.get("author") or {}).get("login") or one["commit"]["author"]["name"],
                link=one.get("html_url", ""),
            )
            for one in found or []
        ]  # fmt: skip

    async def pulls(self, repository: str, span: Window) -> list[Happening]:
        found = await self.get(
            f"{self.at(repository)}/pulls", state="all", sort=self.by_update, direction="desc",
            **{self.size: PAGE},
        )  # fmt: skip
        rows = [self.pull(one) for one in found]
        return [one for one in rows if span.start <= one.time <= span.end]

    by_update = "updated"

    def pull(self, one: Json) -> Happening:
        state = "merged" if one.get("merged_at") else "draft" if one.get("draft") else one["state"]
        return Happening(
            parsed(one.get("merged_at") or one["updated_at"]), f"#{one['number']}", one["title"],
            state, one["user"]["login"], f"{one['head']['ref']} → {one['base']['ref']}",
            one["html_url"],
        )  # fmt: skip

    async def runs(self, repository: str, span: Window, branch: str = "") -> list[Happening]:
        found = await self.get(
            f"{self.at(repository)}/actions/runs", branch=branch,
            created=f"{iso(span.start)}..{iso(span.end)}", **{self.size: PAGE},
        )  # fmt: skip
        rows = [
            Happening(
                parsed(one.get("created_at") or one.get("started_at") or ""), str(one["id"]),
                f"{one.get('name') or one.get('path', '')}: {one.get('display_title', '')}",
                one.get("conclusion") or one["status"], (one.get("actor") or {}).get("login", ""),
                f"{one.get('head_branch')} {one['head_sha'][:8]}", one.get("html_url", ""),
            )
            for one in found["workflow_runs"]
        ]  # fmt: skip
        return [one for one in rows if span.start <= one.time <= span.end]

    async def releases(self, repository: str, span: Window) -> list[Happening]:
        found = await self.get(f"{self.at(repository)}/releases", **{self.size: 30})
        rows = [
            Happening(
                parsed(one.get("published_at") or ""), one["tag_name"], one.get("name") or "",
                "pre-release" if one.get("prerelease") else "released",
                (one.get("author") or {}).get("login", ""), link=one.get("html_url", ""),
            )
            for one in found
        ]  # fmt: skip
        return [one for one in rows if span.start <= one.time <= span.end]

    async def deployments(self, repository: str, span: Window) -> list[Happening]:
        path = f"{self.at(repository)}/deployments"
        found = await self.get(path, **{self.size: 30})
        rows = []
        for one in found:
            if span.start <= parsed(one["created_at"]) <= span.end:
                states = await self.get(f"{path}/{one['id']}/statuses", per_page=1)
                state = states[0]["state"] if states else "created"
                rows.append(Happening(
                    parsed(one["created_at"]), str(one["id"]), f"to {one['environment']}", state,
                    (one.get("creator") or {}).get("login", ""), f"{one['ref']} {one['sha'][:8]}",
                ))  # fmt: skip
        return rows

    async def failed_jobs(self, repository: str, run: str) -> list[FailedJob]:
        found = await self.get(f"{self.at(repository)}/actions/runs/{segment(run)}/jobs")
        jobs = []
        for one in found["jobs"]:
            if one.get("conclusion") in FAILED:
                steps = [
                    step["name"]
                    for step in one.get("steps") or []
                    if step.get("conclusion") in FAILED
                ]
                about = f"step {', '.join(steps)}" if steps else ""
                link = one.get("html_url", "")
                jobs.append(FailedJob(str(one["id"]), one["name"], one["conclusion"], about, link))
        return jobs

    async def log(self, repository: str, job: str) -> str:
        path = f"{self.at(repository)}/actions/jobs/{job}/logs"
        reply, data = await self.source.reply("GET", path)
        if reply.is_redirect:
            # The log lies in a store of its own; the address is its key, and gets no other.
            seconds, where = self.source.settings.timeout_seconds, reply.headers.get("location", "")
            try:
                async with (
                    asyncio.timeout(seconds),
                    self.source.http(timeout=seconds) as client,
                    client.stream("GET", where, headers=COMPRESSED) as reply,
                ):
                    data = await body_of(reply, "the store of the log")
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
                what = str(error) or type(error).__name__
                raise ToolError(f"cannot get the log: {quoted(what)}", retry="same") from None
        text = data.decode(errors="replace")
        self.source.refuse(reply, text)
        return text

    async def diff(self, repository: str, ref: str) -> str:
        part = f"pulls/{segment(ref[1:])}" if ref[0] in "#!" else f"commits/{_segments(ref)}"
        part = f"compare/{_segments(ref)}" if "..." in ref else part
        headers = {"Accept": "application/vnd.github.diff"}
        return await self.source.text("GET", f"{self.at(repository)}/{part}", headers=headers)

    async def default_branch(self, repository: str) -> str:
        return str((await self.get(self.at(repository)))["default_branch"])

    async def find_pull(self, repository: str, head: str, base: str) -> Happening | None:
        """The open one for these branches."""
        owner = repository.partition("/")[0]
        found = await self.get(
            f"{self.at(repository)}/pulls", state="open", head=f"{owner}:{head}", base=base,
            **{self.size: PAGE},
        )  # fmt: skip
        same = [one for one in found if one["head"]["ref"] == head and one["base"]["ref"] == base]
        return self.pull(same[0]) if same else None

    async def open_pull(
        self, repository: str, head: str, base: str, title: str, body: str
    ) -> Happening:
        given = {"title": title, "head": head, "base": base, "body": body}
        return self.pull(
            await self.source.fetch("POST", f"{self.at(repository)}/pulls", json=given)
        )

    async def verify(self) -> str:
        if not self.source.settings.token:
            await self.get("/rate_limit")
            return "answers, without a token"
        return f"answers, as {(await self.get('/user'))['login']}"


class GiteaHost(GitHubHost):
    api = "/api/v1"
    size = "limit"
    by_update = "recentupdate"

    async def deployments(self, repository: str, span: Window) -> list[Happening]:  # noqa: ARG002
        return []  # Gitea has none

    async def diff(self, repository: str, ref: str) -> str:
        part = f"pulls/{segment(ref[1:])}.diff"
        if ref[0] not in "#!":
            part = f"git/commits/{_segments(ref)}.diff"
        if "..." in ref:
            raise ToolError(
                "Gitea shows no diff of a range", "give one commit or #NUMBER", "changed"
            )
        return await self.source.text("GET", f"{self.at(repository)}/{part}")

    async def verify(self) -> str:
        return f"answers; Gitea {(await self.get('/version'))['version']}"


class GitLabHost(GitHubHost):
    api = "/api/v4"

    def at(self, repository: str) -> str:
        return f"/projects/{quote(repository, safe='')}"

    async def commits(
        self, repository: str, span: Window, branch: str = "", path: str = ""
    ) -> list[Happening]:
        found = await self.get(
            f"{self.at(repository)}/repository/commits", since=iso(span.start),
            until=iso(span.end), ref_name=branch, path=path, per_page=PAGE,
        )  # fmt: skip
        return [
            Happening(parsed(one["committed_date"]), one["id"][:12], one["title"],
                      who=one["author_name"], link=one.get("web_url", ""))
            for one in found
        ]  # fmt: skip

    async def pulls(self, repository: str, span: Window) -> list[Happening]:
        found = await self.get(
            f"{self.at(repository)}/merge_requests", state="all", order_by="updated_at",
            updated_after=iso(span.start), per_page=PAGE,
        )  # fmt: skip
        rows = [self.pull(one) for one in found]
        return [one for one in rows if span.start <= one.time <= span.end]

    def pull(self, one: Json) -> Happening:
        return Happening(
            parsed(one.get("merged_at") or one["updated_at"]), f"!{one['iid']}", one["title"],
            "draft" if one.get("draft") and one["state"] == "opened" else one["state"],
            one["author"]["username"], f"{one['source_branch']} → {one['target_branch']}",
            one["web_url"],
        )  # fmt: skip

    async def runs(self, repository: str, span: Window, branch: str = "") -> list[Happening]:
        found = await self.get(
            f"{self.at(repository)}/pipelines", ref=branch, updated_after=iso(span.start),
            updated_before=iso(span.end), per_page=PAGE,
        )  # fmt: skip
        rows = [
            Happening(
                parsed(one.get("updated_at") or one["created_at"]), str(one["id"]),
                f"pipeline {one.get('name') or one.get('source') or ''}", one["status"],
                ref=f"{one['ref']} {one['sha'][:8]}", link=one.get("web_url", ""),
            )
            for one in found
        ]  # fmt: skip
        return [one for one in rows if span.start <= one.time <= span.end]

    async def releases(self, repository: str, span: Window) -> list[Happening]:
        found = await self.get(f"{self.at(repository)}/releases", per_page=30)
        rows = [
            Happening(
                parsed(one["released_at"]), one["tag_name"], one.get("name") or "", "released",
                (one.get("author") or {}).get("username", ""),
                link=(one.get("_links") or {}).get("self", ""),
            )
            for one in found
        ]  # fmt: skip
        return [one for one in rows if span.start <= one.time <= span.end]

    async def deployments(self, repository: str, span: Window) -> list[Happening]:
        found = await self.get(
            f"{self.at(repository)}/deployments", order_by="created_at", sort="desc", per_page=30
        )
        rows = [
            Happening(
                parsed(one["created_at"]), str(one["iid"]), f"to {one['environment']['name']}",
                one["status"], (one.get("user") or {}).get("username", ""),
                f"{one['ref']} {one['sha'][:8]}",
            )
            for one in found
        ]  # fmt: skip
        return [one for one in rows if span.start <= one.time <= span.end]

    async def failed_jobs(self, repository: str, run: str) -> list[FailedJob]:
        found = await self.get(f"{self.at(repository)}/pipelines/{segment(run)}/jobs", per_page=100)
        return [
            FailedJob(str(one["id"]), f"{one['stage']}/{one['name']}", one["status"],
                      one.get("failure_reason") or "", one.get("web_url", ""))
            for one in found
            if one["status"] == "failed"
        ]  # fmt: skip

    async def log(self, repository: str, job: str) -> str:
        return await self.source.text("GET", f"{self.at(repository)}/jobs/{job}/trace")

    async def diff(self, repository: str, ref: str) -> str:
        if "..." in ref:
            before, _, after = ref.partition("...")
            path = f"{self.at(repository)}/repository/compare"
            files = (await self.get(path, **{"from": before, "to": after}))["diffs"]
        elif ref[0] in "#!":
            files = await self.get(
                f"{self.at(repository)}/merge_requests/{segment(ref[1:])}/diffs", per_page=100
            )
        else:
            path = f"{self.at(repository)}/repository/commits/{quote(ref, safe='')}/diff"
            files = await self.get(path, per_page=100)
        return "\n".join(
            f"diff --git a/{one['old_path']} b/{one['new_path']}\n{one['diff']}" for one in files
        )

    async def find_pull(self, repository: str, head: str, base: str) -> Happening | None:
        found = await self.get(
            f"{self.at(repository)}/merge_requests", state="opened", source_branch=head,
            target_branch=base,
        )  # fmt: skip
        return self.pull(found[0]) if found else None

    async def open_pull(
        self, repository: str, head: str, base: str, title: str, body: str
    ) -> Happening:
        given = {
            "source_branch": head, "target_branch": base, "title": title, "description": body,
        }  # fmt: skip
        path = f"{self.at(repository)}/merge_requests"
        return self.pull(await self.source.fetch("POST", path, json=given))

    async def verify(self) -> str:
        if not self.source.settings.token:
            await self.get("/projects", per_page=1)
            return "answers, without a token"
        return f"answers, as {(await self.get('/user'))['username']}"


HOSTS: Mapping[str, type[GitHubHost]] = {
    "github": GitHubHost, "gitea": GiteaHost, "gitlab": GitLabHost,
}  # fmt: skip


def host_for(source: Source) -> GitHubHost:
    if not source.settings.url:
        hint = f"`hermes config set sources.{source.name}.url https://…`"
        raise ToolError(f"{source.label} has no address", hint, "never")
    return HOSTS[source.settings.kind](source)
