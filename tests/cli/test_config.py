"""`hermes config`: every setting, one of them, and a change that keeps the rest."""

from pathlib import Path

import pytest

from hermes_agent.core.errors import UsageError
from hermes_agent.host.config import get_setting, load_settings, set_setting
from tests.support.cli import Hermes

URL = "must be an address that begins with http:// or https://"
LISTEN = "must be an IP address and a port, such as 127.0.0.1:9911"


def write_config(hermes: Hermes, text: str) -> Path:
    hermes.home.mkdir(mode=0o700, exist_ok=True)
    config = hermes.home / "config.yaml"
    config.write_text(text)
    return config


def test_every_setting_is_listed_and_changes_are_marked(hermes: Hermes) -> None:
    hermes.good("config", "set", "loop.max_steps", "7")
    rows = {row["name"]: row for row in hermes.json("config")}
    assert rows["loop.max_steps"] == {"name": "loop.max_steps", "value": 7, "changed": True}
    assert not rows["loop.keep_last"]["changed"]
    line = next(x for x in hermes.good("config").splitlines() if "loop.max_steps" in x)
    assert line.split() == ["*", "loop.max_steps", "7"]


def test_one_setting_or_a_group_is_printed(hermes: Hermes) -> None:
    assert hermes.good("config", "get", "loop.max_steps") == "500\n"
    assert hermes.json("config", "get", "policy") == {"name": "policy", "value": "sandbox"}
    assert "budgets.day_dollars: null" in hermes.good("config", "get", "budgets")


def test_a_change_keeps_comments_and_order(hermes: Hermes) -> None:
    hermes.home.mkdir(mode=0o700)
    config = hermes.home / "config.yaml"
    config.write_text("# mine\nruntime:\n  idle_seconds: 60  # a minute\npolicy: careful\n")
    hermes.good("config", "set", "runtime.idle_seconds", "90")
    text = config.read_text()
    assert text == "# mine\nruntime:\n  idle_seconds: 90  # a minute\npolicy: careful\n"
    assert hermes.good("config", "path").strip() == str(config)


def test_a_running_runtime_wants_a_restart_and_a_stopped_one_does_not(hermes: Hermes) -> None:
    assert "restart" not in hermes.good("config", "set", "loop.max_steps", "8")
    hermes.good("up")
    assert "hermes restart" in hermes.good("config", "set", "loop.max_steps", "9")
    assert hermes.json("config", "set", "loop.max_steps", "10")["restart"] is True


def test_a_model_that_cannot_be_used_is_set_with_a_word_of_warning(hermes: Hermes) -> None:
    told = hermes.good("config", "set", "model", "openai/some-model")
    assert "OPENAI_API_KEY" in told
    assert "hint:" in told


def test_the_file_is_checked(hermes: Hermes) -> None:
    assert "the defaults apply" in hermes.good("config", "check")
    write_config(hermes, "policy: sandbx\n")
    done = hermes.run("config", "check", HERMES_POLICY="")
    assert done.returncode == 1
    assert "'sandbx'" in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("get", "loop.max_step"), 2),
        (("set", "loop.max_step", "3"), 2),
        (("set", "loop.max_steps", "many"), 2),
    ],
)
def test_a_wrong_name_or_value_is_named_with_a_hint(
    hermes: Hermes, words: tuple[str, ...], code: int
) -> None:
    done = hermes.run("config", *words)
    assert done.returncode == code
    assert "loop.max_step" in done.stderr.splitlines()[0]
    assert done.stderr.splitlines()[1].startswith("hint: ")
    assert not (hermes.home / "config.yaml").exists()


@pytest.mark.parametrize(("name", "value"), [("model", "nope/foo"), ("policy", "nope")])
def test_what_cannot_be_used_at_all_is_not_saved(hermes: Hermes, name: str, value: str) -> None:
    done = hermes.run("config", "set", name, value)
    assert done.returncode == 2
    assert "'nope'" in done.stderr
    assert not (hermes.home / "config.yaml").exists()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("loop.max_steps", "abc", "must be a whole number"),
        ("loop.max_steps", "0", "must be a whole number, at least 1"),
        ("budgets.turn_tokens", "abc", "must be a whole number or empty"),
        ("gateway.stream", "perhaps", "must be true or false"),
        ("models.fallbacks", "abc", "must be a list"),
        ("terminal.confine", "maybe", "must be one of: required, preferred"),
        (
            "models.reasoning_effort",
            "x",
            "must be one of: low, medium, high, xhigh, max (or empty)",
        ),
        ("terminals.web", "{kind: ssh}", "host is missing"),
        ("models.services.x", "{urll: y}", "it has no setting 'urll'"),
        ("models.services.x", "{url: y}", URL),
        ("gateway.listen", "foo", LISTEN),
        ("watch.listen", "shop.example:80", LISTEN),
        ("web.searxng", "localhost:8080", URL),
        ("mcp.x", "{url: shop.example}", URL),
        ("browser.address", "there", "must be an address that begins with ws:// or http://"),
    ],
)
def test_a_wrong_value_is_refused_in_plain_words(
    tmp_path: Path, name: str, value: str, said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        set_setting(tmp_path / "config.yaml", name, value, lambda _: None)
    assert refused.value.message == f"{name}: {said}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gateway.listen", "127.0.0.1:0"),
        ("gateway.listen", "localhost:9912"),
        ("watch.listen", "'[::1]:9911'"),
        ("watch.listen", "''"),
        ("watch.webhook", "https://me:word@shop.example/hook?x=1"),
        ("browser.address", "ws://127.0.0.1:9222/devtools/browser/1"),
        ("browser.address", "http://127.0.0.1:9222"),
        ("models.services.x", "{url: 'http://[::1]:8000/v1'}"),
    ],
)
def test_what_is_an_address_is_accepted(tmp_path: Path, name: str, value: str) -> None:
    config = tmp_path / "config.yaml"
    set_setting(config, name, value, lambda _: None)
    assert get_setting(load_settings(config, {}), name) is not None


def test_a_value_that_is_not_yaml_is_wrong_usage(hermes: Hermes) -> None:
    done = hermes.run("config", "set", "model", "[a")
    assert done.returncode == 2
    assert "model: cannot parse '[a'" in done.stderr
    assert "hint: " in done.stderr


def test_a_name_that_looks_like_a_date_is_a_name(hermes: Hermes) -> None:
    write_config(hermes, "model: 2026-99-99\n")
    assert hermes.good("config", "get", "model", HERMES_MODEL="") == "2026-99-99\n"
    done = hermes.run("config", "set", "loop.max_steps", "3")
    assert done.returncode == 1
    assert "config.yaml" in done.stderr


def test_a_group_with_nothing_in_it_has_its_defaults(hermes: Hermes) -> None:
    write_config(hermes, "loop:\n  # max_steps: 9\nmodels:\n  prices:\n")
    assert hermes.good("config", "get", "loop.max_steps") == "500\n"


def test_a_bad_file_is_blamed_with_the_setting_and_the_way_to_fix_it(hermes: Hermes) -> None:
    config = write_config(hermes, "loop:\n  max_steps: many\n")
    for words in (("config",), ("config", "get", "policy"), ("config", "set", "policy", "careful")):
        done = hermes.run(*words)
        assert done.returncode == 1
        assert "loop.max_steps: " in done.stderr.splitlines()[0]
        assert f"in {config}" in done.stderr.splitlines()[1]
    hermes.good("config", "set", "loop.max_steps", "7")
    assert hermes.good("config", "get", "loop.max_steps") == "7\n"


def test_a_price_is_set_under_a_name_with_dots(hermes: Hermes) -> None:
    lacking = hermes.run("config", "set", "models.prices.openai/gpt-5.5.input", "3")
    assert lacking.returncode == 2
    assert "set the whole entry" in lacking.stderr
    name = "models.prices.openai/gpt-5.5"
    hermes.good("config", "set", name, "{input: 3, output: 12}")
    hermes.good("config", "set", f"{name}.input", "4")
    hermes.good("config", "set", 'models.prices."openai/gpt-5.5".output', "13")
    price = hermes.json("config", "get", name)["value"]
    assert (price["input"], price["output"]) == (4.0, 13.0)
    assert hermes.run("config", "get", "models.prices.openai/other").returncode == 2
