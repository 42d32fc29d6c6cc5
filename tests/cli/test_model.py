"""`hermes model`: choosing, looking for and trying models."""

import json
from collections.abc import Iterator

import pytest

from hermes_agent.cli.arguments import EFFORT_LEVELS
from hermes_agent.core.messages import EFFORTS
from tests.models.test_refresh import models_dev
from tests.support.cli import Hermes
from tests.support.model_service import ANSWER, COST, served
from tests.support.openai_server import OpenAIServer


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer([ANSWER] * 9) as running:
        yield running


@pytest.fixture
def at_home(hermes: Hermes, server: OpenAIServer) -> Hermes:
    """A Hermes home where `mine/x` answers."""
    served(hermes, server)
    return hermes


def test_the_steps_of_effort_are_those_of_the_core() -> None:
    assert EFFORT_LEVELS == EFFORTS


HEAVY = {"asyncio", "ssl", "logging", "subprocess", "urllib.request", "httpx", "yaml"}


def imported(hermes: Hermes, *words: str) -> set[str]:
    told = hermes.run(*words, PYTHONPROFILEIMPORTTIME="1").stderr
    return {line.rpartition("|")[2].strip() for line in told.splitlines() if "|" in line}


@pytest.mark.parametrize("words", [["model"], ["model", "list"], ["model", "show", "gpt-5"]])
def test_a_look_at_the_models_imports_nothing_that_calls_them(
    hermes: Hermes, words: list[str]
) -> None:
    hermes.environ |= {"HERMES_MODEL": "openai/gpt-5", "OPENAI_API_KEY": "sk-for-the-look"}
    assert imported(hermes, *words) & HEAVY == set()


def test_costs_and_status_import_next_to_nothing(at_home: Hermes) -> None:
    at_home.good("up")
    for command in ("cost", "status"):
        assert (
            imported(at_home, command) & {*HEAVY, "msgspec", "hermes_agent.core.settings.root"}
            == set()
        )


# what answers


def test_an_empty_home_is_told_how_to_choose_and_nothing_is_made(hermes: Hermes) -> None:
    shown = hermes.good("model", HERMES_MODEL="")
    assert "none; `hermes model NAME` chooses one" in shown
    assert not hermes.home.exists()
    assert hermes.run("model", "test", HERMES_MODEL="").returncode == 2


def test_every_use_is_shown_with_what_stands_in_for_it(at_home: Hermes) -> None:
    at_home.good("model", "use", "cheap", "mine/y", "mine/x")
    shown = at_home.good("model")
    assert "mine/x" in shown
    assert "1/2" in shown
    for use in ("fallbacks", "cheap", "compaction", "review", "titles", "vision", "judge"):
        assert f"\n{use} " in shown
    told = at_home.json("model")
    rows = [(row["use"], row["model"], row["usable"]) for row in told["models"]]
    assert rows == [("main", "mine/x", True), ("cheap", "mine/y", True), ("cheap", "mine/x", True)]
    assert max(len(line) for line in shown.splitlines()) <= 100


def test_a_model_of_the_environment_is_said_to_go_first(at_home: Hermes) -> None:
    shown = at_home.good("model", HERMES_MODEL="scripted/demo")
    assert "main        scripted/demo" in shown
    assert "HERMES_MODEL is set" in shown


def test_a_setting_that_names_no_model_is_shown_and_not_fatal(hermes: Hermes) -> None:
    hermes.home.mkdir()
    (hermes.home / "config.yaml").write_text("model: nobody-has-this\n")
    shown = hermes.good("model", HERMES_MODEL="")
    assert "nobody-has-this !" in shown
    assert "no model is called 'nobody-has-this'" in shown


# choosing


def test_the_chosen_model_answers_in_new_sessions_of_a_runtime_that_is_up(at_home: Hermes) -> None:
    at_home.good("up")
    assert at_home.good("model", "mine/z") == "new sessions use mine/z\n"
    assert at_home.json("status")["model"] == "mine/z"
    at_home.ask("hello", "--name", "talk")
    assert at_home.json("sessions", "show", "talk")["model"] == "mine/z"


def test_a_model_without_a_key_is_refused_with_the_way_out_unless_told_yes(hermes: Hermes) -> None:
    done = hermes.run("model", "gpt-5", HERMES_MODEL="")
    assert done.returncode == 1
    assert "OPENAI_API_KEY is not set" in done.stderr
    assert "`hermes model key openai`" in done.stderr
    assert "--yes" in done.stderr
    assert not hermes.home.exists()
    chosen = hermes.good("model", "gpt-5", "--yes", HERMES_MODEL="")
    assert "new sessions use openai/gpt-5" in chosen
    assert "OPENAI_API_KEY is not set" in chosen
    assert "openai/gpt-5 !" in hermes.good("model", HERMES_MODEL="")
    told = json.loads(hermes.good("model", "gpt-5", "--yes", "--json", HERMES_MODEL=""))
    assert (told["model"], told["trouble"][:6]) == ("openai/gpt-5", "openai")


def test_effort_is_chosen_with_a_model_or_alone(at_home: Hermes) -> None:
    at_home.good("model", "mine/z", "--effort", "high")
    assert at_home.json("model")["reasoning_effort"] == "high"
    assert "low" in at_home.good("model", "--effort", "low")
    told = at_home.json("model")
    assert (told["reasoning_effort"], told["models"][0]["model"]) == ("low", "mine/z")
    done = at_home.run("model", "mine/other", "--effort", "hgih")
    assert done.returncode == 2
    assert at_home.json("model")["models"][0]["model"] == "mine/z"


def test_the_whole_catalogue_is_listed_also_what_is_not_set_up(at_home: Hermes) -> None:
    rows = at_home.json("model", "list", "--limit", "5000")
    lacking = {row["model"].partition("/")[0] for row in rows if row["missing"]}
    assert "azure" in lacking
    assert len(rows) > 500
    shown = at_home.good("model", "list", "azure")
    assert "! the address of azure is not set: set AZURE_OPENAI_ENDPOINT" in shown


def test_what_the_runtime_was_started_with_is_not_a_surprise(hermes: Hermes) -> None:
    hermes.good("up")
    hermes.environ.pop("HERMES_MODEL")
    asked = ("ask", "hi", "--model", "openai/gpt-5")
    assert "restart" not in hermes.run(*asked).stderr
    hinted = hermes.run(*asked, OPENAI_API_KEY="sk-exported-just-now").stderr
    assert "OPENAI_API_KEY is set here, but the runtime was started without it" in hinted
    assert "`hermes restart`" in hinted
    tried = hermes.run("model", "test", "openai/gpt-5", OPENAI_API_KEY="sk-exported-just-now")
    assert "the runtime was started without it: `hermes restart`" in tried.stdout
    chosen = hermes.good("model", "openai/gpt-5", OPENAI_API_KEY="sk-exported-just-now")
    assert "! the runtime was started with HERMES_MODEL=" in chosen


def test_uses_are_lists_in_order_and_stay_until_they_are_changed(at_home: Hermes) -> None:
    assert at_home.good("model", "use", "fallbacks", "mine/b", "mine/c", "mine/b") == (
        "fallbacks: mine/b, mine/c\n"
    )
    told = at_home.json("model", "use", "titles", "mine/b")
    assert told == {"use": "titles", "models": ["mine/b"]}
    at_home.good("model", "mine/c")
    assert at_home.good("model", "use", "fallbacks") == "fallbacks: mine/b, mine/c\n"
    assert at_home.json("model", "use", "fallbacks")["models"] == ["mine/b", "mine/c"]
    assert at_home.good("model", "use", "fallbacks", "default") == "fallbacks: none\n"
    assert at_home.good("model", "use", "fallbacks") == "fallbacks: none\n"
    assert at_home.run("model", "use", "cheap", "gpt-5").returncode == 1
    chosen = at_home.good("model", "use", "cheap", "gpt-5", "--yes")
    assert "OPENAI_API_KEY is not set" in chosen


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["lst"], "did you mean `hermes model list`?"),
        (["lst", "opus"], "no action called 'lst'"),
        (["claude", "opus"], "`hermes model list claude opus`"),
        (["claude-opus"], "did you mean anthropic/claude-opus"),
        (["opnai/gpt-5"], "no model service is called 'opnai'"),
        (["openai/"], "no model is named"),
        (["use"], "no use given"),
        (["use", "cheep", "mine/x"], "did you mean cheap?"),
        (["use", "main", "mine/x"], "`hermes model NAME` chooses it"),
        (["list", "--service", "opnai"], "did you mean openai?"),
        (["list", "--limit", "0"], "must be between"),
        (["show"], "name one model"),
        (["services", "openai"], "--service openai"),
        (["key"], "name one service"),
        (["key", "opnai"], "did you mean openai?"),
        (["logout", "nobody"], "no model service"),
        (["login", "openai"], "hermes model key openai"),
        (["refresh", "one", "two"], "name one source"),
        (["test", "clade"], "no model is called 'clade'"),
        (["list", "--yes"], "it is for `hermes model NAME` and `hermes model use`"),
        (["mine/x", "--limit", "3"], "it is for `hermes model list`"),
        (["test", "--effort", "low"], "has no --effort"),
        (["--remove"], "it is for `hermes model key`"),
    ],
)
def test_what_is_not_understood_is_refused_with_a_hint(
    lived_in: Hermes, words: list[str], told: str
) -> None:
    done = lived_in.run("model", *words, HERMES_MODEL="")
    assert done.returncode == 2, done.stdout + done.stderr
    assert told in done.stderr
    assert "hint: " in done.stderr
    assert done.stdout == ""


# sessions


def test_a_warm_cache_is_not_thrown_away_unasked(at_home: Hermes) -> None:
    at_home.ask("hello", "--name", "talk")
    assert at_home.good("model", "--session", "talk").endswith("uses mine/x\n")
    done = at_home.run("model", "mine/z", "--session", "talk")
    assert done.returncode == 1
    assert "2,125 tokens of this conversation cached" in done.stderr
    assert "--yes" in done.stderr
    told = at_home.run("model", "mine/z", "--session", "talk", "--json")
    assert (told.returncode, json.loads(told.stdout)["switched"]) == (1, False)
    assert at_home.json("model", "--session", "talk")["model"] == "mine/x"
    assert "now uses mine/z" in at_home.good("model", "mine/z", "--session", "talk", "--yes")
    kept = at_home.good("model", "--effort", "low", "--session", "talk")
    assert "now uses mine/z, reasoning effort low" in kept
    assert at_home.json("model", "--session", "talk") == {"model": "mine/z", "effort": "low"}


# the catalogue


def test_the_catalogue_is_searched_by_words(hermes: Hermes) -> None:
    shown = hermes.good("model", "list", "opus", "4.5", "--service", "anthropic")
    assert "anthropic/claude-opus-4-5" in shown
    assert "tools, vision, documents, reasoning" in shown
    assert shown == hermes.good("model", "list", "--search", "opus 4.5", "--service", "anthropic")
    rows = hermes.json("model", "list", "opus", "--limit", "2")
    assert len(rows) == 2
    assert rows[0]["context"] >= 100_000
    assert "--limit 8" in hermes.good("model", "list", "opus", "--limit", "2")
    assert hermes.json("model", "list", "no such thing") == []
    assert "did you mean 'claude'?" in hermes.good("model", "list", "clade")
    assert not hermes.home.exists()


def test_one_model_is_shown_with_its_prices_and_what_it_lacks(at_home: Hermes) -> None:
    shown = at_home.good("model", "show", "gpt-5")
    assert "$1.25 in, $10 out" in shown
    assert "no: openai needs a key" in shown
    known = at_home.json("model", "show", "mine/x")
    assert (known["price_input"], known["usable"]) == (1.0, True)
    guess = at_home.good("model", "show", "mine/other")
    assert "these are guesses" in guess
    assert "models.prices.mine/other" in guess


def test_a_refreshed_catalogue_is_listed_and_a_runtime_that_is_up_goes_by_it(
    at_home: Hermes, server: OpenAIServer
) -> None:
    at_home.environ["OPENAI_BASE_URL"] = server.url
    (before,) = at_home.json("model", "test", "openai/plain-1")
    assert (before["ok"], before["cost"]) == (True, None)
    file = at_home.work / "models.json"
    file.write_text(json.dumps(models_dev()))
    assert "  new: anthropic/claude-opus-9-1\n" in at_home.good("model", "refresh", str(file))
    assert "anthropic/claude-opus-9-1" in at_home.good("model", "list", "opus 9")
    (after,) = at_home.json("model", "test", "openai/plain-1")
    assert after["cost"] == pytest.approx((500 * 3 + 1500 * 0.3 + 125 * 15) / 1_000_000)


# a try


def test_a_round_trip_tells_its_time_and_price(at_home: Hermes, server: OpenAIServer) -> None:
    shown = at_home.good("model", "test")
    assert shown.startswith("mine/x: 'Good day.', first token after ")
    assert "2000 tokens in, 125 out, $0.0009" in shown
    named = at_home.json("model", "test", "mine/x", "mine/unpriced")
    assert [trial["ok"] for trial in named] == [True, True]
    assert named[0]["cost"] == pytest.approx(COST)
    assert named[1]["cost"] is None
    assert named[0]["seconds"] > 0
    assert len(server.requests) == 3
    assert at_home.json("cost", "--by", "use")["costs"][0]["calls"] == 3


def test_a_failing_trial_names_its_kind_and_the_others_are_tried(
    at_home: Hermes, server: OpenAIServer
) -> None:
    server.fail_next("401")
    done = at_home.run("model", "test", "mine/x", "gpt-5", "mine/x")
    assert done.returncode == 1
    failed, hint, keyless, _, fine = done.stdout.splitlines()
    assert failed.startswith("mine/x: auth: ")
    assert "hint: " in hint
    assert keyless.startswith("openai/gpt-5: auth: openai needs a key")
    assert fine.startswith("mine/x: 'Good day.'")
    server.fail_next("429", times=9)
    told = at_home.run("model", "test", "--json")
    (trial,) = json.loads(told.stdout)
    assert (told.returncode, trial["ok"], trial["trouble"]) == (1, False, "rate_limit")


def test_a_wrong_name_among_several_is_said_before_any_is_tried(
    at_home: Hermes, server: OpenAIServer
) -> None:
    assert at_home.run("model", "test", "mine/x", "clade").returncode == 2
    assert server.requests == []
