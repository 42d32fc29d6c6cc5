from pathlib import Path

import pytest

from hermes_agent.core.errors import UsageError
from hermes_agent.core.settings.root import ModelSettings
from hermes_agent.core.settings.services import ModelService, ServiceSettings
from hermes_agent.models.catalogue.services import MAKERS, OWN, SERVICES, service_of

SETTINGS = ModelSettings()


@pytest.fixture
def aws_nowhere(tmp_path: Path) -> dict[str, str]:
    """An environment whose files of AWS are not there."""
    nothing = str(tmp_path / "nothing")
    return {"AWS_CONFIG_FILE": nothing, "AWS_SHARED_CREDENTIALS_FILE": nothing}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_row_has_an_address_or_needs_none(name: str, aws_nowhere: dict[str, str]) -> None:
    environ = aws_nowhere | {"AZURE_RESOURCE_NAME": "mine"}
    found, service, url = service_of(name, SETTINGS, environ)
    assert found == name
    assert service == SERVICES[name]
    if service.wire in ("local", "scripted", "builtin"):
        assert url == ""
    else:
        assert url.startswith("http://127.0.0.1:" if name in OWN else "https://")
        assert not url.endswith("/")
        assert "{" not in url


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_row_that_needs_a_key_says_where_from_or_is_signed_in_to(name: str) -> None:
    service = SERVICES[name]
    assert service.key_variables or not service.needs_key or name == "codex"
    assert name in MAKERS or name not in ("anthropic", "openai", "gemini")


def test_the_service_of_a_model_is_what_comes_before_the_first_slash() -> None:
    name, service, url = service_of("openrouter/anthropic/claude-opus-5.5", SETTINGS, {})
    assert (name, url) == ("openrouter", "https://openrouter.ai/api/v1")
    assert "cache_control" in service.quirks


def test_an_unknown_service_lists_the_known_ones() -> None:
    settings = ModelSettings(services={"mine": ServiceSettings(url="http://mine/v1")})
    with pytest.raises(UsageError, match="'opnai'") as raised:
        service_of("opnai/gpt", settings, {})
    assert all(service in raised.value.hint for service in (*SERVICES, "mine"))


def test_openai_itself_is_asked_in_its_newer_format() -> None:
    for url in ("", "https://api.openai.com/v1/", "https://eu.api.openai.com/v1"):
        _, service, _ = service_of("openai/x", SETTINGS, {"OPENAI_BASE_URL": url})
        assert service.wire == "openai-responses"
        assert service.needs_key


@pytest.mark.parametrize("name", ["openai", "openai-chat"])
def test_a_server_that_resembles_openai_is_asked_in_the_plain_chat_format(name: str) -> None:
    environ = {"OPENAI_BASE_URL": "http://localhost:1/v1/"}
    _, service, url = service_of(f"{name}/x", SETTINGS, environ)
    assert url == "http://localhost:1/v1"
    assert service.wire == "openai-chat"
    assert service.quirks == ()
    assert not service.needs_key


def test_a_host_that_only_ends_like_openai_is_not_taken_for_it() -> None:
    for url in ("https://evil-api.openai.com.example/v1", "https://notapi.openai.com.co/v1"):
        _, service, _ = service_of("openai/x", SETTINGS, {"OPENAI_BASE_URL": url})
        assert service.wire == "openai-chat"


def test_the_settings_say_more_of_a_server_that_resembles_openai() -> None:
    said = ServiceSettings(wire="openai-responses", quirks=("one_call",))
    settings = ModelSettings(services={"openai": said})
    _, service, _ = service_of("openai/x", settings, {"OPENAI_BASE_URL": "http://mine/v1"})
    assert service.wire == "openai-responses"
    assert service.quirks == ("one_call",)


def test_settings_change_only_the_fields_they_set() -> None:
    change = ServiceSettings(url="https://other/v1", headers={"x-team": "a"})
    settings = ModelSettings(services={"groq": change})
    _, service, url = service_of("groq/x", settings, {})
    assert url == "https://other/v1"
    assert service.headers == {"x-team": "a"}
    assert service.key_variables == SERVICES["groq"].key_variables
    assert service.quirks == SERVICES["groq"].quirks


def test_settings_add_services() -> None:
    said = ServiceSettings(wire="anthropic", url="https://mine/", key_variables=("MINE",))
    settings = ModelSettings(services={"mine": said})
    mine = ModelService(wire="anthropic", url="https://mine/", key_variables=("MINE",))
    assert service_of("mine/a/b", settings, {}) == ("mine", mine, "https://mine")


def test_settings_may_put_a_known_service_back_to_the_plain_format() -> None:
    settings = ModelSettings(services={"xai": ServiceSettings(wire="openai-chat", quirks=())})
    _, service, _ = service_of("xai/grok", settings, {})
    assert (service.wire, service.quirks) == ("openai-chat", ())
    assert service.url == SERVICES["xai"].url


def test_the_variable_names_another_address() -> None:
    environ = {"OLLAMA_BASE_URL": "http://box:11434/v1"}
    assert service_of("ollama/x", SETTINGS, environ)[2] == "http://box:11434/v1"


def test_a_variable_with_a_host_alone_gets_the_path_of_the_service() -> None:
    azure = {"AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com/"}
    assert service_of("azure/x", SETTINGS, azure)[2] == "https://mine.openai.azure.com/openai/v1"
    ollama = {"OLLAMA_BASE_URL": "http://box:11434"}
    assert service_of("ollama/x", SETTINGS, ollama)[2] == "http://box:11434/v1"


@pytest.mark.parametrize(
    "url", ["localhost:80", "ftp://x/v1", "http://", "https:///v1", "http://[x", "http://a:99999/"]
)
def test_what_is_no_address_is_refused_by_the_name_of_its_variable(url: str) -> None:
    with pytest.raises(UsageError, match="OPENAI_BASE_URL is '") as raised:
        service_of("openai/x", SETTINGS, {"OPENAI_BASE_URL": url})
    assert "http://" in raised.value.hint


def test_a_password_in_an_address_is_not_shown() -> None:
    with pytest.raises(UsageError) as raised:
        service_of("openai/x", SETTINGS, {"OPENAI_BASE_URL": "htp://me:hunter2@host/v1"})
    assert "hunter2" not in str(raised.value)


def test_a_service_of_the_settings_without_an_address_says_how_to_give_one() -> None:
    settings = ModelSettings(services={"mine": ServiceSettings(key_variables=("MINE",))})
    with pytest.raises(UsageError, match="address of mine") as raised:
        service_of("mine/x", settings, {})
    assert "models.services.mine.url" in raised.value.hint


def test_bedrock_is_in_the_region_that_aws_is_told(aws_nowhere: dict[str, str]) -> None:
    def url(environ: dict[str, str]) -> str:
        return service_of("bedrock/x", SETTINGS, aws_nowhere | environ)[2]

    assert url({}) == "https://bedrock-runtime.us-east-1.amazonaws.com"
    assert url({"AWS_REGION": "eu-west-1"}) == "https://bedrock-runtime.eu-west-1.amazonaws.com"
    Path(aws_nowhere["AWS_CONFIG_FILE"]).write_text("[default]\nregion = ap-south-1\n")
    assert url({}) == "https://bedrock-runtime.ap-south-1.amazonaws.com"


def test_a_region_cannot_lead_to_another_host() -> None:
    with pytest.raises(UsageError, match="cannot be part of the address of bedrock"):
        service_of("bedrock/x", SETTINGS, {"AWS_REGION": "evil.example/"})


def test_azure_without_a_resource_says_which_variable_to_set() -> None:
    with pytest.raises(UsageError) as raised:
        service_of("azure/x", SETTINGS, {})
    assert "AZURE_OPENAI_ENDPOINT" in raised.value.hint


@pytest.mark.parametrize(
    ("model", "wire"),
    [
        ("gpt-5.6-sol", "openai-responses"),
        ("our-gpt-6-deployment", "openai-responses"),
        ("o3", "openai-responses"),
        ("gpt-oss-120b", "openai-chat"),
        ("llama-3.3-70b-instruct", "openai-chat"),
        ("kimi-k2.6", "openai-chat"),
    ],
)
def test_newer_models_of_openai_are_asked_in_its_newer_format_on_azure(
    model: str, wire: str
) -> None:
    environ = {"AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com"}
    _, service, url = service_of(f"azure/{model}", SETTINGS, environ)
    assert (service.wire, url) == (wire, "https://mine.openai.azure.com/openai/v1")
    assert "api_key_header" in service.quirks
    chosen = ModelSettings(services={"azure": ServiceSettings(wire="openai-chat")})
    assert service_of(f"azure/{model}", chosen, environ)[1].wire == "openai-chat"
