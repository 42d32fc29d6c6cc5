"""`hermes watch` and `hermes incidents`, as a person uses them."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import pytest

from hermes_agent.cli.run.unit import is_unit_of, unit_text
from hermes_agent.cli.watch.questions import FollowedQuestions
from hermes_agent.cli.watch.watch import WatchFeed
from tests.support.cli import Hermes, Pane, wait_until
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.sample_file(10)


def add(hermes: Hermes, name: str, run: str, *words: str) -> None:
    hermes.good("watch", "add", name, "--run", run, *words)


def incident(hermes: Hermes, id: str = "inc-1") -> dict[str, object]:
    def there() -> object:
        return [one for one in hermes.json("incidents", "list") if one["id"] == id]

    found = wait_until(there, f"{id} is declared")
    return dict(found[0])


def test_a_check_is_written_listed_and_run(hermes: Hermes) -> None:
    assert "no checks yet" in hermes.good("watch", "list")
    up = hermes.work / "up"
    up.touch()
    add(hermes, "web", f"test -f {up}", "--service", "shop", "--severity", "P1", "--every", "3600")
    text = (hermes.home / "checks" / "web.yaml").read_text()
    assert text == f"name: web\nrun: test -f {up}\nservice: shop\nevery: 3600\nseverity: P1\n"
    assert "passes" in hermes.good("watch", "run", "web")
    (row,) = hermes.json("watch", "list")
    assert (row["kind"], row["name"], row["severity"]) == ("check", "web", "P1")
    assert row["state"]["ok"] is True
    up.unlink()
    failed = hermes.run("watch", "run", "web", "--json")
    assert (failed.returncode, json.loads(failed.stdout)["ok"]) == (1, False)
    assert "FAILING for" in hermes.good("watch", "list")
    assert "failing: web" in hermes.good("status")


def test_what_a_check_printed_shows_no_secret_and_drives_no_terminal(hermes: Hermes) -> None:
    secret = "a-quiet-place-by-the-sea"
    hermes.home.mkdir(mode=0o700)
    (hermes.home / ".env").write_text(f"ALERT_TOKEN={secret}\n")
    (hermes.home / ".env").chmod(0o600)
    printed = hermes.work / "printed"
    printed.write_text(f"token {secret} \x1b[2Jred\n")
    add(hermes, "web", f"cat {printed}", "--output", "READY", "--every", "3600")
    for words in ((), ("--json",)):
        said = hermes.run("watch", "run", "web", *words).stdout
        assert "red" in said
        assert secret not in said
        assert "\x1b" not in said


WRONG: list[tuple[list[str], str]] = [
    (["x y", "--run", "true"], "not a valid name"),
    (["x", "--log", "/a"], "go together"),
    (["x", "--log", "a", "--pattern", "b"], "not absolute"),
    (["x", "--log", "/a", "--pattern", "("], "not a valid regular expression"),
    (["x", "--run", " "], "needs a command"),
    (["x", "--pattern", "a"], "go with --log"),
    (["x", "--run", "a", "--log", "b"], "not both"),
    (["x", "--run", "a", "--every", "0"], "--every"),
    (["x", "--run", "a", "--every", "1q"], "every must be a time such as"),
    ([""], "the check says nothing"),
    (["x", "--run", "a", "--severity", "P7"], "--severity"),
    (["x", "--run", "a", "--terminal", "nope"], "no terminal called 'nope'\nhint: "),
]


def test_a_check_that_makes_no_sense_is_not_written(hermes: Hermes) -> None:
    for words, said in WRONG:
        done = hermes.run("watch", "add", *words)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert not (hermes.home / "checks").exists() or not list((hermes.home / "checks").iterdir())


def test_how_often_it_runs_is_said_as_for_a_job(hermes: Hermes) -> None:
    add(hermes, "web", "true", "--every", "5m")
    (row,) = (one for one in hermes.json("watch", "list") if one["name"] == "web")
    assert row["every"] == 300


def test_a_check_is_never_overwritten(hermes: Hermes) -> None:
    add(hermes, "web", "true")
    done = hermes.run("watch", "add", "web", "--run", "false")
    assert (done.returncode, "already exists" in done.stderr) == (2, True)
    assert "run: 'true'" in (hermes.home / "checks" / "web.yaml").read_text()


def test_a_check_that_cannot_be_written_leaves_nothing_behind(hermes: Hermes) -> None:
    command = f"ulimit -f 0; {sys.executable} -m hermes_agent watch add web --run true"
    done = subprocess.run(
        ["bash", "-c", command], env=hermes.environ, cwd=hermes.work, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "web.yaml: File too large" in done.stderr
    assert list((hermes.home / "checks").iterdir()) == []
    add(hermes, "web", "true")


def test_what_is_wrong_with_a_file_is_said_everywhere(hermes: Hermes) -> None:
    add(hermes, "web", "true")
    (hermes.home / "checks" / "bad.yaml").write_text("name: bad\nrum: x\n")
    listed = hermes.run("watch", "list")
    assert listed.returncode == 1
    assert "checks/bad.yaml:2:1: a check has no key 'rum'" in listed.stdout
    assert "did you mean 'run'?" in listed.stdout
    assert "web" in listed.stdout
    rows = json.loads(hermes.run("watch", "list", "--json").stdout)
    assert [row["kind"] for row in rows] == ["check", "problem", "problem"]
    status = wait_until(
        lambda: "checks/bad.yaml:2:1" in (said := hermes.good("status")) and said, "it is watched"
    )
    assert "checks     1; failing: none" in status
    doctor = hermes.run("doctor").stdout
    assert "checks/bad.yaml:2:1" in doctor
    assert "checks: 1, log patterns: 0" in doctor


def test_what_leads_nowhere_and_a_broken_topology_are_said_everywhere(hermes: Hermes) -> None:
    hermes.home.mkdir(mode=0o700)
    (hermes.home / "topology.yaml").write_text("servces: {}\n")
    (hermes.home / "checks").mkdir()
    (hermes.home / "checks" / "gone.yaml").symlink_to("/nowhere/gone.yaml")
    listed = hermes.run("watch", "list")
    assert listed.returncode == 1
    for said in (listed.stdout, hermes.good("status"), hermes.run("doctor").stdout):
        assert "checks/gone.yaml:1:1: cannot be read: broken link" in said
        assert "topology.yaml:1:1: a topology has no key 'servces'" in said
    rows = json.loads(hermes.run("watch", "list", "--json").stdout)
    assert [row["path"] for row in rows] == ["checks/gone.yaml", "topology.yaml"]
    (hermes.home / "checks" / "gone.yaml").unlink()
    (hermes.home / "topology.yaml").write_text("services: {}\n")
    assert "no checks yet" in hermes.good("watch", "list")
    assert "topology" not in hermes.good("status")


def test_incidents_are_declared_shown_closed_and_reported(hermes: Hermes) -> None:
    assert hermes.json("incidents") == []
    assert hermes.good("incidents").strip() == "no incidents"
    declared = hermes.json("incidents", "declare", "the shop is slow", "--service", "shop")
    assert (declared["id"], declared["state"]) == ("inc-1", "declared")
    shown = hermes.good("incidents", "show", "1")
    assert "inc-1 the shop is slow" in shown
    assert "declared   P2 the shop is slow" in shown
    assert hermes.json("incidents", "show", "inc-1")["timeline"][0]["kind"] == "declared"
    assert "shop" in hermes.good("incidents", "list")
    second = hermes.json("incidents", "declare", "another thing")
    closed = hermes.json("incidents", "close", second["id"], "--why", "planned work")
    assert closed["state"] == "closed"
    assert "planned work" in hermes.good("incidents", "show", second["id"])
    for id in ("inc-77", "x", "", "a/b"):
        assert hermes.run("incidents", "show", id).returncode == 1
    assert hermes.run("incidents", "close", "inc-1").returncode == 2


def test_what_was_handed_over_to_people_is_not_forgotten(hermes: Hermes) -> None:
    (hermes.home / "checks").mkdir(parents=True)
    (hermes.home / "checks" / "web.yaml").write_text(
        "{name: web, run: test -f /gone, every: 1, after: 1, terminal: nowhere}"
    )
    hermes.good("up")
    wait_until(lambda: incident(hermes)["state"] == "escalated", "it is handed over")
    assert hermes.json("status")["watch"]["escalated"] == ["inc-1"]
    assert "escalated  inc-1: needs people" in hermes.good("status")
    hermes.good("incidents", "close", "inc-1", "--why", "there is no such machine")
    assert "inc-1" not in hermes.json("status")["watch"]["escalated"]


def read_until(stream: IO[str], *words: str) -> str:
    """Lines of a program that goes on, until they have all of the words."""
    said = ""
    while not all(word in said for word in words):
        line = stream.readline()
        assert line, f"it has ended: {said}"
        said += line
    return said


def test_what_happened_before_the_first_look_is_shown(
    hermes: Hermes, capsys: pytest.CaptureFixture[str]
) -> None:
    up = hermes.work / "up"
    up.touch()
    add(hermes, "web", f"test -f {up}", "--every", "3600")
    hermes.good("watch", "run", "web")
    began, shown = time.time(), hermes.api.get("/v1/checks")["checks"]
    up.unlink()
    assert hermes.run("watch", "run", "web").returncode == 1
    id = hermes.json("incidents", "declare", "the shop is slow")["id"]
    hermes.good("incidents", "close", id, "--why", "it is not")
    showing = WatchFeed(hermes.api, began, shown)
    showing.poll()
    said = capsys.readouterr().out
    assert "web fails" in said
    assert "the shop is slow" in said


def test_watching_shows_what_happens_and_leaves_the_runtime_up(hermes: Hermes) -> None:
    up = hermes.work / "up"
    up.touch()
    add(hermes, "web", f"test -f {up}", "--every", "1", "--after", "1", "--service", "shop")
    watching = subprocess.Popen(
        [sys.executable, "-m", "hermes_agent", "watch"],
        env=hermes.environ, cwd=hermes.work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    try:
        assert watching.stdout is not None
        said = read_until(watching.stdout, "pass")
        up.unlink()
        said += read_until(watching.stdout, "declared", "web fails")
        watching.send_signal(signal.SIGINT)
        rest = watching.communicate(timeout=PATIENCE)[0]
    finally:
        watching.kill()
        watching.wait()
    assert watching.returncode == 0
    assert "keeps watching" in rest
    assert "web  " in said
    assert hermes.json("status")["state"] == "running"
    assert incident(hermes)["service"] == "shop"


def test_a_unit_keeps_the_runtime_up(hermes: Hermes, tmp_path: Path) -> None:
    config = tmp_path / "config"
    told = hermes.good("watch", "install", "--yes", XDG_CONFIG_HOME=str(config))
    unit = (config / "systemd" / "user" / "hermes.service").read_text()
    assert f'Environment="HERMES_HOME={hermes.home}"' in unit
    assert f'ExecStart="{sys.executable}" -m hermes_agent serve --wait' in unit
    assert "Restart=on-failure" in unit
    assert str(config) in told
    assert "systemctl --user enable --now hermes.service" in told or "is not running here" in told
    assert hermes.good("watch", "install", "--print") == unit
    assert is_unit_of(str(hermes.home), unit)
    assert not is_unit_of(str(hermes.home)[:-1], unit), "another home"
    odd = unit_text("/a b/python", '/home/50% "x"')
    assert is_unit_of('/home/50% "x"', odd)
    assert 'ExecStart="/a b/python" -m' in odd
    assert 'Environment="HERMES_HOME=/home/50%% \\"x\\""' in odd


def test_the_unit_of_another_home_is_not_replaced(hermes: Hermes, tmp_path: Path) -> None:
    unit = tmp_path / "config" / "systemd" / "user" / "hermes.service"
    unit.parent.mkdir(parents=True)
    unit.write_text(theirs := unit_text(sys.executable, "/home/other"))
    done = hermes.run("watch", "install", "--yes", XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert done.returncode == 1
    assert "runs the runtime of another home\nhint: remove it first" in done.stderr
    assert unit.read_text() == theirs


def asked(hermes: Hermes) -> tuple[str, dict[str, Any]]:
    session = hermes.send("write a file", policy="careful", interactive=True)
    (question,) = wait_until(lambda: hermes.api.get("/v1/questions"), "a question")
    return session, question


def test_a_followed_question_is_answered_in_place(hermes: Hermes) -> None:
    session, _ = asked(hermes)
    program = (
        "import time; from hermes_agent.cli.client.api import RuntimeClient\n"
        "from hermes_agent.cli.watch.questions import FollowedQuestions\n"
        f"asking = FollowedQuestions(RuntimeClient(), lambda: {{{session!r}}})\n"
        "asking.poll(lambda: None)\n"
        "while asking.asking: asking.poll(lambda: None); time.sleep(0.05)"
    )
    pane = Pane(hermes.work, [sys.executable, "-c", program], hermes.environ)
    try:
        pane.shows("│ echo written >> made.txt; echo shown")
        pane.shows("allow? [y/N/s")
        pane.enter("v")
        pane.shows("allow? [y/N/s", 2)
        pane.enter("y")
        wait_until(pane.has_ended, "the program to end")
    finally:
        pane.close()
    assert wait_until((hermes.work / "made.txt").exists, "the effect")


def test_without_a_terminal_it_is_said_how_to_answer(
    hermes: Hermes, capsys: pytest.CaptureFixture[str]
) -> None:
    session, question = asked(hermes)
    questions = FollowedQuestions(hermes.api, lambda: {session})
    questions.poll(lambda: None)
    questions.poll(lambda: None)
    assert capsys.readouterr().out.count(f"`hermes approvals answer {question['id']} yes|no`") == 1
    shown = hermes.good("approvals", "show", question["id"])
    assert "│ echo written >> made.txt; echo shown" in shown
    view = hermes.api.get(f"/v1/questions/{question['id']}")["view"]
    assert [answer["key"] for answer in view["answers"]] == ["n", "y", "s", "a"]
