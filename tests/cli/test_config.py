"""`hermes config`: every setting, one of them, and a change that keeps the rest."""

import pytest

from tests.support.cli import House


def test_every_setting_is_listed_and_changes_are_marked(house: House) -> None:
    house.good("config", "set", "loop.max_steps", "7")
    rows = {row["name"]: row for row in house.json("config")}
    assert rows["loop.max_steps"] == {"name": "loop.max_steps", "value": 7, "changed": True}
    assert not rows["loop.keep_last"]["changed"]
    line = next(x for x in house.good("config").splitlines() if "loop.max_steps" in x)
    assert line.split() == ["*", "loop.max_steps", "7"]


def test_one_setting_or_a_group_is_printed(house: House) -> None:
    assert house.good("config", "get", "loop.max_steps") == "50\n"
    assert house.json("config", "get", "policy") == {"name": "policy", "value": "sandbox"}
    assert "budgets.day_dollars: null" in house.good("config", "get", "budgets")


def test_a_change_keeps_comments_and_order(house: House) -> None:
    house.home.mkdir(mode=0o700)
    config = house.home / "config.yaml"
    config.write_text("# mine\nruntime:\n  idle_seconds: 60  # a minute\npolicy: careful\n")
    house.good("config", "set", "runtime.idle_seconds", "90")
    text = config.read_text()
    assert text == "# mine\nruntime:\n  idle_seconds: 90  # a minute\npolicy: careful\n"
    assert house.good("config", "path").strip() == str(config)


def test_a_running_runtime_wants_a_restart_and_a_stopped_one_does_not(house: House) -> None:
    assert "restart" not in house.good("config", "set", "loop.max_steps", "8")
    house.good("up")
    assert "hermes restart" in house.good("config", "set", "loop.max_steps", "9")
    assert house.json("config", "set", "loop.max_steps", "10")["restart"] is True


def test_a_model_that_cannot_be_used_is_set_with_a_word_of_warning(house: House) -> None:
    told = house.good("config", "set", "model", "openai/some-model")
    assert "OPENAI_API_KEY" in told
    assert "hint:" in told


def test_the_file_is_checked(house: House) -> None:
    assert "in order" in house.good("config", "check")
    house.good("config", "set", "policy", "sandbx")
    done = house.run("config", "check", HERMES_POLICY="")
    assert done.returncode == 1
    assert "'sandbx'" in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("get", "loop.max_step"), 1),
        (("set", "loop.max_step", "3"), 1),
        (("set", "loop.max_steps", "many"), 2),
    ],
)
def test_a_wrong_name_or_value_is_named_with_a_hint(
    house: House, words: tuple[str, ...], code: int
) -> None:
    done = house.run("config", *words)
    assert done.returncode == code
    assert "loop.max_step" in done.stderr.splitlines()[0]
    assert done.stderr.splitlines()[1].startswith("hint: ")
    assert not (house.home / "config.yaml").exists()
