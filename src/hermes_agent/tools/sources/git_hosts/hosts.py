"""What GitHub, Gitea and GitLab say of a repository, in the same words."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.errors import ToolError
from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.core.text.addresses import host_of
from hermes_agent.tools.sources.connection import Source, segment
from hermes_agent.tools.sources.times import Window, iso, parsed

PAGE, PAGES = 50, 4
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


class RepositoryListing(NamedTuple):
    """Where a host lists what happened, and how one of it is read."""

    path: str
    read: Callable[[Json], Happening]
    params: Mapping[str, str] = {}
    """With `{since}`, `{until}`, `{ref}` and `{path}`; what is empty then is left out."""
    inside: str = ""
    """The field of the answer that has the list."""


def _hub_commit(one: Json) -> Happening:
    commit = one["commit"]
    who = (one.get("author") or {}).get("login") or commit["author"]["name"]
    return Happening(
        parsed(commit["committer"]["date"]), one["sha"][:12], commit["message"].partition("\n")[0],
        who=who, link=one.get("html_url", ""),
    )  # fmt: skip


def _hub_pull(one: Json) -> Happening:
    state = "merged" if one.get("merged_at") else "draft" if one.get("draft") else one["state"]
    return Happening(
        parsed(one.get("merged_at") or one["updated_at"]), f"#{one['number']}", one["title"],
        state, (one.get("user") or {}).get("login", ""),
        f"{one['head']['ref']} → {one['base']['ref']}", one["html_url"],
    )  # fmt: skip


def _hub_run(one: Json) -> Happening:
    return Happening(
        parsed(one.get("created_at") or one.get("started_at")), str(one["id"]),
        f"{one.get('name') or one.get('path', '')}: {one.get('display_title', '')}",
        one.get("conclusion") or one["status"], (one.get("actor") or {}).get("login", ""),
        f"{one.get('head_branch')} {one['head_sha'][:8]}", one.get("html_url", ""),
    )  # fmt: skip


def _hub_release(one: Json) -> Happening:
    return Happening(
        parsed(one.get("published_at")), one["tag_name"], one.get("name") or "",
        "pre-release" if one.get("prerelease") else "released",
        (one.get("author") or {}).get("login", ""), link=one.get("html_url", ""),
    )  # fmt: skip


def _hub_deployment(one: Json) -> Happening:
    return Happening(
        parsed(one["created_at"]), str(one["id"]), f"to {one['environment']}", "",
        (one.get("creator") or {}).get("login", ""), f"{one['ref']} {one['sha'][:8]}",
    )  # fmt: skip


def _lab_commit(one: Json) -> Happening:
    return Happening(
        parsed(one["committed_date"]), one["id"][:12], one["title"],
        who=one["author_name"], link=one.get("web_url", ""),
    )  # fmt: skip


def _lab_pull(one: Json) -> Happening:
    return Happening(
        parsed(one.get("merged_at") or one["updated_at"]), f"!{one['iid']}", one["title"],
        "draft" if one.get("draft") and one["state"] == "opened" else one["state"],
        one["author"]["username"], f"{one['source_branch']} → {one['target_branch']}",
        one["web_url"],
    )  # fmt: skip


def _lab_run(one: Json) -> Happening:
    return Happening(
        parsed(one.get("updated_at") or one["created_at"]), str(one["id"]),
        f"pipeline {one.get('name') or one.get('source') or ''}", one["status"],
        ref=f"{one['ref']} {one['sha'][:8]}", link=one.get("web_url", ""),
    )  # fmt: skip


def _lab_release(one: Json) -> Happening:
    return Happening(
        parsed(one["released_at"]), one["tag_name"], one.get("name") or "", "released",
        (one.get("author") or {}).get("username", ""),
        link=(one.get("_links") or {}).get("self", ""),
    )  # fmt: skip


def _lab_deployment(one: Json) -> Happening:
    return Happening(
        parsed(one["created_at"]), str(one["iid"]), f"to {one['environment']['name']}",
        one["status"], (one.get("user") or {}).get("username", ""),
        f"{one['ref']} {one['sha'][:8]}",
    )  # fmt: skip


class GitHubHost:
    """GitHub's API; Gitea's differs in few places."""

    api, size = "/api/v3", "per_page"
    anonymous, login = "/rate_limit", "login"
    """What anybody may ask, and the field with one's own name."""
    listings: Mapping[str, RepositoryListing] = {
        "commits": RepositoryListing("commits", _hub_commit, {
            "since": "{since}", "until": "{until}", "sha": "{ref}", "path": "{path}",
        }),
        "pulls": RepositoryListing("pulls", _hub_pull, {
            "state": "all", "sort": "updated", "direction": "desc",
        }),
        "runs": RepositoryListing("actions/runs", _hub_run, {
            "branch": "{ref}", "created": "{since}..{until}",
        }, "workflow_runs"),
        "releases": RepositoryListing("releases", _hub_release),
        "deployments": RepositoryListing("deployments", _hub_deployment),
    }  # fmt: skip
    open_pulls: Mapping[str, str] = {"state": "open", "head": "{owner}:{head}", "base": "{base}"}
    new_pull = ("title", "head", "base", "body")

    def __init__(self, source: Source) -> None:
        url = source.settings.url.rstrip("/")
        if host_of(url) == "github.com":
            url = "https://api.github.com"
        elif url and host_of(url) != "api.github.com" and self.api not in url:
            url += self.api
        self.source = source.at(url)

    async def get(self, path: str, /, **params: Any) -> Any:
        return await self.source.get(path, {name: one for name, one in params.items() if one})

    def at(self, repository: str) -> str:
        return f"/repos/{quote(repository)}"

    async def happened(
        self, part: str, repository: str, span: Window, ref: str = "", path: str = ""
    ) -> list[Happening]:
        """What a listing has of that time; nothing if the host has no such listing."""
        if (listing := self.listings.get(part)) is None:
            return []
        where = f"{self.at(repository)}/{listing.path}"
        words = {"since": iso(span.start), "until": iso(span.end), "ref": ref, "path": path}
        params = {name: text.format(**words) for name, text in listing.params.items()}
        chosen: list[Happening] = []
        for page in range(1, PAGES + 1):
            found = await self.get(where, **params, **{self.size: PAGE}, page=page)
            rows = (found[listing.inside] if listing.inside else found) or []
            read = [listing.read(one) for one in rows]
            chosen += [one for one in read if one.time in span]
            if len(read) < PAGE or all(one.time < span.start for one in read):
                break
        if part != "deployments":
            return chosen
        return [one if one.state else await self._with_state(where, one) for one in chosen]

    async def _with_state(self, where: str, deployment: Happening) -> Happening:
        states = await self.get(f"{where}/{deployment.id}/statuses", per_page=1)
        return replace(deployment, state=states[0]["state"] if states else "created")

    async def failed_jobs(self, repository: str, run: str) -> list[FailedJob]:
        path = f"{self.at(repository)}/actions/runs/{segment(run)}/jobs"
        found = await self.get(path, **{self.size: 100})
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
        if reply.is_redirect and (url := reply.headers.get("location", "")).startswith("http"):
            # The log lies in a store of its own; the address is its key, and gets no other.
            seconds = self.source.settings.timeout_seconds
            bare = SourceSettings(self.source.settings.kind, url, timeout_seconds=seconds)
            reply, data = await replace(self.source, settings=bare).reply("GET", "")
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

    def _pulls(self, repository: str) -> tuple[str, Callable[[Json], Happening]]:
        listing = self.listings["pulls"]
        return f"{self.at(repository)}/{listing.path}", listing.read

    async def find_pull(self, repository: str, head: str, base: str) -> Happening | None:
        """The open one for these branches."""
        words = {"owner": repository.partition("/")[0], "head": head, "base": base}
        params = {name: text.format(**words) for name, text in self.open_pulls.items()}
        path, read = self._pulls(repository)
        found = map(read, await self.get(path, **params, **{self.size: PAGE}))
        return next((one for one in found if one.ref == f"{head} → {base}"), None)

    async def open_pull(
        self, repository: str, head: str, base: str, title: str, body: str
    ) -> Happening:
        path, read = self._pulls(repository)
        given = dict(zip(self.new_pull, (title, head, base, body), strict=True))
        return read(await self.source.fetch("POST", path, json=given))

    async def verify(self) -> str:
        if not self.source.settings.token:
            await self.get(self.anonymous, per_page=1)
            return "answers, without a token"
        return f"answers, as {(await self.get('/user'))[self.login]}"


class GiteaHost(GitHubHost):
    api, size = "/api/v1", "limit"
    listings: Mapping[str, RepositoryListing] = {
        **{name: one for name, one in GitHubHost.listings.items() if name != "deployments"},
        "pulls": RepositoryListing("pulls", _hub_pull, {"state": "all", "sort": "recentupdate"}),
    }

    async def diff(self, repository: str, ref: str) -> str:
        part = f"pulls/{segment(ref[1:])}.diff"
        if ref[0] not in "#!":
            part = f"git/commits/{_segments(ref)}.diff"
        if "..." in ref:
            what = "Gitea shows no diff of a range"
            raise ToolError(what, "give one commit or #NUMBER", "changed")
        return await self.source.text("GET", f"{self.at(repository)}/{part}")

    async def verify(self) -> str:
        return f"answers; Gitea {(await self.get('/version'))['version']}"


class GitLabHost(GitHubHost):
    api = "/api/v4"
    anonymous, login = "/projects", "username"
    listings: Mapping[str, RepositoryListing] = {
        "commits": RepositoryListing("repository/commits", _lab_commit, {
            "since": "{since}", "until": "{until}", "ref_name": "{ref}", "path": "{path}",
        }),
        "pulls": RepositoryListing("merge_requests", _lab_pull, {
            "state": "all", "order_by": "updated_at", "updated_after": "{since}",
        }),
        "runs": RepositoryListing("pipelines", _lab_run, {
            "ref": "{ref}", "updated_after": "{since}", "updated_before": "{until}",
        }),
        "releases": RepositoryListing("releases", _lab_release),
        "deployments": RepositoryListing("deployments", _lab_deployment, {
            "order_by": "created_at", "sort": "desc",
        }),
    }  # fmt: skip
    open_pulls: Mapping[str, str] = {
        "state": "opened", "source_branch": "{head}", "target_branch": "{base}",
    }  # fmt: skip
    new_pull = ("title", "source_branch", "target_branch", "description")

    def at(self, repository: str) -> str:
        return f"/projects/{quote(repository, safe='')}"

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
        where = self.at(repository)
        if "..." in ref:
            before, _, after = ref.partition("...")
            compared = {"from": before, "to": after}
            files = (await self.get(f"{where}/repository/compare", **compared))["diffs"]
        elif ref[0] in "#!":
            path = f"{where}/merge_requests/{segment(ref[1:])}/diffs"
            files = await self.get(path, per_page=100)
        else:
            path = f"{where}/repository/commits/{quote(ref, safe='')}/diff"
            files = await self.get(path, per_page=100)
        return "\n".join(
            f"diff --git a/{one['old_path']} b/{one['new_path']}\n{one['diff']}" for one in files
        )


HOSTS: Mapping[str, type[GitHubHost]] = {
    "github": GitHubHost, "gitea": GiteaHost, "gitlab": GitLabHost,
}  # fmt: skip


def host_for(source: Source) -> GitHubHost:
    return HOSTS[source.settings.kind](source)
