"""The keys of a runtime are in its memory, not in its environment, however it was started."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from hermes_agent.core.errors import UsageError
from hermes_agent.core.messages import Reply
from hermes_agent.host.inspect import lock_owner
from hermes_agent.host.secret_handover import VARIABLE, receive, set_apart
from tests.support.cli import Hermes, wait_until
from tests.support.openai_server import OpenAIServer

PROXY = "http://someone:pass-of-the-proxy@127.0.0.1:9/"


def environment_of(hermes: Hermes) -> bytes:
    pid = lock_owner(str(hermes.home))
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            assert "memfd:secrets" not in str(file.readlink())
    return Path(f"/proc/{pid}/environ").read_bytes()


def test_the_keys_of_a_runtime_work_but_are_not_in_its_environment(hermes: Hermes) -> None:
    with OpenAIServer([Reply("Here.")]) as server:
        hermes.environ |= {
            "HERMES_MODEL": "openai/test",
            "OPENAI_BASE_URL": server.url,
            "SOME_PROXY": PROXY,
        }
        for number, start in enumerate(("up", "restart", "down", "serve")):
            key = f"key-number-{number}-of-this-test"
            hermes.environ["OPENAI_API_KEY"] = key
            if start == "serve":
                command = [sys.executable, "-m", "hermes_agent", "serve"]
                serving = subprocess.Popen(command, env=hermes.environ)
                wait_until(hermes.api.is_up, "the runtime to be up")
                assert lock_owner(str(hermes.home)) == serving.pid
            else:
                hermes.good(start)
            if start == "down":
                continue
            assert "Here." in hermes.good("ask", "are you there?")
            assert server.requests[-1].headers["authorization"] == f"Bearer {key}"
            shown = environment_of(hermes)
            assert key.encode() not in shown
            assert b"pass-of-the-proxy" not in shown
            assert b"PATH=" in shown
        hermes.good("down")
        assert serving.wait() == 0


def test_a_process_passes_on_no_key_but_what_libraries_look_for() -> None:
    given = {"PATH": "/bin", "SOME_TOKEN": "name=\udcff \n of a value", "ALL_PROXY": PROXY}
    plain, file = set_apart(given)
    assert file is not None
    assert plain == {"PATH": "/bin", VARIABLE: str(file)}
    assert receive(plain) == given
    assert plain == {"PATH": "/bin", "ALL_PROXY": PROXY}
    assert set_apart({"PATH": "/bin"}) == ({"PATH": "/bin"}, None)


def test_a_file_of_secrets_that_is_not_open_is_an_error() -> None:
    for number in ("4711", "x"):
        with pytest.raises(UsageError, match=VARIABLE):
            receive({VARIABLE: number})
