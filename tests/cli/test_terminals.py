"""`hermes terminals`, and sessions that run elsewhere."""

import json

import pytest

from tests.support.cli import House

WHERE = """
turns:
  - replies:
      - calls: [{tool: terminal, with: {command: "echo $HOME; touch here; cat /etc/shadow"}}]
      - calls: [{tool: terminal, with: {command: "echo $HOME", at: local}}]
      - say: done
"""


def test_terminals_are_listed_with_what_is_missing(house: House) -> None:
    house.home.mkdir()
    (house.home / "config.yaml").write_text(
        "terminals: {box: {kind: container, image: x, engine: 'unix:///nowhere.sock'}}\n"
    )
    rows = {row["name"]: row for row in house.json("terminals")}
    assert rows["local"]["usable"]
    assert rows["local"]["default"]
    assert rows["sandbox"]["usable"]
    assert not rows["box"]["usable"]
    assert "nowhere.sock" in rows["box"]["missing"]
    told = house.good("terminals")
    assert "daytona" in told
    assert "DAYTONA_API_KEY" in told


def test_a_terminal_is_tried_for_real_and_removed(house: House) -> None:
    for name in ("local", "sandbox"):
        told = house.json("terminals", "test", name)
        assert told["system"].startswith("Linux")
        assert told["workspace"] == str(house.work)
    assert not list((house.home / "terminals").glob("*"))
    done = house.run("terminals", "test", "moon")
    assert done.returncode == 2
    assert "available: local, sandbox" in done.stderr


def test_a_session_runs_in_the_sandbox_and_another_place_beside_it(house: House) -> None:
    house.script.write_text(WHERE)
    told = house.json("ask", "go", "--terminal", "sandbox", "--terminal", "local")
    shown = house.json("sessions", "show", told["session"])
    assert shown["terminals"] == ["sandbox", "local"]
    first, second = (one["text"] for one in shown["messages"] if one["role"] == "tool")
    assert "ermission denied" in first or "o such file" in first
    assert (house.work / "here").exists()
    assert second.strip() == house.environ["HOME"]
    assert first.splitlines()[0] != second.strip()
    house.good("sessions", "delete", told["session"], "--yes")
    assert not (house.home / "terminals" / told["session"]).exists()


def test_an_unknown_terminal_is_refused_before_anything_is_kept(house: House) -> None:
    done = house.run("ask", "go", "--terminal", "moon")
    assert done.returncode == 2
    assert "no terminal called 'moon'" in done.stderr
    assert house.json("sessions", "list") == []
    session = house.ask("hello")
    again = house.run("ask", "go", "--session", session, "--terminal", "sandbox")
    assert "keeps its" in again.stderr


def test_the_default_terminal_is_a_setting_and_a_variable(house: House) -> None:
    house.good("config", "set", "terminal.default", "sandbox")
    assert house.json("sessions", "show", house.ask("hello"))["terminals"] == ["sandbox"]
    answer = json.loads(house.good("ask", "hello", "--json", HERMES_TERMINAL="local"))
    assert house.json("sessions", "show", answer["session"])["terminals"] == ["local"]
    done = house.run("config", "set", "terminal.default", "moon")
    assert done.returncode != 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("box: {kind: docker, image: x}", "terminals.box: kind: Invalid value 'docker'"),
        ("web: {kind: ssh, hostname: x}", "terminals.web: no setting is called 'hostname'"),
        ("local: {kind: ssh, host: x}", "terminals.local: is this machine"),
    ],
)
def test_a_terminal_that_is_set_up_wrongly_is_named(house: House, line: str, said: str) -> None:
    house.home.mkdir()
    (house.home / "config.yaml").write_text(f"terminals:\n  good: {{kind: sandbox}}\n  {line}\n")
    done = house.run("terminals")
    assert done.returncode == 1
    assert said in done.stderr
    assert "the kinds are local, sandbox, ssh" in done.stderr
