import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from hermes_agent.core.errors import ModelError, UsageError
from hermes_agent.core.messages import ModelFacts, Rates, Reply, RetryEvent, RoutingEvent
from hermes_agent.core.protocols import Model
from hermes_agent.core.settings.root import ModelSettings, Price
from hermes_agent.core.settings.services import ServiceSettings
from hermes_agent.models.catalogue.services import SERVICES
from hermes_agent.models.lazy_client import WIRES
from hermes_agent.models.registry import ModelRegistry
from hermes_agent.models.scripted import BUNDLED
from tests.support.failing_models import GO, Time
from tests.support.fake_time import until
from tests.support.openai_server import OpenAIServer

SETTINGS = ModelSettings()
MINE = ServiceSettings(url="http://127.0.0.1:9/v1", needs_key=False)


def registry(
    tmp_path: Path, settings: ModelSettings = SETTINGS, time: Time | None = None, **environ: str
) -> ModelRegistry:
    time = time or Time()
    return ModelRegistry(
        settings, environ, tmp_path, clock=time, sleep=time.sleep, random=lambda: 0.0
    )


async def answer(model: Model) -> Reply:
    *_, last = [chunk async for chunk in model.stream(GO)]
    assert isinstance(last, Reply)
    return last


def test_every_wire_format_of_a_service_has_its_module() -> None:
    assert {service.wire for service in SERVICES.values()} <= {*WIRES, "scripted", "builtin"}


@pytest.mark.parametrize("names", [(), ("",)])
def test_an_empty_name_says_how_to_configure_one(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="no model is configured") as raised:
        registry(tmp_path).open(names)
    for way in ("hermes setup", "hermes model NAME", "HERMES_MODEL=service/name", "scripted/demo"):
        assert way in raised.value.hint


WRONG = ("no-such-model-at-all", "openai/", "/x", "/", "opnai/gpt", "scripted/nope", "local/nope")


@pytest.mark.parametrize("name", WRONG)
def test_a_name_that_cannot_be_right_is_refused_where_it_stands_first(
    tmp_path: Path, name: str
) -> None:
    for names in ((name,), (name, "scripted/demo")):
        with pytest.raises(UsageError) as raised:
            registry(tmp_path).open(names)
        assert raised.value.hint
    with pytest.raises(UsageError):
        registry(tmp_path).check(name)


@pytest.mark.parametrize("name", ["", *WRONG])
async def test_a_wrong_name_further_on_is_left_out_and_told_once(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    models = registry(tmp_path, ModelSettings(fallbacks=(name, "ollama/x")))
    for _ in range(2):
        model = models.open(["scripted/demo", name, "ollama/x"])
    assert list(model.ways) == ["scripted/demo", "ollama/x"]
    assert (await answer(model)).model == "scripted/demo"
    (record,) = caplog.records
    assert f"skipping {name!r} in models.fallbacks" in record.getMessage()


def test_a_wrong_address_of_a_fallback_does_not_stop_the_main_model(tmp_path: Path) -> None:
    broken = ModelSettings(services={"mine": ServiceSettings(url="nowhere", needs_key=False)})
    assert list(registry(tmp_path, broken).open(["scripted/demo", "mine/x"]).ways) == [
        "scripted/demo"
    ]


def test_the_settings_know_better_than_the_catalogue(tmp_path: Path) -> None:
    name = "openai/org/model:free"
    settings = ModelSettings(context_tokens={name: 5}, prices={name: Price(1.0, 2.0, 0.5)})
    model = registry(tmp_path, settings, OPENAI_API_KEY="k").open([name])
    assert model.name == name
    assert model.facts == ModelFacts(context=5, rates=(Rates(1.0, 2.0, 0.5),))
    known = registry(tmp_path).facts("anthropic/claude-opus-4-5")
    assert known.priced
    assert registry(tmp_path).facts("openai/nobody-knows-this") == ModelFacts()


def test_a_missing_key_is_said_before_anything_is_sent(tmp_path: Path) -> None:
    for look in (registry(tmp_path).check, lambda name: registry(tmp_path).open([name])):
        with pytest.raises(ModelError, match="OPENAI_API_KEY is not set") as raised:
            look("openai/x")
        assert raised.value.kind == "auth"
        assert "OPENAI_BASE_URL" in raised.value.hint
        assert "models.keys.openai" in raised.value.hint


def test_a_missing_key_names_every_variable_and_the_login(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="GEMINI_API_KEY or GOOGLE_API_KEY is not set"):
        registry(tmp_path).check("gemini/x")
    with pytest.raises(ModelError) as raised:
        registry(tmp_path).check("codex/x")
    assert "hermes model login codex" in raised.value.hint


def test_a_source_that_is_named_and_has_nothing_is_said(tmp_path: Path) -> None:
    settings = ModelSettings(keys={"openai": ("env:MY_KEY",)})
    with pytest.raises(ModelError, match="openai has no key: nothing found in MY_KEY"):
        registry(tmp_path, settings, OPENAI_API_KEY="k").check("openai/x")
    registry(tmp_path, settings, MY_KEY="k").check("openai/x")


def test_a_service_of_ones_own_needs_no_key(tmp_path: Path) -> None:
    environ = {"OPENAI_BASE_URL": "http://localhost:1/v1"}
    for name in ("openai/x", "ollama/x"):
        models = registry(tmp_path, **environ)
        models.check(name)
        assert models.open([name]).name == name


async def test_a_fallback_without_a_key_does_not_stand_in_the_way(tmp_path: Path) -> None:
    models = registry(tmp_path)
    assert (await answer(models.open(["scripted/demo", "openai/x"]))).model == "scripted/demo"
    model = models.open(["openai/x", "scripted/demo"])
    assert model.name == "openai/x"
    got = [chunk async for chunk in model.stream(GO)]
    assert isinstance(got[0], RoutingEvent)
    assert (got[0].step, got[0].to, got[0].kind) == ("model", "scripted/demo", "auth")
    assert isinstance(got[-1], Reply)


async def test_every_bundled_script_opens_by_its_name_and_answers(tmp_path: Path) -> None:
    names = [path.stem for path in BUNDLED.glob("*.yaml")]
    assert "demo" in names
    for name in names:
        model = registry(tmp_path).open([f"scripted/{name}"])
        assert model.name == f"scripted/{name}"
        said = await answer(model)
        assert said.text or said.calls


async def test_a_script_file_opens_by_its_path_and_has_its_own_facts(tmp_path: Path) -> None:
    script = "name: other\ncontext: 77\nturns: [{replies: [{say: hi}]}]"
    (tmp_path / "mine.yaml").write_text(script)
    for name in (f"scripted/{tmp_path}/mine.yaml", "scripted/~/mine.yaml"):
        models = registry(tmp_path, HOME=str(tmp_path))
        model = models.open([name])
        assert (model.name, model.facts.context) == (name, 77)
        assert models.facts(name) == model.facts
        assert (await answer(model)).text == "hi"


def test_a_script_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no script is called 'nope'") as raised:
        registry(tmp_path).check("scripted/nope")
    assert "demo" in raised.value.hint
    with pytest.raises(UsageError, match=r"cannot read the script /no/such\.yaml"):
        registry(tmp_path).open(["scripted//no/such.yaml"])


async def test_passing_failures_of_a_real_server_are_got_over(tmp_path: Path) -> None:
    passing = {
        "429": "rate_limit", "500": "overload", "502": "overload", "503": "overload",
        "529": "overload", "cut": "broken_stream", "garbage": "garbage", "html": "garbage",
        "empty": "broken_stream", "midway": "overload", "reset": "broken_stream",
    }  # fmt: skip
    time = Time()
    async with OpenAIServer([Reply("at last")]) as server:
        server.fail_next("429", retry_after=3)
        for how in passing:
            server.fail_next(how)
        settings = ModelSettings(retries=len(passing) + 1)
        models = registry(tmp_path, settings, time, OPENAI_BASE_URL=server.url)
        got = [chunk async for chunk in models.open(["openai/x"]).stream(GO)]
        await models.close()
        assert len(server.requests) == len(passing) + 2
        server.assert_prefix_stable()
    retries = [chunk for chunk in got if isinstance(chunk, RetryEvent)]
    assert [chunk.kind for chunk in retries] == ["rate_limit", *passing.values()]
    assert time.pauses == [chunk.delay for chunk in retries]
    assert time.pauses[0] == 3.0
    assert isinstance(got[-1], Reply)
    assert got[-1].text == "at last"


async def test_keys_of_a_pool_go_out_in_order(tmp_path: Path) -> None:
    learned: list[tuple[str, str]] = []
    settings = ModelSettings(
        keys={"openai": ("env:ONE", "env:TWO")},
    )
    async with OpenAIServer([Reply("hi")]) as server:
        server.fail_next("401")
        environ = {"ONE": "sk-one", "TWO": "sk-two", "OPENAI_BASE_URL": server.url}
        models = ModelRegistry(
            settings, environ, tmp_path, learn=lambda label, key: learned.append((label, key))
        )
        got = [chunk async for chunk in models.open(["openai/x"]).stream(GO)]
        (health,) = models.health()
        await models.close()
        sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer sk-one", "Bearer sk-two"]
    assert [chunk.to for chunk in got if isinstance(chunk, RoutingEvent)] == ["TWO"]
    assert {("ONE", "sk-one"), ("TWO", "sk-two")} <= set(learned)
    assert [(rest.label, rest.kind) for rest in health.resting] == [("ONE", "auth")]


async def test_health_tells_which_circuits_are_open_and_until_when(tmp_path: Path) -> None:
    time = Time(1000.0)
    settings = ModelSettings(
        retries=0, circuit_failures=1, circuit_seconds=30.0, services={"mine": MINE}
    )
    models = registry(tmp_path, settings, time)
    assert models.health() == ()
    assert (await answer(models.open(["mine/x", "scripted/demo"]))).model == "scripted/demo"
    mine, demo = models.health()
    assert (mine.model, mine.circuit, mine.until) == ("mine/x", "open", 1030.0)
    assert "127.0.0.1:9" in mine.reason
    assert (demo.circuit, demo.until, demo.reason, demo.resting) == ("closed", 0.0, "", ())
    models.renew(ModelSettings(services={"mine": MINE}), {})
    assert models.health()[0].circuit == "open", "other settings do not mend a service"
    time.now = 1030.0
    assert models.health()[0].circuit == "half-open"
    await models.close()


async def test_connections_are_kept_while_what_they_lead_to_stays_the_same(tmp_path: Path) -> None:
    async with OpenAIServer([Reply("hi")]) as server:
        models = registry(tmp_path, OPENAI_BASE_URL=server.url)
        await answer(models.open(["openai/x"]))
        models.renew(ModelSettings(retries=1), {"OPENAI_BASE_URL": server.url})
        await answer(models.open(["openai/x"]))
        models.renew(ModelSettings(silence_seconds=7.0), {"OPENAI_BASE_URL": server.url})
        await answer(models.open(["openai/x"]))
        ports = [request.port for request in server.requests]
        assert ports[0] == ports[1] != ports[2]
        await models.tidy()
        await models.close()


async def test_a_call_that_runs_goes_on_while_the_settings_change(tmp_path: Path) -> None:
    said = "one two three four five six seven eight nine ten"
    async with OpenAIServer([Reply(said)], chunk_delay=0.01) as server:
        models = registry(tmp_path, OPENAI_BASE_URL=server.url)
        stream = models.open(["openai/x"]).stream(GO)
        first = await anext(stream)
        models.renew(ModelSettings(silence_seconds=7.0), {"OPENAI_BASE_URL": server.url})
        models.open(["openai/x"])
        await models.tidy()
        *_, last = [first, *[chunk async for chunk in stream]]
        assert isinstance(last, Reply)
        assert last.text == said
        await models.close()


async def test_a_rate_limit_holds_after_the_settings_changed(tmp_path: Path) -> None:
    time = Time(1000.0)
    async with OpenAIServer([Reply("hi")]) as server:
        server.fail_next("429", retry_after=500)
        models = registry(tmp_path, SETTINGS, time, OPENAI_BASE_URL=server.url)
        with pytest.raises(ModelError):
            await answer(models.open(["openai/x"]))
        models.renew(ModelSettings(retries=1), {"OPENAI_BASE_URL": server.url})
        with pytest.raises(ModelError) as raised:
            await answer(models.open(["openai/x"]))
        assert raised.value.retry_after == 500.0
        assert len(server.requests) == 1
        await models.close()


def test_looking_a_name_up_loads_nothing_that_calls_models(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from hermes_agent.core.settings.root import ModelSettings\n"
        "from hermes_agent.models.registry import ModelRegistry\n"
        f"ModelRegistry(ModelSettings(), {{}}, Path({str(tmp_path)!r})).facts('openai/gpt-4o')\n"
        "print(*sorted({'asyncio', 'httpx', 'ssl', 'yaml'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("\n", "")


def test_only_what_has_changed_is_made_anew(tmp_path: Path) -> None:
    models = registry(tmp_path, OPENAI_API_KEY="k")
    models.renew(ModelSettings(), {"OPENAI_API_KEY": "k"})
    assert models.settings is SETTINGS
    models.renew(ModelSettings(), {"ANTHROPIC_API_KEY": "k"})
    assert models.settings is not SETTINGS
    models.check("anthropic/x")
    with pytest.raises(ModelError):
        models.check("openai/x")
    before, known = models.settings, models.catalogue
    models.renew(ModelSettings(), {"ANTHROPIC_API_KEY": "k"})
    assert models.settings is before
    (tmp_path / "models.json").write_bytes(
        b'{"date":"2099-01-01","sources":[],"models":{"anthropic/x":{"context":5}}}'
    )
    models.renew(ModelSettings(), {"ANTHROPIC_API_KEY": "k"})
    assert models.settings is not before
    assert models.catalogue is not known
    assert models.facts("anthropic/x").context == 5


def test_every_service_has_a_row_with_its_keys_or_what_it_lacks(tmp_path: Path) -> None:
    settings = ModelSettings(services={"mine": MINE}, keys={"groq": ("nonsense",)})
    rows = {row["name"]: row for row in registry(tmp_path, settings, XAI_API_KEY="k").services()}
    assert rows.keys() == {*SERVICES, "mine"} - {"scripted", "builtin"}
    assert rows["xai"]["keys"][0]["label"] == "XAI_API_KEY"
    assert rows["xai"]["hint"] == ""
    assert "OPENAI_API_KEY" in rows["openai"]["hint"]
    assert rows["openai"]["models"] > 10
    assert (rows["mine"]["wire"], rows["mine"]["needs_key"]) == ("openai-chat", False)
    for name in ("azure", "groq"):
        assert rows[name]["wire"] == ""
        assert rows[name]["hint"]


async def test_connections_that_nobody_uses_are_closed_and_made_anew(tmp_path: Path) -> None:
    time = Time()
    async with OpenAIServer([Reply("hi")]) as server:
        models = registry(tmp_path, SETTINGS, time, OPENAI_BASE_URL=server.url)
        names = [f"openai/m{number}" for number in range(5)]
        for name in names:
            await answer(models.open([name]))
        others = {request.port for request in server.requests[1:]}
        time.now = 29.0
        await models.tidy()
        await answer(models.open([names[0]]))
        assert others <= server.connected, "still in use"
        kept = server.requests[-1].port
        time.now = 40.0
        await models.tidy()
        await until(lambda: not others & server.connected, "those to be closed")
        await answer(models.open([names[1]]))
        assert server.connected == {kept, server.requests[-1].port}, "used eleven seconds ago"
        await models.close()


async def test_a_call_that_takes_long_keeps_its_connection(tmp_path: Path) -> None:
    time, said = Time(), "one two three four five six seven"
    async with OpenAIServer([Reply(said)], chunk_delay=0.01) as server:
        models = registry(tmp_path, SETTINGS, time, OPENAI_BASE_URL=server.url)
        await answer(models.open(["openai/x"]))
        stream = models.open(["openai/x"]).stream(GO)
        first = await anext(stream)
        time.now = 1000.0
        await models.tidy()
        *_, last = [first, *[chunk async for chunk in stream]]
        assert isinstance(last, Reply)
        assert last.text == said
        await models.close()


def test_secrets_in_headers_and_addresses_are_learned_at_once(tmp_path: Path) -> None:
    learned: set[str] = set()
    settings = ModelSettings(
        services={
            "mine": ServiceSettings(
                url="https://me:pass%40word@host/v1",
                headers={"Authorization": "Bearer abc-123", "X-Custom-Auth": "one", "x-note": "no"},
                query={"api-version": "2026-01-01", "subscription-key": "two"},
            )
        }
    )
    environ = {"OPENAI_BASE_URL": "http://only-a-token@host/v1?token=three"}
    models = ModelRegistry(settings, environ, tmp_path, learn=lambda _label, key: learned.add(key))
    assert learned == {
        "Bearer abc-123", "abc-123", "one", "two", "pass%40word", "pass@word",
        b64encode(b"me:pass@word").decode(), "only-a-token", "three",
        b64encode(b"only-a-token:").decode(),
    }  # fmt: skip
    added = {"other": ServiceSettings(url="http://h", headers={"cookie": "four"})}
    models.renew(ModelSettings(services=added), {})
    assert "four" in learned
