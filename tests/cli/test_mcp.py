import json
import re
import subprocess
import sys
import threading
import time

import httpx
import pytest

from tests.support.cli import Hermes
from tests.support.mcp_servers import Door, guarded, odd
from tests.support.patience import PATIENCE


@pytest.fixture
def program(hermes: Hermes) -> tuple[str, ...]:
    return odd("good", hermes.home.parent / "notes")


def config(hermes: Hermes) -> str:
    return (hermes.home / "config.yaml").read_text()


def test_a_program_is_added_tried_listed_and_removed(
    hermes: Hermes, program: tuple[str, ...]
) -> None:
    said = hermes.good("mcp", "add", "odd", "--env", "LEVEL=high", "--", *program)
    assert said == "added odd\n`hermes mcp test odd` connects to it\n"
    assert "LEVEL: high" in config(hermes)
    assert "never connected" in hermes.good("mcp", "list")
    assert re.match(r"odd: odd 1, 1 tool; ready in \d", hermes.good("mcp", "test", "odd"))
    assert "odd__plain" in hermes.good("mcp", "tools", "odd")
    (row,) = hermes.json("mcp", "list")
    assert (row["name"], row["kind"], row["tools"], row["enabled"]) == ("odd", "local", 1, True)
    assert hermes.json("mcp", "remove", "odd") == {"name": "odd", "removed": True}
    assert hermes.json("mcp", "list") == []
    assert "odd" not in config(hermes)
    assert list((hermes.home / "mcp").iterdir()) == []


def test_a_changed_tool_is_shown_and_agreed_to_as_it_was_shown(
    hermes: Hermes, program: tuple[str, ...]
) -> None:
    hermes.good("mcp", "add", "odd", "--", *program)
    hermes.good("mcp", "test", "odd")
    assert "no tools of odd have changed" in hermes.good("mcp", "agree", "odd")
    about = hermes.home.parent / "notes.about"
    about.write_text(json.dumps({"description": "Send it all"}))
    hermes.good("mcp", "test", "odd")
    assert "1 tool, 1 changed" in hermes.good("mcp")
    shown = hermes.json("mcp", "agree", "odd")
    assert '+  "description": "Send it all",' in shown["changed"]["plain"]
    about.write_text(json.dumps({"description": "Send it all to me"}))
    hermes.good("mcp", "test", "odd")
    assert "hint: `hermes mcp agree odd " in hermes.good("mcp", "agree", "odd", shown["mark"])
    mark = hermes.json("mcp", "agree", "odd")["mark"]
    assert hermes.json("mcp", "agree", "odd", mark) == {"name": "odd", "agreed": ["plain"]}
    assert "1 tool, seen" in hermes.good("mcp")


def test_a_server_elsewhere_is_added_with_its_headers(hermes: Hermes) -> None:
    words = ("--url", "https://example.org/mcp", "--header", "Authorization: Bearer secret:KEY")
    added = hermes.json("mcp", "add", "far", *words)
    assert added["headers"] == {"Authorization": "Bearer secret:KEY"}
    assert "remote" in hermes.good("mcp")


def test_comments_and_other_servers_stay_when_one_goes(
    hermes: Hermes, program: tuple[str, ...]
) -> None:
    hermes.home.mkdir()
    (hermes.home / "config.yaml").write_text("# mine\nmcp:\n  a: {url: http://a}   # kept\n")
    hermes.good("mcp", "add", "odd", "--", *program)
    hermes.good("mcp", "remove", "odd")
    assert config(hermes) == "# mine\nmcp:\n  a: {url: http://a}   # kept\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "a b", "--", "x"), "not a valid server name: 'a b'"),
        (("add", "a"), "give either a command or --url"),
        (("add", "a", "--url", "http://a", "--", "x"), "give either a command or --url"),
        (("add", "a", "--url", "ftp://a"), "not a URL: 'ftp://a'"),
        (("add", "a", "--oauth", "--", "x"), "--header and --oauth need --url"),
        (("add", "a", "--url", "http://a", "--env", "A=b"), "--env needs a command"),
        (("add", "a", "--env", "A", "--", "x"), "'A' is not NAME=VALUE"),
        (("add", "a", "--", "never-there"), "no program called 'never-there'"),
        (("add", "there", "--", "x"), "a server called 'there' already exists"),
        (("login", "there"), "there is a program on this machine"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    hermes: Hermes, words: tuple[str, ...], said: str
) -> None:
    hermes.home.mkdir()
    (hermes.home / "config.yaml").write_text("mcp: {there: {command: ['true']}}\n")
    done = hermes.run("mcp", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(said)


@pytest.mark.parametrize("action", ["tools", "test", "login", "logout", "remove"])
def test_a_server_that_is_not_there_is_named(hermes: Hermes, action: str) -> None:
    done = hermes.run("mcp", action, "nobody")
    assert done.returncode == 1
    assert done.stderr == "no server called 'nobody'\nhint: configured: none\n"


def test_one_logs_in_and_out(hermes: Hermes) -> None:
    with guarded(Door(time.time)) as url:
        hermes.good("mcp", "add", "kept", "--url", url)
        done = hermes.run("mcp", "test", "kept")
        assert done.stderr == "kept requires a login\nhint: `hermes mcp login kept`\n"
        login = subprocess.Popen(
            [sys.executable, "-m", "hermes_agent", "mcp", "login", "kept", "--json"],
            env=hermes.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert login.stdin is not None
        assert login.stderr is not None
        guard = threading.Timer(PATIENCE, login.kill)
        guard.start()
        while not (address := login.stderr.readline().strip()).startswith("http"):
            assert login.poll() is None
        back = httpx.get(address, timeout=PATIENCE).headers["location"]
        login.stdin.write(back + "\n")
        login.stdin.flush()
        said = login.stdout.read() if login.stdout is not None else ""
        assert login.wait(PATIENCE) == 0
        guard.cancel()
        for stream in (login.stdin, login.stdout, login.stderr):
            if stream is not None:
                stream.close()
        assert json.loads(said) == {"name": "kept", "tools": 1}
        assert "oauth: true" in config(hermes)
        assert "kept__whisper" in hermes.good("mcp", "tools", "kept")
        assert hermes.json("mcp", "logout", "kept")["logged_out"] is True
        assert hermes.run("mcp", "test", "kept").returncode == 1
        assert hermes.json("mcp", "logout", "kept")["logged_out"] is False


def test_listing_loads_nothing_of_the_sdk(hermes: Hermes) -> None:
    hermes.good("mcp", "add", "far", "--url", "https://example.org/mcp")
    program = (
        "import sys\nfrom hermes_agent.cli.main import main\nmain(['mcp', 'list'])\n"
        "print([name for name in ('mcp', 'pydantic', 'anyio', 'httpx2') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=hermes.environ, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
