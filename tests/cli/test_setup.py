"""`hermes setup` and bare `hermes`: what is found is tested, and only what works is chosen."""

import json
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.cli.main import start_command
from hermes_agent.cli.manage.setup import find, model
from hermes_agent.cli.manage.setup.find import FoundService
from hermes_agent.cli.manage.setup.trial import ServiceTester
from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.root import Settings
from hermes_agent.models.catalogue.catalogue import Catalogue
from hermes_agent.models.catalogue.proposals import PROPOSALS, propose
from tests.support.cli import Hermes, Pane, wait_until
from tests.support.fake_service import LOGIN_PAGE, fake_service
from tests.support.model_server import Raw
from tests.support.openai_server import FAILURES
from tests.support.peer_homes import hermes_agent, write

KEY = "sk-ant-of-the-tests-0123"
CLAUDE = ("claude-sonnet-5-5", "claude-haiku-5-5")
SONNET, HAIKU = (f"anthropic/{name}" for name in CLAUDE)


@pytest.fixture
def fresh(hermes: Hermes) -> Hermes:
    """A user without a model, on a machine without other agents or keys."""
    hermes.environ = {
        name: value
        for name, value in hermes.environ.items()
        if not name.endswith(("_API_KEY", "_TOKEN", "_BASE_URL", "HERMES_MODEL", "HERMES_POLICY"))
    }
    for server in ("OLLAMA", "LMSTUDIO", "VLLM", "LLAMACPP"):  # one may run on this machine
        hermes.environ[f"{server}_BASE_URL"] = "http://127.0.0.1:9/v1"
    hermes.environ["HOME"] = str(hermes.work.parent)
    return hermes


@pytest.fixture
def anthropic(fresh: Hermes) -> Iterator[Hermes]:
    with fake_service(CLAUDE, key=KEY) as server:
        fresh.environ["ANTHROPIC_BASE_URL"] = server.root
        yield fresh


def config(hermes: Hermes) -> str:
    file = hermes.home / "config.yaml"
    return file.read_text() if file.exists() else ""


def set_up(hermes: Hermes, *words: str, **environ: str) -> dict[str, Any]:
    done = hermes.run("setup", "--yes", "--json", *words, **environ)
    report: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if "model" in report["chosen"] else 1), done.stderr
    assert KEY not in done.stdout + done.stderr + config(hermes)
    return report


@pytest.mark.parametrize(
    ("models", "fails", "told"),
    [
        (("served",), None, ""),
        (("text-embedding-9", "served"), None, ""),
        ((), None, "lists no model"),
        ((), FAILURES["401"], "refused the key (401)"),
        ((), FAILURES["quota"], "has no credit left"),
        ((), FAILURES["503"], "is overloaded or down"),
        ((), FAILURES["reset"], "was lost"),
        ((), LOGIN_PAGE, "answered with a web page"),
    ],
)
def test_a_server_is_tested_and_only_chosen_if_it_answers(
    fresh: Hermes, models: tuple[str, ...], fails: Raw | None, told: str
) -> None:
    with fake_service(models, fails=fails) as server:
        report = set_up(fresh, "model", VLLM_BASE_URL=f"{server.root}/v1")
    [found] = [row for row in report["found"] if row["service"] == "vllm"]
    assert (found["ok"], told in found["error"]) == (not told, True)
    if told:
        assert (report["chosen"], config(fresh)) == ({}, "")
    else:
        assert report["chosen"]["model"] == "vllm/served"
        assert "vllm/served: 32000" in config(fresh)  # the window that the server named


def test_a_server_that_hangs_is_given_up(tmp_path: Path) -> None:
    with fake_service((), fails=FAILURES["silent"]) as server:
        environ = {"VLLM_BASE_URL": f"{server.root}/v1"}
        service = FoundService("vllm", environ, "a test", own_server=True)
        tester = ServiceTester(Settings(), tmp_path, lambda _: None, lambda _: None, 0.05)
        [tried] = tester.test([service])
    assert (tried.kind, tried.error) == ("timeout", "sent no list of models within 0.05 seconds")


def test_of_two_services_the_makers_own_is_proposed_with_a_cheap_model(anthropic: Hermes) -> None:
    with fake_service(["served"]) as server:
        host = server.root.removeprefix("http://")
        environ = {"ANTHROPIC_API_KEY": KEY, "OLLAMA_HOST": host, "OLLAMA_BASE_URL": ""}
        report = set_up(anthropic, **environ)
        assert {"anthropic", "ollama"} <= {row["service"] for row in report["found"] if row["ok"]}
        assert report["chosen"] == {
            "model": SONNET, "cheap": HAIKU, "policy": "careful", "channels": [],
        }  # fmt: skip
        anthropic.good("config", "set", "model", "ollama/served")
        assert set_up(anthropic, "model", **environ)["chosen"]["model"] == "ollama/served"


def test_a_key_is_stored_only_where_that_is_agreed(anthropic: Hermes) -> None:
    assert not set_up(anthropic, ANTHROPIC_API_KEY=KEY)["stored"]
    assert not (anthropic.home / ".env").exists()
    (anthropic.work / ".env").write_text(f"ANTHROPIC_API_KEY={KEY}\n")
    refused = set_up(anthropic, "model")
    assert (refused["chosen"], "--store-keys" in refused["hint"]) == ({}, True)
    assert set_up(anthropic, "model", "--store-keys")["stored"]
    file = anthropic.home / ".env"
    assert (stat.S_IMODE(file.stat().st_mode), KEY in file.read_text()) == (0o600, True)
    (anthropic.work / ".env").unlink()
    assert anthropic.json("model", "test")[0]["ok"]  # from there alone, with its address


def test_no_file_of_a_folder_leads_a_key_of_the_user_elsewhere(fresh: Hermes) -> None:
    with fake_service(["stolen"]) as thief, fake_service(CLAUDE, key=KEY) as server:
        (fresh.work / ".env").write_text(f"ANTHROPIC_BASE_URL={thief.root}\n")
        fresh.good("config", "set", "models.services.anthropic.url", server.root)
        report = set_up(fresh, "model", ANTHROPIC_API_KEY=KEY)
        assert (report["chosen"]["model"], thief.requests) == (SONNET, [])


def test_files_of_other_agents_are_read_only_if_agreed(anthropic: Hermes) -> None:
    folder = anthropic.work.parent / ".nanobot"
    (folder / "workspace").mkdir(parents=True)
    text = json.dumps({"providers": {"anthropic": {"apiKey": KEY}}})
    (folder / "config.json").write_text(text)
    report = set_up(anthropic, "model", "--store-keys")
    assert report["chosen"] == {}
    assert report["import"] == [{"agent": "nanobot", "home": str(folder)}]
    assert set_up(anthropic, "model", "--store-keys", "--agents")["chosen"]["model"] == SONNET
    assert (folder / "config.json").read_text() == text


def test_another_agents_home_is_imported_first(fresh: Hermes) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(fake_service(["tiny"]))
        home = hermes_agent(fresh.work.parent / ".hermes")
        address = f"{server.root}/v1"
        write(home, "config.yaml", f"model: {{base_url: '{address}', default: tiny}}")
        pane = Pane(fresh.work, [sys.executable, "-m", "hermes_agent"], fresh.environ)
        stack.callback(pane.close)
        pane.shows("Import from ~/.hermes now?")
        pane.press("Enter")
        pane.shows("import into")
        pane.enter("y")
        pane.shows("also copy")
        pane.press("Enter")
        pane.shows("Read their files?")
        pane.press("Enter")
        assert "Which model should answer?" not in pane.shows("tiny, as imported")
        pane.shows("How much may Hermes do")


def test_an_import_that_is_interrupted_says_what_stays(fresh: Hermes) -> None:
    hermes_agent(fresh.work.parent / ".hermes", sessions=400)
    with ExitStack() as stack:
        pane = Pane(fresh.work, [sys.executable, "-m", "hermes_agent"], fresh.environ)
        stack.callback(pane.close)
        pane.shows("Import from ~/.hermes now?")
        pane.press("Enter")
        pane.shows("import into")
        pane.enter("y")
        pane.shows("also copy")
        pane.press("Enter")
        wait_until(lambda: fresh.api.is_up() and fresh.api.get("/v1/sessions"), "a session")
        pane.press("C-c")
        assert "saved: part of what is in ~/.hermes" in pane.shows("starts it again")


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("auth.json", '{"OPENAI_API_KEY": "sk-0123456789ab", "tokens": {"access_token": "x"}}',
         {"OPENAI_API_KEY": "sk-0123456789ab"}),
        ("settings.json", '{"env": {"ANTHROPIC_API_KEY": "sk-0123456789ab"}}',
         {"ANTHROPIC_API_KEY": "sk-0123456789ab"}),
        ("auth-profiles.json", '{"profiles": {"google:me": {"key": "AIza0123456789"}}}',
         {"GEMINI_API_KEY": "AIza0123456789"}),
        ("config.json", '{"groq": {"apiKey": ""}, "xai": {"apiKey": "${XAI_API_KEY}"}}', {}),
        ("secrets.yaml", "GROQ_API_KEY: gsk_0123456789", {"GROQ_API_KEY": "gsk_0123456789"}),
        (".aider.conf.yml", "openai-api-key: sk-0123456789ab\nmodel: x",
         {"OPENAI_API_KEY": "sk-0123456789ab"}),
        (".env", "export HF_TOKEN='hf_0123456789'\nPATH=/bin", {"HF_TOKEN": "hf_0123456789"}),
        ("broken.json", "{", {}),
        ("deep.json", '{"a":' * 900 + "1" + "}" * 900, {}),
        ("deep.yaml", "[" * 900_000, {}),
        ("bomb.yaml", "a0: &a0 {}\n"
         + "".join(f"a{i + 1}: &a{i + 1} {{x: *a{i}, y: *a{i}}}\n" for i in range(40)), {}),
    ],
)  # fmt: skip
def test_keys_are_found_in_the_files_of_other_agents(
    tmp_path: Path, name: str, text: str, found: Mapping[str, str]
) -> None:
    (tmp_path / name).write_text(text)
    assert dict(find.keys_in(tmp_path / name)) == found


@pytest.mark.parametrize(
    ("written", "base"),
    [
        ("gpu1:8000", "http://gpu1:8000"),
        ("http://gpu1:8000/v1/", "http://gpu1:8000/v1"),
        ("https://gpu1/v1/chat/completions?x=1", "https://gpu1/v1"),
        ("http://user:word@gpu1", ""),
        ("ftp://gpu1", ""),
    ],
)
def test_a_pasted_address_becomes_the_base_of_an_api(written: str, base: str) -> None:
    if base:
        assert model.base_url(written) == base
    else:
        with pytest.raises(HermesError):
            model.base_url(written)


@pytest.mark.parametrize("service", [name for name in PROPOSALS if Catalogue().names(name)])
def test_what_is_proposed_is_in_the_catalogue_and_the_cheap_one_is_cheaper(service: str) -> None:
    catalogue = Catalogue()
    main, cheap = map(catalogue.facts, propose(service, (), catalogue))
    assert main is not None
    if cheap is not None and main.rates and cheap.rates:
        assert cheap.rates[0].output <= main.rates[0].output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["setup"], "no terminal to prompt on"),
        (["setup", "--json"], "--yes"),
        (["setup", "nothing", "--yes"], "steps: model, policy, channel"),
    ],
)
def test_without_a_terminal_the_way_for_scripts_is_shown(
    fresh: Hermes, words: list[str], told: str
) -> None:
    done = fresh.run(*words)
    assert (done.returncode, told in done.stderr) == (2, True)
    assert not fresh.home.exists()


def test_the_home_of_another_agent_is_left_as_it_is(fresh: Hermes) -> None:
    home = fresh.work.parent / ".hermes"
    home.mkdir()
    (home / "openclaw.json").touch()
    done = fresh.run("setup", "--yes", HERMES_HOME=str(home))
    assert (done.returncode, [*home.iterdir()]) == (1, [home / "openclaw.json"])
    assert "HERMES_HOME=" in done.stderr


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({}, "setup"),
        ({"config.yaml": "policy: observe\nmodels: {}"}, "setup"),
        ({"config.yaml": "model: scripted/demo"}, "chat"),
    ],
)
def test_bare_hermes_is_the_set_up_until_there_is_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: Mapping[str, str], command: str
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.delenv("HERMES_MODEL", raising=False)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert start_command() == command


def test_bare_hermes_sets_up_and_then_talks(fresh: Hermes) -> None:
    """A server that wants a key is typed in; Ctrl-C before that leaves nothing."""
    command = [sys.executable, "-m", "hermes_agent"]
    with ExitStack() as stack:
        server = stack.enter_context(fake_service(["gpt-oss-20b"], key=KEY))
        left = Pane(fresh.work, command, fresh.environ)
        stack.callback(left.close)
        left.shows("Which model should answer?")
        left.press("C-c")
        left.shows("nothing was changed")
        wait_until(left.has_ended, "the set-up to end")
        assert not fresh.home.exists()
        pane = Pane(fresh.work, command, fresh.environ)
        stack.callback(pane.close)
        pane.shows("Which model should answer?")
        pane.enter("your own server")
        pane.shows("address")
        pane.enter(server.root)
        pane.shows("(not shown)")
        pane.enter(KEY)
        pane.shows("Store OWN_API_KEY")
        pane.press("Enter")
        pane.shows("How much may Hermes do")
        pane.enter("observe")
        pane.shows("Which one?")
        pane.press("Enter")
        pane.shows("Ready")
        pane.enter("hello")
        assert KEY not in pane.shows("OK")
        assert "policy: observe" in config(fresh)
