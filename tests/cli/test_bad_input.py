"""Bad input: one line that names it, a hint, the right exit code, and never a traceback."""

import json
from pathlib import Path

import pytest

from hermes_agent.cli.main import main
from hermes_agent.host.home import Home
from hermes_agent.runtime.backup import owned
from tests.support.cli import Hermes


def assert_refused(
    hermes: Hermes, code: int, names: str, *words: str | bytes, **environ: str
) -> None:
    done = hermes.run(*words, **environ)
    assert done.returncode == code, done.stderr
    assert names in done.stderr.splitlines()[0]
    assert "\nhint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 2


WRONG: list[tuple[tuple[str | bytes, ...], str]] = [
    (("sesions",), "'sesions'"),
    (("--nonsense",), "'--nonsense'"),
    (("status", "--nonsense"), "--nonsense"),
    (("sessions", "nonsense"), "nonsense"),
    (("parked", "nonsense"), "nonsense"),
    (("ask",), "text"),
    (("ask", "  "), "empty"),
    (("restore",), "file"),
    (("sessions", "show", ""), "name a session"),
    (("interrupt", " "), "name a session"),
    (("ask", "hi", "--session", ""), "name a session"),
    (("chat", "--session", ""), "name a session"),
    (("sessions", "search", " "), "nothing to search for"),
    (("sessions", "list", "--limit", "0"), "--limit"),
    (("sessions", "search", "a", "--limit", "-1"), "--limit"),
    (("logs", "--lines", "0"), "--lines"),
    (("logs", "--lines", "many"), "--lines"),
    (("ask", "hi", "--name", " "), "empty"),
    (("ask", "hi", "--name", "a" * 101), "101 characters"),
    (("ask", "hi", "--name", "a\nb"), "not a valid name"),
    (("sessions", "rename", "any", "a/b"), "not a valid name"),
    (("ask", "hi", "--tools", ""), "names no tool"),
    (("ask", "hi", "--tools", " ,, "), "names no tool"),
    (("chat", "--tools", ","), "names no tool"),
    (("ask", b"caf\xe9"), "is not UTF-8"),
]


def test_wrong_usage_exits_with_two(shared: Hermes) -> None:
    for words, names in WRONG:
        assert_refused(shared, 2, names, *words)


def test_a_folder_that_was_removed_is_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for words in (["task", "add", "in 1h", "look"], ["ask", "hi"]):
        assert main(words) == 1
        assert capsys.readouterr().err.startswith("the folder that you are in was removed\nhint: ")


def test_the_nearest_command_is_suggested(shared: Hermes) -> None:
    assert "hermes sessions" in shared.run("sesions").stderr


@pytest.mark.parametrize("runtime", [(), ("--no-runtime",)])
def test_an_unknown_model_is_named(hermes: Hermes, runtime: tuple[str, ...]) -> None:
    assert_refused(hermes, 2, "'nobody'", "ask", "hi", *runtime, HERMES_MODEL="nobody/model")
    assert_refused(hermes, 2, "'model'", "ask", "hi", *runtime, HERMES_MODEL="model")
    assert_refused(hermes, 2, "no model", "ask", "hi", *runtime, HERMES_MODEL="")


def test_an_unknown_policy_is_named(shared: Hermes) -> None:
    assert_refused(shared, 2, "'lax'", "ask", "hi", "--policy", "lax")


def test_an_unknown_session_is_named(shared: Hermes) -> None:
    assert_refused(shared, 1, "'nowhere'", "ask", "hi", "--session", "nowhere")
    assert_refused(shared, 1, "'nowhere'", "chat", "--session", "nowhere")
    assert_refused(shared, 1, "'nowhere'", "interrupt", "nowhere")


def test_settings_that_cannot_be_read_stop_the_runtime_with_a_reason(hermes: Hermes) -> None:
    hermes.home.mkdir(mode=0o700)
    config = hermes.home / "config.yaml"
    for text, names in (
        ("a: [b", "config.yaml, line"),
        ("nonsense: 1", "nonsense"),
        ("- a", "config.yaml"),
    ):
        config.write_text(text)
        assert_refused(hermes, 1, names, "up")
        assert_refused(hermes, 1, names, "ask", "hi")
        assert_refused(hermes, 1, names, "config")


def test_chat_with_two_sessions_or_a_changed_one_is_refused(hermes: Hermes) -> None:
    assert_refused(hermes, 2, "either --session", "chat", "--session", "a", "--continue")
    assert_refused(hermes, 2, "only a new session", "chat", "--session", "a", "--model", "b/c")
    assert_refused(hermes, 1, "no session", "chat", "--continue")


def test_a_chat_without_a_model_says_so_before_anything_is_typed(hermes: Hermes) -> None:
    assert_refused(hermes, 2, "no model", "chat", HERMES_MODEL="")


def test_a_name_with_a_slash_is_no_session(hermes: Hermes) -> None:
    assert_refused(hermes, 1, "'a/b'", "sessions", "show", "a/b")
    assert_refused(hermes, 1, "'a/b'", "interrupt", "a/b")
    assert_refused(hermes, 1, "''", "approvals", "answer", "", "yes")


def test_words_without_quotes_are_told_about_quotes(shared: Hermes) -> None:
    done = shared.run("ask", "list", "files")
    assert done.returncode == 2
    assert "quote the question" in done.stderr


def test_half_a_model_is_completed_by_an_example(shared: Hermes) -> None:
    for model, example in (("scripted/", "scripted/demo"), ("openai/", "openai/gpt-")):
        assert example in shared.run("ask", "hi", "--model", model).stderr


def test_a_home_with_odd_bytes_is_refused(hermes: Hermes) -> None:
    for command in ("status", "doctor", "ask"):
        words = [command, "hi"] if command == "ask" else [command]
        assert_refused(hermes, 2, "not UTF-8", *words, HERMES_HOME="/tmp/\udcff")


def test_with_json_trouble_is_a_document_too(shared: Hermes) -> None:
    for words, code in ((["ask", "hi", "--session", "nowhere"], 1), (["ask"], 2)):
        done = shared.run(*words, "--json")
        assert done.returncode == code
        assert json.loads(done.stdout)["error"] in done.stderr
        assert json.loads(done.stdout)["hint"] in done.stderr


def test_a_home_that_a_program_uses_is_not_said_to_be_a_runtime(hermes: Hermes) -> None:
    with owned(Home(hermes.home)):
        done = hermes.run("ask", "hi")
    assert done.returncode == 1
    assert "wait until it has ended" in done.stderr
    assert "hermes down" not in done.stderr
