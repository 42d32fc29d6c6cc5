import os
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core.errors import UsageError
from hermes_agent.core.protocols import Effect, Verdict
from hermes_agent.core.tools import Tool
from hermes_agent.policy.profiles import PROFILES, open_gate
from hermes_agent.tools.builtin import BUILTIN, load_tools

TOOLS = {tool.name: tool for tool in load_tools()}


class Scene:
    """A workspace, a home beside it, and calls judged in it as the agent would have them."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.home = folder / "home"
        self.elsewhere = folder / "elsewhere"
        for made in (self.workspace, self.home, self.elsewhere):
            made.mkdir()
        (self.workspace / "a.txt").write_text("a")
        (self.elsewhere / "b.txt").write_text("b")

    def judge(
        self,
        profile: str,
        name: str,
        granted: frozenset[str] | None = None,
        tools: dict[str, Tool] = TOOLS,
        **given: Any,
    ) -> Verdict:
        tool = tools[name]
        arguments = tool.arguments(given)
        effect = Effect(
            id="e",
            tool=name,
            input=arguments,
            session="s",
            workspace=str(self.workspace),
            capabilities=tuple(tool.capabilities),
            paths=tuple((access, arguments[path]) for path, access in tool.paths.items()),
            builtin=tool.builtin,
        )
        return open_gate(profile, home=self.home, granted=granted).judge(effect)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


TABLE: list[tuple[str, dict[str, Any], str, str]] = [
    # tool, arguments, careful, sandbox
    ("terminal", {"command": "ls"}, "ask", "allow"),
    ("terminal", {"command": "sleep 9", "background": True}, "ask", "allow"),
    ("process", {"action": "list"}, "allow", "allow"),
    ("process", {"action": "follow", "id": "x"}, "allow", "allow"),
    ("process", {"action": "stop", "id": "x"}, "ask", "allow"),
    ("process", {"action": "send", "id": "x", "text": "y"}, "ask", "allow"),
    ("read_file", {"path": "a.txt"}, "allow", "allow"),
    ("read_file", {"path": "not/there/yet"}, "allow", "allow"),
    ("read_file", {"path": "/etc/passwd"}, "ask", "ask"),
    ("write_file", {"path": "a.txt", "content": "x"}, "ask", "allow"),
    ("write_file", {"path": "../a.txt", "content": "x"}, "ask", "ask"),
    ("patch", {"path": "a.txt", "old": "a", "new": "b"}, "ask", "allow"),
    ("patch", {"path": "../elsewhere/b.txt", "old": "b", "new": "c"}, "ask", "ask"),
    ("search_files", {"pattern": "x"}, "allow", "allow"),
    ("search_files", {"pattern": "x", "path": ".."}, "ask", "ask"),
    ("ask_user", {"question": "x"}, "allow", "allow"),
]


@pytest.mark.parametrize(("name", "given", "careful", "sandbox"), TABLE)
def test_each_built_in_tool_is_judged_by_each_profile(
    scene: Scene, name: str, given: dict[str, Any], careful: str, sandbox: str
) -> None:
    judged = {profile: scene.judge(profile, name, **given).action for profile in PROFILES}
    assert judged == {"careful": careful, "sandbox": sandbox}


def test_the_table_walks_all_built_in_tools() -> None:
    assert {row[0] for row in TABLE} == set(BUILTIN)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_tool_that_no_rule_knows_asks(scene: Scene, profile: str) -> None:
    def new_tool(path: str) -> str:
        return path

    for capabilities in ((), ("network",), ("filesystem", "network"), ("process",)):
        tool = Tool("new_tool", new_tool, "", capabilities, paths={"path": "read"}, builtin=True)
        verdict = scene.judge(profile, "new_tool", tools={"new_tool": tool}, path="a.txt")
        assert verdict.action == "ask"


def escapes(scene: Scene) -> list[str]:
    (scene.workspace / "link").symlink_to(scene.elsewhere)
    (scene.workspace / "file-link").symlink_to(scene.elsewhere / "b.txt")
    (scene.workspace / "second").symlink_to("link")
    (scene.workspace / "dangling").symlink_to(scene.elsewhere / "not-there")
    (scene.workspace / "loop").symlink_to("loop")
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


@pytest.mark.parametrize("profile", PROFILES)
def test_no_way_out_of_the_workspace_is_taken_without_a_question(
    scene: Scene, profile: str
) -> None:
    for path in escapes(scene):
        read = scene.judge(profile, "read_file", path=path)
        write = scene.judge(profile, "write_file", path=path, content="x")
        assert (path, read.action, write.action) == (path, "ask", "ask")
        assert repr(path) in read.reason


@pytest.mark.parametrize("path", [".", "", "a.txt", "./x/../a.txt", "back/workspace/a.txt"])
def test_roundabout_ways_that_stay_inside_are_allowed(scene: Scene, path: str) -> None:
    (scene.workspace / "back").symlink_to(scene.workspace.parent)
    assert scene.judge("careful", "read_file", path=path).action == "allow"


def test_a_workspace_reached_by_a_link_is_still_the_workspace(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    (tmp_path / "alias").symlink_to(scene.workspace)
    scene.workspace = tmp_path / "alias"
    assert scene.judge("careful", "read_file", path="a.txt").action == "allow"
    real = str(tmp_path / "workspace" / "a.txt")
    assert scene.judge("careful", "read_file", path=real).action == "allow"


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "path",
    [".env", ".env.local", "deep/.ENV", "server.pem", "id_ed25519", ".ssh/known_hosts", "cert.key",
     ".netrc", "harmless.txt"],
)  # fmt: skip
def test_files_that_hold_secrets_ask_inside_the_workspace_too(
    scene: Scene, profile: str, path: str
) -> None:
    (scene.workspace / "harmless.txt").symlink_to(".env")
    for name, rest in (("read_file", {}), ("search_files", {"pattern": "x"})):
        verdict = scene.judge(profile, name, path=path, **rest)
        assert (verdict.action, verdict.rule) == ("ask", "secret-files")


@pytest.mark.parametrize(
    "path", [".env.example", "id_rsa.pub", "environment.py", "keys.py", "README.md", "key"]
)
def test_files_that_only_sound_like_secrets_are_read(scene: Scene, path: str) -> None:
    assert scene.judge("careful", "read_file", path=path).action == "allow"


@pytest.mark.parametrize(
    "path",
    [".git/hooks/pre-commit", "sub/.git/config", ".bashrc", ".zshenv", ".profile", ".envrc",
     "hooks/post-merge"],
)  # fmt: skip
def test_what_other_programs_run_later_is_not_written_without_a_question(
    scene: Scene, path: str
) -> None:
    (scene.workspace / ".git").mkdir()
    (scene.workspace / ".git/hooks").mkdir()
    (scene.workspace / "hooks").symlink_to(".git/hooks")
    verdict = scene.judge("sandbox", "write_file", path=path, content="x")
    assert (verdict.action, verdict.rule) == ("ask", "startup-files")
    assert scene.judge("sandbox", "read_file", path=path).action == "allow"


@pytest.mark.parametrize("path", [".gitignore", ".github/x.yml", "git/hooks.md", "profile.py"])
def test_ordinary_dot_files_are_written_in_the_sandbox(scene: Scene, path: str) -> None:
    assert scene.judge("sandbox", "write_file", path=path, content="x").action == "allow"


@pytest.mark.parametrize("profile", PROFILES)
def test_a_home_inside_the_workspace_is_not_touched_without_a_question(
    scene: Scene, profile: str
) -> None:
    scene.home = scene.workspace / ".hermes"
    scene.home.mkdir()
    for path in (".hermes/config.yaml", ".hermes/.env", ".hermes/state.db", ".hermes"):
        assert scene.judge(profile, "read_file", path=path).action == "ask"
        assert scene.judge(profile, "write_file", path=path, content="x").action == "ask"
    search = scene.judge(profile, "search_files", pattern="x")
    assert (search.action, search.rule) == ("ask", "hermes-home")
    assert scene.judge(profile, "read_file", path="a.txt").action == "allow"


def test_a_workspace_inside_the_home_can_be_worked_in(scene: Scene) -> None:
    scene.home = scene.workspace.parent
    assert scene.judge("careful", "read_file", path="a.txt").action == "allow"
    assert scene.judge("sandbox", "write_file", path="a.txt", content="x").action == "allow"
    above = scene.judge("sandbox", "write_file", path="../config.yaml", content="x")
    assert (above.action, above.rule) == ("ask", "hermes-home")


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
    verdict = scene.judge(profile, "fetch", granted, OWN, url="http://x")
    assert verdict.action == action
    assert action != "deny" or "lacks the capability network" in verdict.reason


@pytest.mark.parametrize("profile", PROFILES)
def test_a_capability_the_agent_lacks_is_refused_for_built_in_tools_too(
    scene: Scene, profile: str
) -> None:
    none: frozenset[str] = frozenset()
    assert scene.judge(profile, "read_file", none, path="a.txt").action == "deny"
    assert scene.judge(profile, "terminal", none, command="ls").action == "deny"
    assert scene.judge(profile, "ask_user", none, question="x").action == "allow"


def test_a_programs_own_tool_still_asks_to_leave_the_workspace(scene: Scene) -> None:
    tools = {"keep": Tool("keep", fetch, paths={"url": "write"})}
    assert scene.judge("careful", "keep", None, tools, url="inside.txt").action == "allow"
    assert scene.judge("careful", "keep", None, tools, url="/etc/hosts").action == "ask"


def test_a_programs_own_tool_gains_nothing_by_a_built_in_name(scene: Scene) -> None:
    tools = {"ask_user": Tool("ask_user", fetch, capabilities=["network"])}
    granted = frozenset({"process"})
    assert scene.judge("sandbox", "ask_user", granted, tools, url="x").action == "deny"


def test_the_person_asked_reads_what_would_happen(scene: Scene) -> None:
    command = scene.judge("careful", "terminal", command="rm -rf build")
    assert command.reason == "it would run `rm -rf build`"
    write = scene.judge("careful", "write_file", path="a.txt", content="x")
    assert write.reason == "it would change 'a.txt'"
    link = scene.workspace / "link"
    link.symlink_to(scene.elsewhere)
    away = scene.judge("careful", "read_file", path="link/b.txt")
    assert str(scene.elsewhere.resolve() / "b.txt") in away.reason


def test_an_unknown_profile_is_named_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        open_gate("yolo", home=tmp_path)
    assert "'yolo'" in caught.value.message
    assert "careful, sandbox" in caught.value.hint


@pytest.mark.parametrize("profile", PROFILES)
def test_a_session_reads_its_own_large_results_and_nobody_elses(scene: Scene, profile: str) -> None:
    for kind in ("results", "terminals"):
        for session in ("mine", "yours"):
            (scene.home / kind / session).mkdir(parents=True)
            (scene.home / kind / session / "1.txt").touch()

    def reading(path: str, granted: frozenset[str] | None = None) -> str:
        effect = Effect(
            id="e", tool="read_file", input={"path": path}, session="mine",
            workspace=str(scene.workspace), capabilities=("filesystem",), paths=(("read", path),),
        )  # fmt: skip
        return open_gate(profile, home=scene.home, granted=granted).judge(effect).action

    assert reading(f"{scene.home}/results/mine/1.txt") == "allow"
    assert reading(f"{scene.home}/terminals/mine/1.txt") == "allow"
    assert reading(f"{scene.home}/results/yours/1.txt") == "ask"
    assert reading(f"{scene.home}/results/mine/../yours/1.txt") == "ask"
    assert reading(f"{scene.home}/results/mine/../../config.yaml") == "ask"
    assert reading(f"{scene.home}/results/mine/1.txt", frozenset({"network"})) == "deny"
