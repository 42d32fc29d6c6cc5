"""`hermes doctor` looks at everything and names what to mend."""

import json
from typing import Any

from tests.support.cli import Hermes


def findings(hermes: Hermes, **environ: str) -> tuple[int, dict[str, Any]]:
    done = hermes.run("doctor", "--json", **environ)
    return done.returncode, {found["name"]: found for found in json.loads(done.stdout)}


def test_a_fresh_home_passes_every_check(hermes: Hermes) -> None:
    hermes.environ["HERMES_POLICY"] = "careful"
    code, found = findings(hermes)
    assert code == 0
    assert {one["state"] for one in found.values()} == {"ok", "info"}
    assert "not yet" not in found
    assert not hermes.home.exists()


def test_a_home_in_use_is_checked_through_its_runtime(lived_in: Hermes) -> None:
    code, found = findings(lived_in)
    assert code == 0
    assert "pid" in found["runtime"]["what"]
    assert found["store"]["what"] == "no damage"


def test_a_missing_key_fails_the_check_and_is_named(hermes: Hermes) -> None:
    code, found = findings(hermes, HERMES_MODEL="openai/some-model")
    assert code == 1
    assert "OPENAI_API_KEY" in found["model"]["what"]


def test_a_key_is_never_printed(hermes: Hermes) -> None:
    done = hermes.run("doctor", HERMES_MODEL="openai/some-model", OPENAI_API_KEY="sk-very-secret-1")
    assert done.returncode == 0, done.stdout
    assert "very-secret" not in done.stdout + done.stderr


def test_settings_that_cannot_be_read_fail_the_check(hermes: Hermes) -> None:
    hermes.home.mkdir(mode=0o700)
    (hermes.home / "config.yaml").write_text("loop: [unclosed")
    code, found = findings(hermes)
    assert code == 1
    assert found["config"]["state"] == "fail"


def test_a_home_that_others_can_read_is_a_warning_and_made_private(hermes: Hermes) -> None:
    hermes.home.mkdir(mode=0o755)
    code, found = findings(hermes)
    assert code == 0
    assert found["home"]["state"] == "warn"
    assert "chmod 700" in found["home"]["hint"]
    hermes.ask("hello")  # whoever writes to it makes it private
    assert hermes.home.stat().st_mode & 0o777 == 0o700
    assert findings(hermes)[1]["home"]["state"] == "ok"


def test_a_damaged_database_fails_the_check_and_is_left_alone(hermes: Hermes) -> None:
    hermes.ask("hello")
    hermes.good("down")
    damaged = b"not a database at all" * 200
    (hermes.home / "state.db").write_bytes(damaged)
    code, found = findings(hermes)
    assert code == 1
    assert found["store"]["state"] == "fail"
    assert "restore" in found["store"]["hint"]
    assert (hermes.home / "state.db").read_bytes() == damaged


def test_checks_whose_incidents_nobody_hears_of_are_a_warning(hermes: Hermes) -> None:
    said = "nobody is told of incidents"
    assert said not in hermes.good("doctor")
    hermes.good("watch", "add", "web", "--run", "true")
    assert said in hermes.good("doctor")
    hermes.good("config", "set", "watch.notify", '["all"]')
    assert said not in hermes.good("doctor")


def test_a_socket_left_by_a_killed_runtime_is_a_warning(hermes: Hermes) -> None:
    hermes.good("up")
    hermes.kill_runtime()
    code, found = findings(hermes)
    assert code == 0
    assert found["runtime"]["state"] == "warn"


def test_a_runtime_that_goes_by_other_settings_is_a_warning(hermes: Hermes) -> None:
    hermes.good("up")
    code, found = findings(hermes, HERMES_MODEL="scripted/demo")
    assert code == 0
    assert found["runtime"]["state"] == "warn"
    assert "scripted/demo" in found["runtime"]["what"]
    assert found["runtime"]["hint"] == "`hermes restart`"


def test_a_profile_that_allows_all_on_a_place_that_confines_nothing_is_warned_of(
    hermes: Hermes,
) -> None:
    assert findings(hermes)[1]["terminal"]["state"] == "warn"
    hermes.environ["HERMES_TERMINAL"] = "sandbox"
    assert findings(hermes)[1]["terminal"]["state"] == "ok"
    hermes.environ["HERMES_TERMINAL"] = "moon"
    code, found = findings(hermes)
    assert code == 1
    assert "no terminal called 'moon'" in found["terminal"]["what"]


def test_a_file_of_secrets_that_others_can_read_is_found_and_stops_the_runtime(
    hermes: Hermes,
) -> None:
    hermes.home.mkdir(mode=0o700)
    file = hermes.home / ".env"
    file.write_text("A_TOKEN=not-for-everybody\n")
    file.chmod(0o644)
    code, found = findings(hermes)
    assert code == 1
    assert "others can read the secrets" in found["secrets"]["what"]
    done = hermes.run("up")
    assert done.returncode == 1
    assert "chmod 600" in done.stderr
    file.chmod(0o600)
    assert findings(hermes)[1]["secrets"]["state"] == "ok"
    hermes.good("up")
