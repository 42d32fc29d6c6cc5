"""Settings that name something else: what is not there is refused, and doctor names it."""

import json

import pytest

from tests.cli.test_config import write_config
from tests.support.cli import Hermes

CHANNELS = "channels:\n  telegram: {home: '7'}\n  slack: {}\n"


@pytest.mark.parametrize(
    ("name", "value", "said", "hint"),
    [
        ("channels.telegram.policy", "nope", "'nope'", "careful"),
        ("channels.telegram", "{policy: nope}", "channels.telegram.policy", "careful"),
        ("jobs.zone", "Mars", "'Mars'", "Europe/"),
        ("jobs.zone", "Europe/Berlni", "Berlni", "Europe/Berlin"),
        ("jobs.alert", "[nowhere]", "no channel called 'nowhere'", "configured: slack, telegram"),
        ("jobs.alert", "[telegram, slack]", "'slack' has no home", "slack:CHAT"),
        ("jobs.alert", "telegram", "must be a list", "'[a, b]'"),
        ("watch.notify", "[nowhere]", "no channel called 'nowhere'", "configured:"),
        ("gateway.announce", "[nowhere:5]", "no channel called 'nowhere'", "configured:"),
        ("gateway.api_policy", "nope", "'nope'", "careful"),
        ("watch.policy", "nope", "'nope'", "careful"),
    ],
)
def test_a_setting_that_names_what_is_not_there_is_refused(
    hermes: Hermes, name: str, value: str, said: str, hint: str
) -> None:
    config = write_config(hermes, CHANNELS)
    done = hermes.run("config", "set", name, value)
    assert done.returncode == 2
    assert said in done.stderr
    assert hint in done.stderr.partition("hint:")[2]
    assert config.read_text() == CHANNELS


def test_what_is_there_is_taken(hermes: Hermes) -> None:
    write_config(hermes, CHANNELS)
    for name, value in {
        "channels.telegram.policy": "observe",
        "jobs.zone": "Europe/Berlin",
        "jobs.alert": "[telegram, 'slack:C1', all]",
    }.items():
        hermes.good("config", "set", name, value)
    assert "is valid" in hermes.good("config", "check")


def test_doctor_and_check_name_what_the_file_names_and_is_not_there(hermes: Hermes) -> None:
    write_config(
        hermes, f"{CHANNELS}jobs: {{zone: Mars, alert: [nowhere]}}\nruntime: {{idle_seconds: 5}}\n"
    )
    told = json.loads(hermes.run("doctor", "--json").stdout)
    found = {row["what"]: row["hint"] for row in told if row["name"] == "config"}
    assert [what.partition(":")[0] for what in found] == ["jobs.zone", "jobs.alert"]
    assert all(found.values())
    assert "jobs.zone" in hermes.run("config", "check").stderr
    hermes.good("config", "set", "runtime.idle_seconds", "6")  # what is wrong elsewhere is let be
