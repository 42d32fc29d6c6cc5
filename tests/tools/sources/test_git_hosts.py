"""GitHub, GitLab and Gitea over loopback, with answers in the shape that their API pages give."""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest

from hermes_agent.core.errors import OutcomeUnknown, ToolError
from hermes_agent.core.settings.sources import SourceKind, SourceSettings
from hermes_agent.tools.sources.changes import what_changed
from hermes_agent.tools.sources.git_hosts.tool import git_host, open_pull_request
from hermes_agent.tools.sources.times import parsed
from tests.support.recorded_wire import answering
from tests.support.sources import Observer

NOW = parsed("2026-11-19T04:00:00Z")
AT = "2026-11-19T03:12:00Z"
SHA = "d94f1c2ab3e45f6a7b8c9d0e1f2a3b4c5d6e7f80"
DIFF = """\
diff --git a/settings.ini b/settings.ini
index 1f..2e 100644
--- a/settings.ini
+++ b/settings.ini
@@ -1,1 +1,2 @@
-pool_size = 50
+pool_size = 5
+db_password = hunter2
"""
LOG = """\
2026-11-19T03:20:00.1Z ##[group]Run make test
2026-11-19T03:20:04.1Z db_password: hunter2
2026-11-19T03:20:05.1Z FAILED tests/test_pool.py::test_size - assert 5 == 50
2026-11-19T03:20:06.1Z ##[error]Process completed with exit code 1.
2026-11-19T03:20:07.1Z Post job cleanup.
"""
USER = {"login": "alice", "username": "alice"}
HUB_PULL = {
    "number": 12, "title": "Shrink the pool", "state": "closed", "merged_at": AT,
    "updated_at": AT, "user": USER, "head": {"ref": "pool"}, "base": {"ref": "main"},
    "html_url": "https://git.example/shop/web/pull/12",
}  # fmt: skip
OPENED = {**HUB_PULL, "number": 13, "title": "Restore the pool", "state": "open", "merged_at": None,
          "head": {"ref": "fix"}, "html_url": "https://git.example/shop/web/pull/13"}  # fmt: skip
HUB = {
    "/repos/shop/web": {"default_branch": "main"},
    "/repos/shop/web/commits": [{
        "sha": SHA, "author": USER, "html_url": "https://git.example/c", "commit": {
            "message": "Shrink the pool\n\nIt is too big.",
            "author": {"name": "Alice", "date": AT}, "committer": {"name": "Alice", "date": AT},
        },
    }],
    "/repos/shop/web/pulls": [HUB_PULL],
    f"/repos/shop/web/commits/{SHA}": DIFF,
    f"/repos/shop/web/git/commits/{SHA}.diff": DIFF,
    "/repos/shop/web/releases": [{
        "tag_name": "v1.5", "name": "Winter", "published_at": AT, "author": USER,
        "prerelease": False, "html_url": "https://git.example/r",
    }],
    "/repos/shop/web/deployments": [{
        "id": 7, "sha": SHA, "ref": "main", "environment": "production", "created_at": AT,
        "creator": USER,
    }],
    "/repos/shop/web/deployments/7/statuses": [{"state": "success", "created_at": AT}],
    "/repos/shop/web/actions/runs": {"total_count": 1, "workflow_runs": [{
        "id": 99, "name": "CI", "display_title": "Shrink the pool", "status": "completed",
        "conclusion": "failure", "head_branch": "main", "head_sha": SHA, "created_at": AT,
        "actor": USER, "html_url": "https://git.example/runs/99",
    }]},
    "/repos/shop/web/actions/runs/99/jobs": {"total_count": 2, "jobs": [
        {"id": 5, "name": "test", "status": "completed", "conclusion": "failure", "steps": [
            {"name": "Set up", "conclusion": "success"},
            {"name": "make test", "conclusion": "failure"},
        ]},
        {"id": 6, "name": "lint", "status": "completed", "conclusion": "success", "steps": []},
    ]},
    "/stored/log": LOG,
    "/user": USER,
    "/version": {"version": "1.25.1"},
}  # fmt: skip
LAB_PULL = {
    "iid": 12, "title": "Shrink the pool", "state": "merged", "merged_at": AT, "updated_at": AT,
    "author": USER, "source_branch": "pool", "target_branch": "main", "draft": False,
    "web_url": "https://git.example/shop/web/-/merge_requests/12",
}  # fmt: skip
LAB_OPENED = {**LAB_PULL, "iid": 13, "state": "opened", "merged_at": None, "source_branch": "fix",
              "web_url": "https://git.example/shop/web/-/merge_requests/13"}  # fmt: skip
LAB = {
    "/projects/shop/web": {"default_branch": "main"},
    "/projects/shop/web/repository/commits": [{
        "id": SHA, "short_id": SHA[:8], "title": "Shrink the pool", "author_name": "alice",
        "committed_date": AT, "web_url": "https://git.example/c",
    }],
    "/projects/shop/web/merge_requests": [LAB_PULL],
    f"/projects/shop/web/repository/commits/{SHA}/diff": [{
        "old_path": "settings.ini", "new_path": "settings.ini",
        "diff": DIFF[DIFF.index("@@") :],
    }],
    "/projects/shop/web/releases": [{
        "tag_name": "v1.5", "name": "Winter", "released_at": AT, "author": USER,
        "_links": {"self": "https://git.example/r"},
    }],
    "/projects/shop/web/deployments": [{
        "id": 70, "iid": 7, "sha": SHA, "ref": "main", "status": "success", "created_at": AT,
        "user": USER, "environment": {"name": "production"},
    }],
    "/projects/shop/web/pipelines": [{
        "id": 99, "status": "failed", "ref": "main", "sha": SHA, "source": "push",
        "created_at": AT, "web_url": "https://git.example/runs/99",
    }],
    "/projects/shop/web/pipelines/99/jobs": [
        {"id": 5, "name": "test", "stage": "check", "status": "failed",
         "failure_reason": "script_failure"},
        {"id": 6, "name": "lint", "stage": "check", "status": "success"},
    ],
    "/projects/shop/web/jobs/5/trace":
        "\x1b[0KRunning\nsection_start:1795057920:test\r\x1b[0Kmake test\n"
        "FAILED tests/test_pool.py::test_size - assert 5 == 50\nERROR: Job failed: exit code 1\n",
    "/user": USER,
}  # fmt: skip


class GitServer:
    """Answers by path; a pull request that was opened is found from then on."""

    def __init__(self, kind: SourceKind) -> None:
        self.kind = kind
        self.base = {"github": "/api/v3", "gitlab": "/api/v4", "gitea": "/api/v1"}[kind]
        self.pages: Mapping[str, Any] = LAB if kind == "gitlab" else HUB
        self.asked: list[str] = []
        self.opened: dict[str, Any] = {}
        self.status = 201
        self.forgets = False
        """What is opened is not there, and its answer is not JSON."""

    def respond(
        self, method: str, target: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Any]:
        status, said = self._page(method, target, body, headers)
        given = dict(parse_qsl(target.partition("?")[2]))
        most = int(given.get("per_page") or given.get("limit") or 30)
        first = (int(given.get("page") or 1) - 1) * most
        for some in [said, *(said.values() if isinstance(said, dict) else ())]:
            if isinstance(some, list):
                some[:] = some[first : first + most]
        return status, said

    def _page(
        self, method: str, target: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Any]:
        path, _, query = target.replace("%2F", "/").partition("?")
        path = path.removeprefix(self.base)
        self.asked.append(f"{method} {path}?{query} {headers.get('authorization')}")
        pulls = path.endswith(("/pulls", "/merge_requests"))
        if method == "POST" and pulls and self.forgets:
            return self.status, "<html>"
        if method == "POST" and pulls:
            self.opened = json.loads(body)
            return self.status, LAB_OPENED if self.kind == "gitlab" else OPENED
        if pulls and ("state=open" in query):
            there = [LAB_OPENED if self.kind == "gitlab" else OPENED]
            return 200, there if self.opened else []
        if path.endswith("/actions/jobs/5/logs"):
            if self.kind == "gitea":
                return 200, LOG
            return 302, {"location": "/stored/log"}
        if path not in self.pages:
            return 404, {"message": "Not Found"}
        return 200, deepcopy(self.pages[path])


@pytest.fixture(params=["github", "gitlab", "gitea"])
def server(request: pytest.FixtureRequest, observer: Observer) -> Iterator[GitServer]:
    server = GitServer(request.param)
    own: list[str] = []

    def respond(*asked: Any) -> tuple[int, Any]:
        status, said = server.respond(*asked)
        if status == 302:
            said = {"location": f"{own[0]}{said['location']}"}
        return status, said

    with answering(respond) as address:
        own.append(address)
        observer.sources["git"] = SourceSettings(
            kind=server.kind, url=address, token="secret:GIT_TOKEN", repositories=("shop/web",)
        )
        observer.secrets = {"GIT_TOKEN": "t0ken"}
        observer.now = lambda: NOW
        yield server


async def test_one_call_tells_all_that_happened_around_a_time(
    server: GitServer, observer: Observer
) -> None:
    text = (await observer.call(git_host, action="recent")).text
    number = "!12" if server.kind == "gitlab" else "#12"
    for fact in (
        f"commit {SHA[:12]}: Shrink the pool", f"{number} merged, pool → main",
        "release v1.5 Winter", "CI run 99 failed on main d94f1c2a", "alice",
    ):  # fmt: skip
        assert fact in text
    assert ("deployment to production, success" in text) is (server.kind != "gitea")
    assert all(one.endswith(" Bearer t0ken") for one in server.asked)
    commits = next(one for one in server.asked if "/commits" in one)
    assert "since=2026-11-18T04%3A00%3A00Z" in commits


async def test_they_are_changes_of_the_configured_repositories(
    server: GitServer, observer: Observer
) -> None:
    text = (await observer.call(what_changed, around="2026-11-19T03:15:00Z", minutes=10)).text
    assert f"git: shop/web: commit {SHA[:12]}: Shrink the pool" in text
    text = (await observer.call(what_changed, around="2026-11-18T03:15:00Z", minutes=10)).text
    assert "CI run 99" not in text


@pytest.mark.parametrize(("action", "facts"), [
    ("commits", ("Shrink the pool", "alice")),
    ("pulls", ("merged", "pool → main")),
    ("runs", ("99", "main d94f1c2a")),
    ("releases", ("v1.5", "Winter")),
])  # fmt: skip
async def test_a_list_is_a_table(
    server: GitServer, observer: Observer, action: str, facts: tuple[str, ...]
) -> None:
    result = await observer.call(git_host, action=action)
    assert result.data["count"] == 1
    assert [fact for fact in facts if fact not in result.text] == []


async def test_a_diff_has_its_files_first_and_no_passwords(
    server: GitServer, observer: Observer
) -> None:
    text = (await observer.call(git_host, action="diff", ref=SHA)).text
    assert "+2 -1  settings.ini" in text
    assert "-pool_size = 50\n+pool_size = 5" in text
    assert "hunter2" not in text


async def test_the_last_failed_run_is_told_with_the_end_of_its_log(
    server: GitServer, observer: Observer
) -> None:
    """The address to which GitHub redirects is its own key, and gets no token."""
    result = await observer.call(git_host, action="failure")
    assert result.data == {"source": "git", "run": "99", "jobs": 1}
    assert "FAILED tests/test_pool.py::test_size - assert 5 == 50" in result.text
    assert "Post job cleanup" not in result.text
    assert "hunter2" not in result.text
    assert "lint" not in result.text
    assert ("/stored/log? None" in " ".join(server.asked)) is (server.kind == "github")


async def test_a_pull_request_is_opened_once(server: GitServer, observer: Observer) -> None:
    given = {"title": "Restore the pool", "head": "fix", "body": "It was too small."}
    first = await observer.call(open_pull_request, **given)
    assert "Restore the pool" in server.opened["title"]
    assert "main" in (server.opened.get("base"), server.opened.get("target_branch"))
    again = await observer.call(open_pull_request, **given)
    assert "is open already" in again.text
    assert sum(one.startswith("POST") for one in server.asked) == 1
    assert open_pull_request.inverse is not None
    number = "!13" if server.kind == "gitlab" else "#13"
    assert open_pull_request.inverse({}, given, first).startswith(f"close {number} of shop/web: ")


async def test_a_pull_request_whose_answer_is_lost_is_found(
    server: GitServer, observer: Observer
) -> None:
    server.status = 502
    made = await observer.call(open_pull_request, title="Restore the pool", head="fix")
    assert made.data["id"] in ("#13", "!13")


@pytest.mark.parametrize(
    ("status", "told"), [(502, OutcomeUnknown), (200, OutcomeUnknown), (422, ToolError)]
)
async def test_a_pull_request_that_is_not_found_has_failed_only_if_the_server_says_so(
    server: GitServer, observer: Observer, status: int, told: type[Exception]
) -> None:
    server.status, server.forgets = status, True
    with pytest.raises(told):
        await observer.call(open_pull_request, title="Restore the pool", head="fix")


async def test_what_lies_on_later_pages_is_found(server: GitServer, observer: Observer) -> None:
    pulls = next(path for path in server.pages if path.endswith(("/pulls", "/merge_requests")))
    late = {
        **server.pages[pulls][0],
        "updated_at": "2026-11-19T03:50:00Z",
        "merged_at": None,
        "user": None,
    }
    jobs = next(path for path in server.pages if path.endswith("/jobs"))
    ended = {"id": 8, "name": "b", "stage": "c", "status": "success", "conclusion": "success"}
    many = deepcopy(server.pages[jobs])
    (many["jobs"] if isinstance(many, dict) else many)[:0] = [ended] * 40
    server.pages = {**server.pages, pulls: [late] * 50 + server.pages[pulls], jobs: many}
    found = await observer.call(git_host, action="pulls", until="2026-11-19T03:20:00Z")
    assert found.data["count"] == 1
    assert (await observer.call(git_host, action="failure")).data["jobs"] == 1


async def test_after_a_crash_an_opened_pull_request_is_found(
    server: GitServer, observer: Observer
) -> None:
    given = open_pull_request.arguments({"title": "Restore the pool", "head": "fix"})
    assert open_pull_request.recover is not None
    assert await open_pull_request.recover(observer.context(), {}, **given) == "not-run"
    await observer.call(open_pull_request, **given)
    found = await open_pull_request.recover(observer.context(), {}, **given)
    assert found.data["id"] in ("#13", "!13")


async def test_the_host_says_who_it_takes_us_for(server: GitServer, observer: Observer) -> None:
    said = await observer.verify()
    assert said == ("answers; Gitea 1.25.1" if server.kind == "gitea" else "answers, as alice")


async def test_a_repository_that_is_not_there_is_said(
    server: GitServer, observer: Observer
) -> None:
    with pytest.raises(ToolError, match="404"):
        await observer.call(git_host, action="recent", repository="shop/nothing")


async def test_without_a_repository_the_configured_ones_are_named(
    server: GitServer, observer: Observer
) -> None:
    source = observer.sources["git"]
    observer.sources["git"] = msgspec.structs.replace(source, repositories=("shop/web", "shop/db"))
    with pytest.raises(ToolError) as caught:
        await observer.call(git_host, action="recent")
    assert "shop/web, shop/db" in caught.value.hint
