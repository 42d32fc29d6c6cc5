"""What the bundled profiles say to calls of the built-in tools, on a real disk."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core.effects import Effect, Verdict, paths_in
from hermes_agent.core.text.addresses import host_of
from hermes_agent.core.tools import Tool
from hermes_agent.policy.files.loader import Policies
from hermes_agent.policy.path_resolvers import on_disk
from hermes_agent.runtime.tools.builtin import TABLE as BUILTIN
from hermes_agent.runtime.tools.builtin import load_tools

TOOLS = {tool.name: tool for tool in load_tools()}
PROFILES = ("careful", "operate", "observe", "sandbox")
KEPT = ("careful", "operate", "observe")
"""Profiles in which not everything is allowed."""


class Scene:
    """A workspace, a home beside it, and calls judged in it as the agent would have them."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.home = folder / "hermes"
        self.user = folder / "user"
        self.elsewhere = folder / "elsewhere"
        for made in (self.workspace, self.home, self.user, self.elsewhere):
            made.mkdir()
        (self.workspace / "a.txt").write_text("a")
        (self.elsewhere / "b.txt").write_text("b")

    def judge(
        self,
        profile: str,
        name: str,
        /,
        *,
        capabilities: frozenset[str] | None = None,
        tools: dict[str, Tool] = TOOLS,
        session: str = "s",
        **given: Any,
    ) -> Verdict:
        tool = tools[name]
        arguments = tool.arguments(given)
        effect = Effect(
            id="e",
            tool=name,
            input=arguments,
            session=session,
            workspace=str(self.workspace),
            capabilities=tuple(tool.capabilities),
            command=arguments.get("command") if name == "terminal" else None,
            paths=tuple(
                (access, path)
                for name, access in tool.paths.items()
                for path in paths_in(arguments[name])
            ),
            hosts=tuple(host_of(arguments[name]) for name in tool.hosts if arguments[name]),
            origin=tool.origin,
        )
        gate = Policies.of_home(self.home, self.user).gate(profile, capabilities)
        return asyncio.run(gate.judge(effect, on_disk))

    def says(self, profile: str, name: str, /, **given: Any) -> str:
        return self.judge(profile, name, **given).action


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


TABLE: list[tuple[str, dict[str, Any], str]] = [
    # tool, arguments, what careful, operate, observe and sandbox say
    ("terminal", {"command": "ls"}, "allow allow allow allow"),
    ("terminal", {"command": "sleep 9", "background": True}, "allow allow allow allow"),
    ("terminal", {"command": "touch x"}, "ask allow deny allow"),
    ("terminal", {"command": "rm a.txt"}, "ask ask deny allow"),
    ("terminal", {"command": "./run"}, "allow allow allow allow"),
    ("terminal", {"command": "$X"}, "allow allow allow allow"),
    ("terminal", {"command": "$X", "changes": True}, "ask ask deny allow"),
    ("terminal", {"command": "rm -rf /"}, "deny deny deny deny"),
    ("process", {"action": "list"}, "allow allow allow allow"),
    ("process", {"action": "follow", "id": "x"}, "allow allow allow allow"),
    ("process", {"action": "stop", "id": "x"}, "ask ask deny allow"),
    ("process", {"action": "send", "id": "x", "text": "y"}, "ask ask deny allow"),
    ("read_file", {"path": "a.txt"}, "allow allow allow allow"),
    ("read_file", {"path": "not/there/yet"}, "allow allow allow allow"),
    ("read_file", {"path": "/etc/hostname"}, "allow allow allow allow"),
    ("read_file", {"path": "/etc/shadow"}, "deny deny deny deny"),
    ("write_file", {"path": "a.txt", "content": "x"}, "ask allow deny allow"),
    ("write_file", {"path": "../a.txt", "content": "x"}, "ask ask deny allow"),
    ("patch", {"path": "a.txt", "old": "a", "new": "b"}, "ask allow deny allow"),
    ("patch", {"path": "../elsewhere/b.txt", "old": "b", "new": "c"}, "ask ask deny allow"),
    ("search_files", {"pattern": "x"}, "allow allow allow allow"),
    ("search_files", {"pattern": "x", "path": "/"}, "ask ask ask allow"),
    ("ask_user", {"question": "x"}, "allow allow allow allow"),
    ("read_on", {"result": "x"}, "allow allow allow allow"),
    ("todo", {"items": []}, "allow allow allow allow"),
    ("web_search", {"query": "x"}, "allow allow allow allow"),
    ("web_fetch", {"url": "https://example.com/a"}, "ask ask deny allow"),
    ("web_fetch", {"url": "http://localhost:9090/"}, "ask ask deny allow"),
    ("web_fetch", {"url": "http://169.254.169.254/"}, "deny deny deny deny"),
    ("browser", {"action": "open", "url": "https://example.com/a"}, "ask ask deny allow"),
    ("browser", {"action": "snapshot"}, "allow allow allow allow"),
    ("browser_act", {"page": "example.com", "action": "click"}, "ask ask deny allow"),
    ("execute_code", {"code": "print(1)"}, "allow allow allow allow"),
    ("delegate", {"tasks": [{"task": "x"}]}, "allow allow allow allow"),
    ("find_tools", {"query": "x"}, "allow allow allow allow"),
    ("use_tool", {"name": "x"}, "ask ask deny allow"),
    ("make_tool", {"name": "x", "code": ""}, "ask ask deny allow"),
    ("memory", {"action": "add", "text": "x"}, "allow allow deny allow"),
    ("skill", {"name": "x"}, "allow allow allow allow"),
    ("write_skill", {"name": "x", "files": {}, "why": "x"}, "allow allow deny allow"),
    ("recall", {"query": "x"}, "allow allow allow allow"),
    ("incident", {"action": "verify"}, "allow allow allow allow"),
    ("task", {"action": "list"}, "allow allow allow allow"),
    ("task", {"action": "add", "when": "30m", "prompt": "x"}, "ask ask deny allow"),
    ("task", {"action": "remove", "name": "x"}, "ask ask deny allow"),
    ("send_message", {"text": "x", "target": "here"}, "allow allow allow allow"),
    ("send_message", {"text": "x", "target": "telegram:1"}, "ask ask deny allow"),
    ("send_message", {"target": "here", "files": ["/etc/shadow"]}, "deny deny deny deny"),
    ("what_changed", {"around": "now"}, "allow allow allow allow"),
    ("prometheus", {"action": "alerts"}, "allow allow allow allow"),
    ("alertmanager", {"action": "alerts"}, "allow allow allow allow"),
    ("silence_alerts", {"action": "create"}, "ask ask deny allow"),
    ("journal", {"action": "units"}, "allow allow allow allow"),
    ("loki", {"action": "labels"}, "allow allow allow allow"),
    ("opensearch", {"action": "fields"}, "allow allow allow allow"),
    ("log_files", {"action": "tail", "path": "a.txt"}, "allow allow allow allow"),
    ("log_files", {"action": "tail", "path": ["a.txt", "/etc/shadow"]}, "deny deny deny deny"),
    ("kubernetes", {"action": "overview"}, "allow allow allow allow"),
    ("containers", {"action": "list"}, "allow allow allow allow"),
    ("git_host", {"action": "recent"}, "allow allow allow allow"),
    ("open_pull_request", {"title": "x", "head": "x"}, "ask ask deny allow"),
    ("argocd", {"action": "applications"}, "allow allow allow allow"),
    ("postgresql", {"action": "locks"}, "allow allow allow allow"),
    ("mysql", {"action": "locks"}, "allow allow allow allow"),
    ("redis", {"action": "slow"}, "allow allow allow allow"),
    ("probe", {"target": "https://example.com/a"}, "ask ask deny allow"),
    ("probe", {"target": "http://localhost:9090/"}, "allow allow allow allow"),
    ("probe", {"target": "http://169.254.169.254/", "action": "http"}, "deny deny deny deny"),
    ("remind", {"when": "30m", "text": "x"}, "allow allow allow allow"),
    ("remind", {"when": "30m", "text": "x", "target": "phone"}, "ask ask deny allow"),
    ("make_image", {"prompt": "x", "path": "a.png"}, "ask ask deny allow"),
    ("speak", {"text": "x", "path": "a.ogg"}, "ask allow deny allow"),
    ("transcribe", {"path": "a.ogg"}, "allow allow allow allow"),
    ("read_feed", {"url": "https://example.com/feed"}, "ask ask deny allow"),
    ("calendar", {"url": "https://example.com/a.ics"}, "ask ask deny allow"),
]


@pytest.mark.parametrize(("name", "given", "expected"), TABLE)
def test_each_built_in_tool_is_judged_by_each_profile(
    scene: Scene, name: str, given: dict[str, Any], expected: str
) -> None:
    assert " ".join(scene.says(profile, name, **given) for profile in PROFILES) == expected


@pytest.mark.parametrize("profile", ["careful", "operate"])
def test_consent_to_one_new_tool_is_none_to_another(scene: Scene, profile: str) -> None:
    first, same, other = (
        scene.judge(profile, "make_tool", name="x", code=code) for code in ("1", "1", "2")
    )
    assert first.grants == same.grants
    assert set(first.grants).isdisjoint(other.grants)


def test_the_table_walks_all_built_in_tools() -> None:
    assert {row[0] for row in TABLE} == set(BUILTIN)


@pytest.mark.parametrize("profile", KEPT)
def test_a_tool_that_no_rule_knows_is_not_run_without_a_question(
    scene: Scene, profile: str
) -> None:
    def new_tool(path: str) -> str:
        return path

    for capabilities in ((), ("network",), ("filesystem", "network"), ("process",)):
        tool = Tool(
            "new_tool", new_tool, "", capabilities, paths={"path": "read"}, origin="builtin"
        )
        verdict = scene.judge(profile, "new_tool", tools={"new_tool": tool}, path="a.txt")
        assert verdict.action == ("deny" if profile == "observe" else "ask")


def escapes(scene: Scene) -> list[str]:
    (scene.workspace / "link").symlink_to(scene.elsewhere)
    (scene.workspace / "file-link").symlink_to(scene.elsewhere / "b.txt")
    (scene.workspace / "second").symlink_to("link")
    (scene.workspace / "dangling").symlink_to(scene.elsewhere / "not-there")
    (scene.workspace / "inner").mkdir()
    beside = scene.workspace.with_name("workspace-2")
    return [
        "..",
        "../elsewhere/b.txt",
        "inner/../../elsewhere/b.txt",
        "not-there/../../elsewhere/b.txt",
        str(scene.elsewhere / "b.txt"),
        "/",
        "~",
        "~/notes.txt",
        "~root/notes.txt",
        "link/b.txt",
        "link/new.txt",
        "file-link",
        "second/b.txt",
        "dangling",
        "link/../workspace-2/x",
        str(beside / "x"),
        "../workspace-2/x",
        f"{os.sep}{scene.elsewhere / 'b.txt'}",
    ]


def test_nothing_is_written_out_of_the_workspace_without_a_question(scene: Scene) -> None:
    for path in escapes(scene):
        verdict = scene.judge("operate", "write_file", path=path, content="x")
        assert (path, verdict.action) == (path, "ask")
        assert path in verdict.reason


@pytest.mark.parametrize("path", [".", "a.txt", "./x/../a.txt", "back/workspace/a.txt"])
def test_roundabout_ways_that_stay_inside_are_allowed(scene: Scene, path: str) -> None:
    (scene.workspace / "back").symlink_to(scene.workspace.parent)
    assert scene.says("operate", "write_file", path=path, content="x") == "allow"


def test_a_workspace_reached_by_a_link_is_still_the_workspace(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    (tmp_path / "alias").symlink_to(scene.workspace)
    scene.workspace = tmp_path / "alias"
    assert scene.says("operate", "write_file", path="a.txt", content="x") == "allow"
    real = str(tmp_path / "workspace" / "a.txt")
    assert scene.says("operate", "write_file", path=real, content="x") == "allow"


@pytest.mark.parametrize("profile", KEPT)
@pytest.mark.parametrize(
    "path",
    [".env", ".env.local", "deep/.env", "server.pem", "id_ed25519", ".ssh/known_hosts", "cert.key",
     ".npmrc", "harmless.txt"],
)  # fmt: skip
def test_files_that_hold_secrets_ask_inside_the_workspace_too(
    scene: Scene, profile: str, path: str
) -> None:
    (scene.workspace / "harmless.txt").symlink_to(".env")
    for name, rest in (("read_file", {}), ("search_files", {"pattern": "x"})):
        verdict = scene.judge(profile, name, path=path, **rest)
        assert (verdict.action, verdict.rule) == ("ask", "looking/secret-files")
    assert scene.says(profile, "terminal", command=f"cat {path}") == "ask"


def test_well_known_secrets_are_denied_however_they_are_reached(scene: Scene) -> None:
    folder = scene.user / ".codex"
    folder.mkdir(parents=True)
    (folder / "auth.json").touch()
    (scene.workspace / "notes").symlink_to(folder / "auth.json")
    commands = (
        "cat ~/.codex/*", "cat ~/.codex/auth.jso?", "cat notes", "cd ~/.codex; cat auth.json",
        "head < ~/.codex/auth.json", "base64 -- ~/.codex/auth.json", "cp notes x",
        "diff /dev/null ~/.codex/auth.json", "curl -d @notes http://localhost/",
        "docker run -v ~/.codex/auth.json:/x:ro debian",
    )  # fmt: skip
    for profile in (*KEPT, "sandbox"):
        assert scene.says(profile, "read_file", path="notes") == "deny"
        assert [
            command
            for command in commands
            if scene.says(profile, "terminal", command=command) != "deny"
        ] == []
    assert scene.says("careful", "terminal", command="grep -r x ~/.codex") == "ask"
    assert scene.says("careful", "terminal", command="ls -l ~/.codex notes") == "allow"


def test_a_glob_shows_no_secrets_without_a_question(scene: Scene) -> None:
    (scene.workspace / "conf").mkdir()
    (scene.workspace / "conf" / "server.key").touch()
    (scene.workspace / "conf" / "plain.txt").touch()
    assert scene.says("careful", "terminal", command="cat conf/*") == "ask"
    assert scene.says("careful", "terminal", command='for f in conf/*; do cat "$f"; done') == "ask"
    assert scene.says("careful", "terminal", command="cat conf/*.txt") == "allow"
    assert scene.says("careful", "terminal", command="ls -l conf/*") == "allow"


@pytest.mark.parametrize(
    "path", [".env.example", "id_rsa.pub", "environment.py", "keys.py", "README.md", "key"]
)
def test_files_that_only_sound_like_secrets_are_read(scene: Scene, path: str) -> None:
    assert scene.says("careful", "read_file", path=path) == "allow"


@pytest.mark.parametrize(
    "path",
    [".git/hooks/pre-commit", "sub/.git/config", ".bashrc", ".zshenv", ".profile", ".envrc",
     "hooks/post-merge", ".ssh/authorized_keys", ".github/workflows/x.yml"],
)  # fmt: skip
def test_what_other_programs_run_later_is_not_written_without_a_question(
    scene: Scene, path: str
) -> None:
    (scene.workspace / ".git").mkdir()
    (scene.workspace / ".git/hooks").mkdir()
    (scene.workspace / "hooks").symlink_to(".git/hooks")
    verdict = scene.judge("operate", "write_file", path=path, content="x")
    assert (verdict.action, verdict.rule) == ("ask", "operate/written-for-others")
    assert scene.says("operate", "terminal", command=f"echo x > {path}") == "ask"


@pytest.mark.parametrize("path", [".gitignore", ".github/x.yml", "git/hooks.md", "profile.py"])
def test_ordinary_dot_files_are_written_by_those_who_operate(scene: Scene, path: str) -> None:
    assert scene.says("operate", "write_file", path=path, content="x") == "allow"


@pytest.mark.parametrize("profile", PROFILES)
def test_a_home_inside_the_workspace_is_guarded(scene: Scene, profile: str) -> None:
    scene.home = scene.workspace / ".hermes"
    scene.home.mkdir()
    for path in (".hermes/config.yaml", ".hermes/.env", ".hermes/state.db", ".hermes"):
        assert scene.says(profile, "write_file", path=path, content="x") == "deny"
    assert scene.says(profile, "read_file", path=".hermes/.env") == "deny"
    if profile in KEPT:
        assert scene.says(profile, "read_file", path=".hermes/config.yaml") == "ask"
        search = scene.judge(profile, "search_files", pattern="x")
        assert (search.action, search.rule) == ("ask", "looking/wide-folders")
    assert scene.says(profile, "read_file", path="a.txt") == "allow"


def test_a_workspace_inside_the_home_can_be_worked_in(scene: Scene) -> None:
    scene.home = scene.workspace.parent
    assert scene.says("careful", "read_file", path="a.txt") == "allow"
    assert scene.says("operate", "write_file", path="a.txt", content="x") == "allow"
    above = scene.judge("sandbox", "write_file", path="../config.yaml", content="x")
    assert (above.action, above.rule) == ("deny", "always/own-rules")


def fetch(url: str) -> str:
    """Fetch content from a URL."""
    return url


OWN = {"fetch": Tool("fetch", fetch, capabilities=["network"])}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("granted", "action"),
    [(None, "allow"), (frozenset({"network"}), "allow"), (frozenset({"filesystem"}), "deny")],
)
def test_a_programs_own_tool_needs_the_capability_the_program_granted(
    scene: Scene, profile: str, granted: frozenset[str] | None, action: str
) -> None:
    verdict = scene.judge(profile, "fetch", capabilities=granted, tools=OWN, url="http://x")
    assert verdict.action == action
    assert action != "deny" or "lacks the capability network" in verdict.reason


@pytest.mark.parametrize("profile", PROFILES)
def test_a_capability_the_agent_lacks_is_refused_for_built_in_tools_too(
    scene: Scene, profile: str
) -> None:
    none: frozenset[str] = frozenset()
    assert scene.says(profile, "read_file", capabilities=none, path="a.txt") == "deny"
    assert scene.says(profile, "terminal", capabilities=none, command="ls") == "deny"
    assert scene.says(profile, "ask_user", capabilities=none, question="x") == "allow"
    for one in (frozenset({"filesystem"}), frozenset({"network"})):  # a service may do it
        assert scene.says(profile, "transcribe", capabilities=one, path="a.ogg") == "deny"
        assert scene.says(profile, "speak", capabilities=one, text="x", path="a.ogg") == "deny"
        assert scene.says(profile, "make_image", capabilities=one, prompt="x", path="a") == "deny"


def test_a_programs_own_tool_still_asks_to_leave_the_workspace(scene: Scene) -> None:
    tools = {"keep": Tool("keep", fetch, paths={"url": "write"})}
    assert scene.says("operate", "keep", tools=tools, url="inside.txt") == "allow"
    assert scene.says("operate", "keep", tools=tools, url="/etc/hosts") == "ask"
    assert scene.says("observe", "keep", tools=tools, url="inside.txt") == "deny"


def test_a_programs_own_tool_gains_nothing_by_a_built_in_name(scene: Scene) -> None:
    tools = {"ask_user": Tool("ask_user", fetch, capabilities=["network"])}
    granted = frozenset({"process"})
    assert scene.says("sandbox", "ask_user", capabilities=granted, tools=tools, url="x") == "deny"


def test_the_person_asked_reads_what_would_happen(scene: Scene) -> None:
    command = scene.judge("careful", "terminal", command="rm -rf build")
    assert "it deletes" in command.reason
    assert "`rm -rf build`" in command.reason
    write = scene.judge("careful", "write_file", path="a.txt", content="x")
    assert write.reason == "it changes a file: writing 'a.txt'"
    (scene.workspace / "link").symlink_to(scene.elsewhere)
    away = scene.judge("careful", "write_file", path="link/b.txt", content="x")
    assert str(scene.elsewhere.resolve() / "b.txt") in away.reason


def test_consent_to_delete_covers_the_very_same_words_only(scene: Scene) -> None:
    first = scene.judge("careful", "terminal", command="rm a.txt").grants
    again = scene.judge("careful", "terminal", command="rm a.txt").grants
    other = scene.judge("careful", "terminal", command="rm b.txt").grants
    assert first == again
    assert not set(first) & set(other)


@pytest.mark.parametrize("profile", KEPT)
def test_a_session_reads_its_own_large_results_and_nobody_elses(scene: Scene, profile: str) -> None:
    for kind in ("results", "terminals"):
        for session in ("mine", "yours"):
            (scene.home / kind / session).mkdir(parents=True)
            (scene.home / kind / session / "1.txt").touch()

    def reading(path: str, capabilities: frozenset[str] | None = None) -> str:
        return scene.says(
            profile,
            "read_file",
            session="mine",
            capabilities=capabilities,
            path=f"{scene.home}/{path}",
        )

    assert reading("results/mine/1.txt") == "allow"
    assert reading("terminals/mine/1.txt") == "allow"
    assert reading("results/yours/1.txt") == "ask"
    assert reading("results/mine/../yours/1.txt") == "ask"
    assert reading("results/mine/../../config.yaml") == "ask"
    assert reading("results/mine/1.txt", frozenset({"network"})) == "deny"


@pytest.mark.parametrize("profile", KEPT)
def test_a_repository_within_the_workspace_is_not_trusted_with_its_settings(
    scene: Scene, profile: str
) -> None:
    """Its `core.fsmonitor` would run: also that of a bare one, which a clone can bring along."""
    for kind, marks in {"bare": ("HEAD",), "nested": (".git", ".git/config")}.items():
        folder = scene.workspace / kind / "deep"
        folder.mkdir(parents=True)
        for mark in marks:
            made = folder.parent / mark
            made.mkdir() if mark == ".git" else made.write_text("")
        for run in (f"git -C {kind} status", f"cd {kind} && git log", f"git -C {kind}/deep diff"):
            assert scene.says(profile, "terminal", command=run) != "allow", run
    (scene.workspace / "src").mkdir()
    (scene.workspace / ".git").mkdir()
    for run in ("git status", "git -C src status", "cd src && git log", "git -C /opt/app log"):
        assert scene.says(profile, "terminal", command=run) == "allow", run
    odd = scene.judge(profile, "terminal", command="git -C / -C tmp status")
    assert (odd.understood, odd.confinement) == (False, "read-only")
