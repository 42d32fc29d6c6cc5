"""`hermes task`, as a person uses it."""

import json
import sys
from typing import Any

import pytest

from tests.support.cli import Hermes, Pane, wait_until

WORDS = ("--cron", "0 */6 * * *", "Check the diff of main, send to Telegram")


def add(hermes: Hermes, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = hermes.json("task", "add", *words)
    return found


def test_a_job_is_added_word_for_word_and_its_meaning_shown_back(hermes: Hermes) -> None:
    shown = hermes.good("task", "add", *WORDS, "--zone", "Europe/Berlin")
    assert "job-1 is active" in shown
    assert "Check the diff of main, send to Telegram" in shown
    assert "Europe/Berlin" in shown
    assert "deliver    telegram" in shown
    assert "warning: Telegram is not set up (`hermes gateway setup telegram`)" in shown
    assert "hermes watch install" in shown
    (row,) = hermes.json("task", "list")
    assert (row["id"], row["state"]) == ("job-1", "active")
    assert row["schedule"]["cron"] == "0 */6 * * *"
    assert row["spec"] == {
        "prompt": "Check the diff of main, send to Telegram",
        "deliver": ["telegram"],
        "folder": str(hermes.work),
    }
    assert row["next"] > row["created"]
    assert "0 */6 * * *" in hermes.good("task", "list")


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["weekdays at 8", "x"], "cron"),
        (["every 2h", "x"], "every"),
        (["--every", "2h", "x"], "every"),
        (["--when", "weekdays at 8", "x"], "cron"),
        (["--at", "2099-01-31T08:00", "x"], "once"),
        (["30m", "x"], "once"),
        (["30m", "--zone", "UTC", "x"], "once"),
        (["--zone", "UTC", "30m", "--quiet", "x"], "once"),
        (["30m", "x", "--zone", "UTC"], "once"),
        (["x", "--every", "2h"], "every"),
        (["--quiet", "x", "--cron", "0 8 * * *", "--zone", "UTC"], "cron"),
    ],
)
def test_a_time_is_written_as_people_write_it(
    lived_in: Hermes, words: list[str], kind: str
) -> None:
    row = add(lived_in, *words)
    assert row["schedule"]["kind"] == kind
    assert row["spec"]["prompt"] == "x"
    assert row["meaning"]
    lived_in.good("task", "remove", row["id"], "--yes")


def test_every_field_of_a_job_has_an_option_and_can_be_changed(hermes: Hermes) -> None:
    add(hermes, "--every", "1d", "before", "--name", "first")
    row = add(
        hermes, "--every", "1d", "go", "--name", "all", "--deliver", "local", "--on-failure",
        "local",
        "--quiet", "--script", "echo x", "--after", "first", "--skill", "disk-full", "--model",
        hermes.environ["HERMES_MODEL"], "--terminal", "local", "--policy", "operate", "--folder",
        str(hermes.work), "--dollars", "0.5", "--tokens", "1000", "--timeout", "15m", "--overlap",
        "skip", "--catch-up", "all", "--grace", "60", "--keep-session", "--incident", "P1",
    )  # fmt: skip
    from hermes_agent.core.jobs import JobSpec

    missing = set(JobSpec.__struct_fields__) - set(row["spec"]) - {"script_only"}
    assert missing == set()
    assert (row["spec"]["timeout"], row["spec"]["grace"]) == (900.0, 60.0)
    row = hermes.json(
        "task", "edit", "all", "--prompt", "other", "--no-quiet", "--after", "", "--timeout", "1h",
        "--when", "every 3h", "--name", "some", "--dollars", "none", "--tokens", "none",
        "--incident", "none", "--folder", "",
    )  # fmt: skip
    assert not {"dollars", "tokens", "incident", "folder"} & set(row["spec"])
    assert (row["spec"]["prompt"], row["spec"]["name"]) == ("other", "some")
    assert "quiet" not in row["spec"]
    assert "after" not in row["spec"]
    assert (row["schedule"]["seconds"], row["version"]) == (10_800.0, 2)


def test_a_job_is_paused_resumed_run_and_removed(hermes: Hermes) -> None:
    add(hermes, "--every", "1d", "good day", "--name", "greeting")
    assert hermes.json("task", "pause", "greeting")["state"] == "paused"
    assert "paused" in hermes.good("task", "list")
    assert "next" not in hermes.good("task", "show", "greeting")
    assert hermes.json("task", "resume", "greeting")["state"] == "active"
    assert hermes.good("task", "run", "greeting", "--follow").strip() == "Good day to you."
    run = hermes.json("task", "run", "greeting", "--follow")
    assert (run["state"], run["output"]) == ("done", "Good day to you.")
    rows = hermes.json("task", "history", "greeting")
    assert [row["state"] for row in rows] == ["done", "done"]
    assert "(by hand)" in hermes.good("task", "history")
    assert "Good day to you." in hermes.good("task", "show", "greeting")
    assert "jobs       1 active" in hermes.good("status")
    assert hermes.json("task", "check") == []
    assert hermes.good("task", "check") == "every scheduled time has its run\n"
    asked = hermes.run("task", "remove", "greeting")
    assert (asked.returncode, "--yes" in asked.stderr) == (2, True)
    assert "still shows its runs" in hermes.good("task", "remove", "greeting", "--yes")
    assert hermes.json("task", "list") == []
    assert [row["id"] for row in hermes.json("task", "list", "--removed")] == ["job-1"]
    assert len(hermes.json("task", "history", "job-1")) == 2


def test_what_a_job_leans_on_and_is_not_there_is_said(shared: Hermes) -> None:
    add(shared, "--every", "1d", "first", "--name", "one")
    add(shared, "--every", "1d", "second", "--name", "two", "--after", "one")
    done = shared.run("task", "edit", "one", "--after", "two")
    assert (done.returncode, "one would run after itself" in done.stderr) == (2, True)
    assert "warning: two runs after it" in shared.good("task", "remove", "one", "--yes")
    assert "it runs after 'one': one was removed" in shared.good("task", "show", "two")
    shown = shared.good("task", "edit", "two", "third", "--after", "", "--deliver", "origin")
    assert "`origin` has no target" in shown
    assert "third" in shown
    assert "next" not in shared.json("task", "list", "--removed")[1]["meaning"]
    assert "a model is called 86,400 times a day" in shared.good(
        "task", "add", "--every", "1s", "x"
    )


def test_a_script_that_fails_is_seen_at_once_when_it_is_run_by_hand(hermes: Hermes) -> None:
    add(hermes, "--every", "1d", "--script", "echo seen; exit 3", "--script-only", "--name", "bad")
    done = hermes.run("task", "run", "bad", "--follow")
    assert done.returncode == 1
    assert "exit code 3" in done.stderr
    wait_until(lambda: "failing: bad" in hermes.good("status"), "the status says so")
    doctor = json.loads(hermes.run("doctor", "--json").stdout)
    found = [one["what"] for one in doctor if one["name"] == "jobs"]
    assert "the job bad is failing" in found
    assert "nothing starts Hermes after a reboot, so jobs may be missed" in found


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["add", "--cron", "61 * * * *", "x"], "61", 2),
        (["add", "whenever", "x"], "whenever", 2),
        (["add", "--every", "2h"], "nothing to do", 2),
        (["add", "every 2h", "x", "y"], "unexpected argument", 2),
        (["add"], "", 2),
        (["add", "every 2h", "x", "--zone", "Mars/Base"], "Mars/Base", 2),
        (["add", "every 2h", "x", "--deliver", "telegram:1"], "no channel called 'telegram'", 2),
        (["add", "every 2h", "x", "--timeout", "soon"], "soon", 2),
        (["add", "every 2h", "x", "--dollars", "nan"], "not a number", 2),
        (["show", "nosuch"], "no job 'nosuch'", 1),
        (["edit", "nosuch"], "nothing to change", 2),
        (["decide", "99", "done"], "no run 99", 1),
        (["run", "a/b"], "no job", 1),
    ],
)
def test_what_cannot_be_is_said_with_a_way_out(
    lived_in: Hermes, words: list[str], said: str, code: int
) -> None:
    done = lived_in.run("task", *words)
    assert (done.returncode, said in done.stderr, "hint:" in done.stderr) == (code, True, True)
    assert "Traceback" not in done.stderr


def test_a_channel_that_is_switched_off_is_warned_of_and_is_no_phone(hermes: Hermes) -> None:
    off = '{"telegram": {"enabled": false, "home": "1"}, "ntfy": {"topic": "a", "home": "2"}}'
    hermes.good("config", "set", "channels", off)
    shown = add(hermes, *WORDS)
    assert "telegram is switched off" in shown["warnings"][0]
    assert add(hermes, "every 1d", "go", "--deliver", "phone")["results"] == "sent to ntfy:2"


def test_in_a_terminal_the_delivery_is_agreed_to_first(hermes: Hermes) -> None:
    command = [sys.executable, "-m", "hermes_agent", "task", "add", *WORDS, "--name"]
    for key, deliver in (("Enter", ["telegram"]), ("n", ["local"]), ("C-d", ["local"])):
        name = f"said-{key.lower()}"
        pane = Pane(hermes.work, [*command, name], hermes.environ)
        try:
            pane.shows("the prompt says: Check the diff of main, send to Telegram")
            pane.shows("send them there? [Y/n]")
            pane.press(key, "Enter")
            pane.shows(f"{name} is active")
        finally:
            pane.close()
        assert hermes.json("task", "show", name)["spec"]["deliver"] == deliver
    given = add(hermes, *WORDS, "--deliver", "local")
    assert given["spec"]["deliver"] == ["local"]
