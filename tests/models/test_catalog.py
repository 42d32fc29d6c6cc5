from pathlib import Path

import pytest

from hermes_agent.core.errors import ModelError, UsageError
from hermes_agent.core.messages import ModelFacts
from hermes_agent.core.settings import ModelSettings, Price
from hermes_agent.models.catalog import SERVICES, open_model
from hermes_agent.models.scripted import BUNDLED
from tests.models.helpers import reply, request

SETTINGS = ModelSettings()


def test_an_empty_name_says_how_to_configure_one() -> None:
    with pytest.raises(UsageError, match="no model is configured") as raised:
        open_model("", SETTINGS, {})
    for way in ("HERMES_MODEL=service/name", "hermes config set model", "scripted/demo"):
        assert way in raised.value.hint


@pytest.mark.parametrize("name", ["gpt-4o", "openai/", "/x", "/"])
def test_a_name_without_service_or_model_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"is not the name of a model|names no model") as raised:
        open_model(name, SETTINGS, {})
    assert raised.value.hint


def test_an_unknown_service_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'opnai'") as raised:
        open_model("opnai/gpt", SETTINGS, {})
    assert all(service in raised.value.hint for service in SERVICES)


async def test_a_model_has_the_facts_of_the_settings() -> None:
    name = "openai/org/model:free"
    settings = ModelSettings(context_tokens={name: 5}, prices={name: Price(1.0, 2.0, 0.5)})
    model = open_model(name, settings, {"OPENAI_API_KEY": "k"})
    assert model.name == name
    assert model.facts == ModelFacts(5, price_input=1.0, price_output=2.0, price_cached=0.5)
    await model.close()


async def test_a_model_without_settings_has_no_price() -> None:
    assert open_model("openai/x", SETTINGS, {"OPENAI_API_KEY": "k"}).facts == ModelFacts()


def test_a_missing_key_is_said_before_anything_is_sent() -> None:
    with pytest.raises(ModelError, match="OPENAI_API_KEY is not set") as raised:
        open_model("openai/x", SETTINGS, {})
    assert raised.value.kind == "auth"
    assert "OPENAI_BASE_URL" in raised.value.hint


def test_a_service_of_ones_own_needs_no_key() -> None:
    environ = {"OPENAI_BASE_URL": "http://localhost:1/v1"}
    assert open_model("openai/x", SETTINGS, environ).name == "openai/x"


@pytest.mark.parametrize("key", ["sk-a b", "sk-a\nb", "sk-é"])
def test_a_key_that_cannot_be_sent_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ModelError, match="characters that no key has") as raised:
        open_model("openai/x", SETTINGS, {"OPENAI_API_KEY": key})
    assert key not in str(raised.value)


def test_a_base_url_that_is_no_address_is_refused() -> None:
    with pytest.raises(UsageError, match="OPENAI_BASE_URL is 'localhost:80'"):
        open_model("openai/x", SETTINGS, {"OPENAI_BASE_URL": "localhost:80"})


async def test_every_bundled_script_opens_by_its_name_and_answers() -> None:
    names = [path.stem for path in BUNDLED.glob("*.yaml")]
    assert "demo" in names
    for name in names:
        model = open_model(f"scripted/{name}", SETTINGS, {})
        assert model.name == f"scripted/{name}"
        answer = await reply(model, request("hello"))
        assert answer.text or answer.calls


async def test_a_script_file_opens_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("name: other\nturns: [{replies: [{say: hi}]}]")
    for name in (f"scripted/{tmp_path}/mine.yaml", "scripted/~/mine.yaml"):
        model = open_model(name, SETTINGS, {"HOME": str(tmp_path)})
        assert model.name == name
        assert (await reply(model, request("hello"))).text == "hi"


def test_an_unknown_script_lists_the_bundled_ones() -> None:
    with pytest.raises(UsageError, match="no script is called 'nope'") as raised:
        open_model("scripted/nope", SETTINGS, {})
    assert "demo" in raised.value.hint


def test_a_script_file_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match=r"cannot read the script /no/such\.yaml"):
        open_model("scripted//no/such.yaml", SETTINGS, {})
