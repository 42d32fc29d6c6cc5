"""`hermes terminals`, and sessions that run elsewhere."""

import json

import msgspec
import pytest

from tests.support.cli import Hermes
from tests.support.sshd import shared

WHERE = """
turns:
  - replies:
      - calls: [{tool: terminal, with: {command: "echo $HOME; touch here; cat /etc/sudoers"}}]
      - calls: [{tool: terminal, with: {command: "echo $HOME", at: local}}]
      - say: done
"""


def test_terminals_are_listed_with_what_is_missing(hermes: Hermes) -> None:
    hermes.home.mkdir()
    (hermes.home / "config.yaml").write_text(
        "terminals: {box: {kind: container, image: x, engine: 'unix:///nowhere.sock'}}\n"
    )
    rows = {row["name"]: row for row in hermes.json("terminals")}
    assert rows["local"]["usable"]
    assert rows["local"]["default"]
    assert rows["sandbox"]["usable"]
    assert (rows["local"]["looks"], rows["box"]["looks"]) == ("kernel", "rules")
    assert not rows["box"]["usable"]
    assert "nowhere.sock" in rows["box"]["missing"]
    told = hermes.good("terminals")
    assert "daytona" in told
    assert "DAYTONA_API_KEY" in told


def test_what_the_kernel_of_a_far_machine_holds_is_listed(hermes: Hermes) -> None:
    server = shared()
    places = {"far": server.place(str(server.folder())), "home": server.place("~")}
    hermes.home.mkdir()
    (hermes.home / "config.yaml").write_text(json.dumps({"terminals": msgspec.to_builtins(places)}))
    rows = {row["name"]: row for row in hermes.json("terminals")}
    held = {name: (row["looks"], row["changes"], row["why"]) for name, row in rows.items()}
    assert held["far"] == ("kernel", "kernel", "")
    assert held["home"] == ("kernel", "rules", "changes: the workspace holds a whole home")
    told = hermes.good("terminals", "test", "home")
    assert "by the kernel, others by the rules; changes: the workspace holds" in told


def test_a_terminal_is_tried_for_real_and_removed(hermes: Hermes) -> None:
    for name in ("local", "sandbox"):
        told = hermes.json("terminals", "test", name)
        assert told["system"].startswith("Linux")
        assert told["workspace"] == str(hermes.work)
    assert not list((hermes.home / "terminals").glob("*"))
    done = hermes.run("terminals", "test", "moon")
    assert done.returncode == 2
    assert "available: local, sandbox" in done.stderr


def test_a_session_runs_in_the_sandbox_and_another_place_beside_it(hermes: Hermes) -> None:
    hermes.script.write_text(WHERE)
    told = hermes.json("ask", "go", "--terminal", "sandbox", "--terminal", "local")
    shown = hermes.json("sessions", "show", told["session"])
    assert shown["terminals"] == ["sandbox", "local"]
    first, second = (one["text"] for one in shown["messages"] if one["role"] == "tool")
    assert "ermission denied" in first or "o such file" in first
    assert (hermes.work / "here").exists()
    assert second.strip() == hermes.environ["HOME"]
    assert first.splitlines()[0] != second.strip()
    hermes.good("sessions", "delete", told["session"], "--yes")
    assert not (hermes.home / "terminals" / told["session"]).exists()


def test_an_unknown_terminal_is_refused_before_anything_is_kept(hermes: Hermes) -> None:
    done = hermes.run("ask", "go", "--terminal", "moon")
    assert done.returncode == 2
    assert "no terminal called 'moon'" in done.stderr
    assert hermes.json("sessions", "list") == []
    session = hermes.ask("hello")
    again = hermes.run("ask", "go", "--session", session, "--terminal", "sandbox")
    assert "only a new session" in again.stderr


def test_the_default_terminal_is_a_setting_and_a_variable(hermes: Hermes) -> None:
    hermes.good("config", "set", "terminal.default", "sandbox")
    assert hermes.json("sessions", "show", hermes.ask("hello"))["terminals"] == ["sandbox"]
    answer = json.loads(hermes.good("ask", "hello", "--json", HERMES_TERMINAL="local"))
    assert hermes.json("sessions", "show", answer["session"])["terminals"] == ["local"]
    done = hermes.run("config", "set", "terminal.default", "moon")
    assert done.returncode != 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("box: {kind: docker, image: x}", "terminals.box: kind: not a valid value: 'docker'"),
        ("web: {kind: ssh, hostname: x}", "terminals.web: no setting is called 'hostname'"),
        ("local: {kind: ssh, host: x}", "terminals.local: local is always this machine"),
    ],
)
def test_a_terminal_that_is_set_up_wrongly_is_named(hermes: Hermes, line: str, said: str) -> None:
    hermes.home.mkdir()
    (hermes.home / "config.yaml").write_text(f"terminals:\n  good: {{kind: sandbox}}\n  {line}\n")
    done = hermes.run("terminals")
    assert done.returncode == 1
    assert said in done.stderr
    assert "the kinds are local, sandbox, ssh" in done.stderr
