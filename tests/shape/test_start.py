"""The first thing a user types answers at once, because it imports next to nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_agent import __version__

HEAVY = {
    "apsw", "asyncio", "concurrent", "dataclasses", "email", "http", "httpx", "inspect", "logging",
    "msgspec", "prompt_toolkit", "rich", "ruamel", "selectors", "socket", "sqlite3", "ssl",
    "starlette", "subprocess", "tempfile", "urllib", "uvicorn", "yaml",
}  # fmt: skip

PROGRAM = """
import sys
before = set(sys.modules)
sys.argv = ["hermes", sys.argv[1]]
from hermes_agent.cli.main import main
code = 0
try:
    code = main()
except SystemExit as end:
    code = end.code
names = sorted(set(sys.modules) - before)
import json
installed = [n for n in names if "site-packages" in (getattr(sys.modules[n], "__file__", "") or "")]
print(json.dumps({"code": code or 0, "names": names, "installed": installed}), file=sys.stderr)
"""


def start(argument: str, folder: Path) -> tuple[str, set[str], list[str]]:
    """What is printed, the outermost names imported, and which of them were installed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, argument], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stderr.splitlines()[-1])
    assert seen["code"] == 0
    return done.stdout, {name.split(".")[0] for name in seen["names"]}, seen["installed"]


def test_version_is_printed_without_importing_anything_heavy(tmp_path: Path) -> None:
    printed, names, installed = start("--version", tmp_path)
    assert __version__ in printed
    assert names & (HEAVY | {"argparse", "json"}) == set()
    assert installed == []


@pytest.mark.parametrize("argument", ["--help", "-h"])
def test_help_is_printed_without_importing_anything_heavier_than_argparse(
    argument: str, tmp_path: Path
) -> None:
    printed, names, installed = start(argument, tmp_path)
    assert "ask" in printed
    assert names & HEAVY == set()
    assert installed == []


LATER = (
    "hermes_agent.policy.shell", "hermes_agent.policy.ruleset",
    "hermes_agent.tools.browser.browser",
    "hermes_agent.tools.mcp", "hermes_agent.tools.web",
    "hermes_agent.terminals.code_sandbox.runner",
    "httpx", "mcp", "pydantic", "fastjsonschema", "starlette", "importlib.resources",
    "hermes_agent.learning.injection_scan.scan",
)  # fmt: skip


def test_a_runtime_starts_without_what_only_some_turns_need() -> None:
    program = "import sys; import hermes_agent.runtime.runtime; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert set(LATER) & set(done.stdout.split()) == set()


HTTP = """
import sys
from hermes_agent.models.wires import http
http._load_httpx()
print(*sys.modules)
from httpcore._async.http2 import AsyncHTTP2Connection
print(AsyncHTTP2Connection.__module__)
"""


def test_a_model_is_asked_without_loading_what_only_http_2_needs() -> None:
    done = subprocess.run([sys.executable, "-c", HTTP], capture_output=True, text=True)
    loaded, later = done.stdout.splitlines()
    assert {"h2", "rich", "click"} & set(loaded.split()) == set()
    assert later == "httpcore._async.http2"


TURN = """
import asyncio, sys
from pathlib import Path
from hermes_agent.core.events import TurnFinished
from hermes_agent.core.records import SessionMessage
from hermes_agent.runtime.runtime import Runtime

async def main(home):
    runtime = Runtime(Path(home), {})
    await runtime.start()
    session = await runtime.sessions.open_session(workspace=home, model="scripted/demo")
    await runtime.sessions.submit(session, SessionMessage("m1", "hello", "test", False))
    events = runtime.context.store.events
    while not any(isinstance(one.event, TurnFinished) for one in await events(session.id)):
        await asyncio.sleep(0.01)
    await runtime.stop()

asyncio.run(main(sys.argv[1]))
print(*sys.modules)
"""


def test_production_sources_are_not_loaded_by_a_turn_that_asks_none(tmp_path: Path) -> None:
    source = "sources: {prod: {kind: prometheus, url: 'http://127.0.0.1:9'}}\n"
    (tmp_path / "config.yaml").write_text(source)
    command = [sys.executable, "-c", TURN, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert done.returncode == 0, done.stderr
    assert [one for one in loaded if one.startswith("hermes_agent.tools.sources")] == []
