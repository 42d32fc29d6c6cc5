"""Bad input: one line that names it, a hint, the right exit code, and never a traceback."""

import pytest

from tests.support.cli import House


def assert_refused(house: House, code: int, names: str, *words: str, **environ: str) -> None:
    done = house.run(*words, **environ)
    assert done.returncode == code, done.stderr
    assert names in done.stderr.splitlines()[0]
    assert "\nhint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("sesions",), "'sesions'"),
        (("--nonsense",), "'--nonsense'"),
        (("status", "--nonsense"), "--nonsense"),
        (("sessions", "nonsense"), "nonsense"),
        (("parked", "nonsense"), "nonsense"),
        (("ask",), "text"),
        (("ask", "  "), "empty"),
        (("restore",), "file"),
    ],
)
def test_wrong_usage_exits_with_two(house: House, words: tuple[str, ...], names: str) -> None:
    assert_refused(house, 2, names, *words)


def test_the_nearest_command_is_suggested(house: House) -> None:
    assert "hermes sessions" in house.run("sesions").stderr


@pytest.mark.parametrize("runtime", [(), ("--no-runtime",)])
def test_an_unknown_model_is_named(house: House, runtime: tuple[str, ...]) -> None:
    assert_refused(house, 2, "'nobody'", "ask", "hi", *runtime, HERMES_MODEL="nobody/model")
    assert_refused(house, 2, "'model'", "ask", "hi", *runtime, HERMES_MODEL="model")
    assert_refused(house, 2, "no model", "ask", "hi", *runtime, HERMES_MODEL="")


def test_a_missing_key_is_named(house: House) -> None:
    done = house.run("ask", "hi", HERMES_MODEL="openai/some-model")
    assert done.returncode in (1, 2)
    assert "OPENAI_API_KEY" in done.stderr
    assert "\nhint: " in done.stderr


def test_an_unknown_policy_is_named(house: House) -> None:
    assert_refused(house, 2, "'lax'", "ask", "hi", "--policy", "lax")


def test_an_unknown_session_is_named(house: House) -> None:
    assert_refused(house, 1, "'nowhere'", "ask", "hi", "--session", "nowhere")
    assert_refused(house, 1, "'nowhere'", "chat", "--session", "nowhere")
    assert_refused(house, 1, "'nowhere'", "interrupt", "nowhere")


def test_settings_that_cannot_be_read_stop_the_runtime_with_a_reason(house: House) -> None:
    house.home.mkdir(mode=0o700)
    config = house.home / "config.yaml"
    for text, names in (
        ("a: [b", "config.yaml, line"),
        ("nonsense: 1", "nonsense"),
        ("- a", "config.yaml"),
    ):
        config.write_text(text)
        assert_refused(house, 1, names, "up")
        assert_refused(house, 1, names, "ask", "hi")
        assert_refused(house, 1, names, "config")


def test_chat_with_two_sessions_or_a_changed_one_is_refused(house: House) -> None:
    assert_refused(house, 2, "two sessions", "chat", "--session", "a", "--continue")
    assert_refused(house, 2, "keeps", "chat", "--session", "a", "--model", "b/c")
    assert_refused(house, 1, "no session", "chat", "--continue")


def test_a_chat_without_a_model_says_so_before_anything_is_typed(house: House) -> None:
    assert_refused(house, 2, "no model", "chat", HERMES_MODEL="")
