"""`hermes cost`, and what the other commands say of costs and of models in trouble."""

from collections.abc import Iterator

import pytest

from tests.support.cli import Hermes
from tests.support.model_service import ANSWER, COST, served
from tests.support.openai_server import OpenAIServer


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer([ANSWER] * 9) as running:
        yield running


@pytest.fixture
def at_home(hermes: Hermes, server: OpenAIServer) -> Hermes:
    served(hermes, server)
    return hermes


@pytest.fixture(scope="module")
def spent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hermes]:
    """A Hermes home in which two calls were made for a price, and one for an unknown one."""
    hermes = Hermes(tmp_path_factory.mktemp("spent") / "hermes")
    with OpenAIServer([ANSWER] * 9) as server:
        served(hermes, server)
        hermes.ask("hello", "--name", "talk")
        hermes.good("ask", "again", "--session", "talk")
        hermes.ask("hello", "--model", "mine/unpriced")
        yield hermes
    hermes.close()


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("session", 2),
        ("model", {"mine/x": 2, "mine/unpriced": 1}),
        ("service", {"mine": 3}),
        ("use", {"main": 3}),
        ("job", {"": 3}),
        ("day", 1),
    ],
)
def test_costs_are_summed_by_each_name(spent: Hermes, by: str, names: int | dict[str, int]) -> None:
    told = spent.json("cost", "--by", by)
    calls = {row["name"]: row["calls"] for row in told["costs"]}
    assert names in (calls, len(calls))
    assert sum(row["cost"] for row in told["costs"]) == pytest.approx(2 * COST)
    assert sum(row["unpriced"] for row in told["costs"]) == 1
    assert told["today"] == pytest.approx(2 * COST)
    assert "75 %" in spent.good("cost", "--by", by)


def test_a_call_of_unknown_price_counts_as_such(spent: Hermes) -> None:
    lines = spent.good("cost", "--by", "model").splitlines()
    (unpriced,) = [line for line in lines if line.startswith("mine/unpriced")]
    assert unpriced.split()[6:] == ["-", "1", "call", "of", "unknown", "price"]
    (total,) = [line for line in lines if line.startswith("all")]
    assert "$0.0018" in total
    assert "1 call of unknown price" in total


def test_one_session_is_found_by_its_name_and_shows_its_hit_rate(spent: Hermes) -> None:
    told = spent.json("cost", "--session", "talk", "--by", "model")
    assert [(row["name"], row["calls"]) for row in told["costs"]] == [("mine/x", 2)]
    rows = spent.json("cost", "--by", "session")["costs"]
    assert {row["title"] for row in rows} == {"hello"}
    assert "4,000 tokens in (75 % from the cache), 250 out, $0.0018" in spent.good(
        "sessions", "show", "talk"
    )
    said = spent.good("chat", "--session", "talk", input="/cost\n")
    assert "$0.0018, 4,000 tokens in (75 % from the cache), 250 out" in said


def test_times_and_names_that_cannot_be_are_refused(spent: Hermes) -> None:
    assert spent.run("cost", "--since", "yesterday").returncode == 2
    assert spent.run("cost", "--by", "colour").returncode == 2
    done = spent.run("cost", "--session", "nobody")
    assert (done.returncode, "no session 'nobody'" in done.stderr) == (1, True)
    assert "nothing was spent" in spent.good(
        "cost", "--until", "2020-01-01", "--since", "2019-01-01"
    )


def test_a_budget_stands_beside_what_was_spent_today(at_home: Hermes) -> None:
    assert "budgets.day_dollars" in at_home.good("cost")
    assert at_home.json("status")["day_dollars"] is None
    at_home.good("config", "set", "budgets.day_dollars", "5")
    at_home.ask("hello")
    assert "today (UTC): $0.0009 of $5.00" in at_home.good("cost")
    assert "spent      $0.0009 of $5.00 today" in at_home.good("status")
    status = at_home.json("status")
    assert (status["day_dollars"], status["today"]) == (5.0, pytest.approx(COST))


def test_a_raised_budget_holds_for_the_next_message_without_a_restart(at_home: Hermes) -> None:
    at_home.ask("hello", "--name", "talk")
    at_home.good("config", "set", "budgets.session_tokens", "2200")
    stopped = at_home.run("ask", "again", "--session", "talk")
    assert stopped.returncode == 1
    assert "`hermes config set budgets.session_tokens NUMBER`" in stopped.stderr
    at_home.good("config", "set", "budgets.session_tokens", "900000")
    assert at_home.good("ask", "again", "--session", "talk") == "Good day.\n"


def test_status_says_which_models_are_left_alone(hermes: Hermes, server: OpenAIServer) -> None:
    served(hermes, server, circuit_failures=1, circuit_seconds=3600)
    hermes.good("up")
    assert "trouble" not in hermes.good("status")
    server.fail_next("500")
    assert hermes.run("ask", "hello").returncode == 1
    assert "problem    mine/x is paused for " in hermes.good("status")
    (model,) = hermes.json("status")["models"]
    assert (model["model"], model["circuit"]) == ("mine/x", "open")


def test_status_says_which_keys_rest(hermes: Hermes, server: OpenAIServer) -> None:
    keys = {"mine": ["env:ONE_KEY", "env:TWO_KEY"]}
    hermes.environ |= {"ONE_KEY": "sk-the-first-key", "TWO_KEY": "sk-the-second-key"}
    served(hermes, server, keys=keys, service={"needs_key": True})
    server.fail_next("429", retry_after=300)
    done = hermes.run("ask", "hello")
    assert (done.returncode, done.stdout) == (0, "Good day.\n")
    assert "ONE_KEY is paused for " in hermes.good("status")
    (resting,) = hermes.json("status")["models"][0]["resting"]
    assert (resting["label"], resting["kind"]) == ("ONE_KEY", "rate_limit")


def test_status_says_when_the_settings_were_broken_since(at_home: Hermes) -> None:
    at_home.good("up")
    (at_home.home / "config.yaml").write_text("model: [")
    status = at_home.json("status")
    assert status["state"] == "running"
    assert "config.yaml" in status["reason"]
