"""`hermes model key`, `login` and `services`: keys come in, are used and never shown."""

import json
import stat
import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec
import pytest

from tests.support.cli import PATIENCE, Hermes, Pane, wait_until
from tests.support.model_service import ANSWER, served
from tests.support.oauth_server import OAuthServer
from tests.support.openai_server import OpenAIServer

KEY = "sk-a-key-of-the-tests"


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer([ANSWER] * 9) as running:
        yield running


@pytest.fixture
def keyed(hermes: Hermes, server: OpenAIServer) -> Hermes:
    """A Hermes home whose service wants a key."""
    served(hermes, server, service={"needs_key": True, "key_variables": ["MINE_KEY"]})
    return hermes


def sent_key(server: OpenAIServer) -> str:
    return server.requests[-1].headers["authorization"]


def test_a_key_from_a_pipe_is_kept_where_nobody_else_reads_it(keyed: Hermes) -> None:
    done = keyed.run("model", "key", "mine", input=f"{KEY}\n")
    assert done.returncode == 0
    assert "MINE_KEY in " in done.stdout
    assert KEY not in done.stdout + done.stderr
    file = keyed.home / ".env"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == f"MINE_KEY={KEY}\n"
    told = json.loads(keyed.good("model", "key", "mine", "--json", input="sk-other-key\n"))
    assert told["service"] == "mine"
    assert file.read_text() == "MINE_KEY=sk-other-key\n"


def test_a_key_that_is_typed_is_not_shown(keyed: Hermes) -> None:
    command = [sys.executable, "-m", "hermes_agent", "model", "key", "mine"]
    pane = Pane(keyed.work, command, keyed.environ)
    try:
        pane.shows("key for mine (not shown):")
        pane.enter(KEY)
        assert KEY not in pane.shows("stored in MINE_KEY")
        wait_until(pane.has_ended, "the command to end")
    finally:
        pane.close()
    assert KEY in (keyed.home / ".env").read_text()


def test_a_runtime_that_is_up_uses_a_new_key_without_a_restart(
    keyed: Hermes, server: OpenAIServer
) -> None:
    keyed.good("up")
    refused = keyed.run("ask", "hello")
    assert refused.returncode == 1
    assert "`hermes model key mine`" in refused.stderr
    keyed.good("model", "key", "mine", input=f"{KEY}\n")
    keyed.ask("hello", "--name", "talk")
    assert sent_key(server) == f"Bearer {KEY}"
    assert keyed.json("model", "test")[0]["ok"]


@pytest.mark.parametrize(
    ("words", "typed", "told"),
    [
        (["mine"], "", "no key given; nothing was changed"),
        (["mine"], "two words\n", "invalid characters"),
        (["mine", KEY], "", "do not write a key on the command line"),
        (["nobody"], f"{KEY}\n", "no model service called 'nobody'"),
    ],
)
def test_what_is_no_key_is_refused_and_not_repeated(
    keyed: Hermes, words: list[str], typed: str, told: str
) -> None:
    done = keyed.run("model", "key", *words, input=typed)
    assert done.returncode == 2
    assert told in done.stderr
    assert KEY not in done.stderr
    assert not (keyed.home / ".env").exists()


def test_a_key_that_something_else_goes_before_says_so(keyed: Hermes) -> None:
    done = keyed.good("model", "key", "mine", input=f"{KEY}\n", MINE_KEY="sk-of-the-environment")
    assert "! MINE_KEY is set in this environment and overrides it" in done
    settings = json.loads((keyed.home / "config.yaml").read_text())
    settings["models"]["keys"] = {"mine": ["env:OTHER"]}
    (keyed.home / "config.yaml").write_text(json.dumps(settings))
    assert "! OTHER takes precedence" in keyed.good("model", "key", "mine", input=f"{KEY}\n")


def test_forgetting_a_key_that_is_not_there_is_no_failure(keyed: Hermes) -> None:
    assert keyed.good("model", "key", "mine", "--remove") == "no key is stored for mine\n"
    assert keyed.json("model", "key", "mine", "--remove") == {"service": "mine", "forgotten": []}


def test_services_are_listed_with_the_key_they_have_or_lack(keyed: Hermes) -> None:
    shown = keyed.good("model", "services", XAI_API_KEY="k" * 20)
    rows = {line.split()[0]: line for line in shown.splitlines()}
    assert rows["mine"].endswith("no: MINE_KEY")
    assert rows["xai"].endswith("yes: XAI_API_KEY")
    assert rows["openai"].endswith("no: OPENAI_API_KEY")
    assert rows["codex"].endswith("no: `hermes model login codex`")
    assert rows["ollama"].endswith("not needed")
    assert max(map(len, shown.splitlines())) <= 110
    told = {row["name"]: row for row in keyed.json("model", "services")}
    assert told["mine"]["lacks"] == "MINE_KEY"
    assert "k" * 20 not in shown


# signing in


@pytest.fixture
def oauth() -> Iterator[OAuthServer]:
    with OAuthServer(time.time, interval=0.05, approve_at=2) as running:
        yield running


@pytest.fixture
def signing_in(hermes: Hermes, server: OpenAIServer, oauth: OAuthServer) -> Hermes:
    login = msgspec.to_builtins(oauth.login())
    served(hermes, server, service={"needs_key": True, "login": login})
    return hermes


def test_signing_in_shows_a_code_and_its_token_is_used(
    signing_in: Hermes, server: OpenAIServer
) -> None:
    signing_in.good("up")
    assert "run `hermes model login mine`" in signing_in.run("ask", "hello").stderr
    done = signing_in.run("model", "login", "mine")
    assert done.returncode == 0, done.stderr
    assert "and enter the code ABCD-0001" in done.stderr
    assert done.stdout == "signed in to mine; new turns use it\n"
    assert signing_in.good("ask", "hello") == "Good day.\n"
    assert sent_key(server).startswith("Bearer access-")
    assert "yes: the login of mine" in signing_in.good("model", "services")
    assert signing_in.json("model", "logout", "mine") == {"service": "mine", "forgotten": True}
    assert "you are not signed in to mine" in signing_in.good("model", "logout", "mine")
    assert signing_in.run("model", "test").returncode == 1


def test_control_c_gives_a_sign_in_up(signing_in: Hermes, oauth: OAuthServer) -> None:
    oauth.approve_at = None
    command = [sys.executable, "-m", "hermes_agent", "model", "login", "mine"]
    with subprocess.Popen(
        command, env=signing_in.environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as login:
        assert login.stderr is not None
        assert "activate" in login.stderr.readline()
        login.send_signal(2)
        _, told = login.communicate(timeout=PATIENCE)
    assert login.returncode == 130
    assert "Traceback" not in told
