"""Our signatures against botocore's, on requests of every shape."""

from datetime import UTC, datetime
from urllib.parse import quote

import httpx
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.models.wires.base import Credential
from hermes_agent.models.wires.bedrock.client import signed_headers

PRINTABLE = st.characters(min_codepoint=33, max_codepoint=126)
WORDS = st.text(PRINTABLE, min_size=1, max_size=40)
HEADER_VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)
HEADER_NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True).map("x-{}".format)
MOMENTS = st.floats(0, 4e9, allow_nan=False)


def by_botocore(
    url: str, body: bytes, headers: dict[str, str], credential: Credential, now: float
) -> str:
    """The header that botocore would send at that moment."""
    token = credential.session or None
    auth = SigV4Auth(Credentials(credential.id, credential.secret, token), "bedrock", "eu-west-3")
    request = AWSRequest("POST", url, headers, body)
    request.context["timestamp"] = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    auth._modify_request_before_signing(request)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    auth._inject_signature_to_request(request, auth.signature(text, request))
    header: str = request.headers["Authorization"]
    return header


def ours(
    url: str, body: bytes, headers: dict[str, str], credential: Credential, now: float
) -> dict[str, str]:
    return signed_headers(
        url, body, headers, credential, region="eu-west-3", service="bedrock", now=now
    )


@settings(max_examples=300, deadline=None)
@given(
    model=st.text(st.characters(codec="utf-8"), min_size=1, max_size=60),
    body=st.binary(max_size=200),
    headers=st.dictionaries(HEADER_NAMES, HEADER_VALUES, max_size=4),
    id=WORDS,
    secret=WORDS,
    session=st.one_of(st.just(""), WORDS),
    now=MOMENTS,
    host=st.sampled_from(
        ("https://bedrock-runtime.eu-west-3.amazonaws.com", "http://127.0.0.1:8080",
         "https://Proxy.Example:443/prefix", "http://[::1]:81", "https://user:pw@host.example")
    ),
)  # fmt: skip
def test_a_signature_is_the_one_that_botocore_makes(
    model: str,
    body: bytes,
    headers: dict[str, str],
    id: str,
    secret: str,
    session: str,
    now: float,
    host: str,
) -> None:
    url = f"{host}/model/{quote(model, safe='')}/converse-stream"
    credential = Credential(secret, id, session)
    made = ours(url, body, headers, credential, now)
    assert made["authorization"] == by_botocore(url, body, headers, credential, now)
    assert made.get("x-amz-security-token", "") == session
    assert {name: made[name] for name in headers} == headers


@settings(max_examples=200, deadline=None)
@given(
    path=st.lists(st.sampled_from(("", ".", "..", "a", "b%2Fc", "x~y", "é", "a b", "c:d"))),
    query=st.lists(st.sampled_from(("a", "a=1", "a-=1", "b=", "a=0", "=x", "%20=y", ""))),
)
def test_odd_paths_and_queries_are_signed_as_botocore_does(
    path: list[str], query: list[str]
) -> None:
    url = f"https://h.example/{'/'.join(path)}"
    if query:
        url += "?" + "&".join(query)
    credential = Credential("secret", "id")
    made = ours(url, b"{}", {}, credential, 1e9)
    assert made["authorization"] == by_botocore(url, b"{}", {}, credential, 1e9)


def test_the_client_sends_the_path_that_was_signed() -> None:
    """A path that httpx wrote another way would make every signature wrong."""
    for model in (
        "anthropic.claude-v1:0",
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-v1:0",
        "a~b+c d%e",
    ):
        path = f"/model/{quote(model, safe='')}/converse-stream"
        assert httpx.URL(f"https://h.example{path}").raw_path == path.encode()


def test_the_secret_is_in_no_header() -> None:
    made = ours("https://h.example/", b"{}", {}, Credential("the-secret", "id", "token"), 1e9)
    assert "the-secret" not in " ".join(made.values())
