from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.policy.redaction.redactor import Redactor

ENVIRON = {
    "OPENAI_API_KEY": "plainly-a-key-value",
    "SPACED_SECRET": "several words that are secret",
    "LINES_SECRET": "first line of it\nsecond line of it",
}
KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB12\n\n"
    + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n" * 20
    + "-----END RSA PRIVATE KEY-----\n"
)
TEXTS = (
    "plain text with nothing in it\n",
    "progress 10% ",
    "key=plainly-a-key-value; ",
    "say several words that are secret aloud\n",
    "say several words that are not\n",
    "first line of it\nsecond line of it\n",
    "first line of it\nanother line\n",
    '{"password": "hunter2 and more 2"}\n',
    "password: hunter2\n",
    '"name": "DB_PASSWORD",\n    "value": "two words 4 you"\n',
    "DB_PASSWORD=plainword\n",
    "deploy --token q8Zr0x71LmPwT4sd now\n",
    "Authorization: Bearer abc.def-123_456~789+0=\n",
    "Cookie: sid=abcd1234; theme=x\n",
    "postgres://app:hunter2@db:5432/x\n",
    "ghp_a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1\n",
    "see q8Zr0x71LmPwT4sdX2vB9n, please\n",
    "a line says -----BEGIN PRIVATE KEY----- and goes on about keys. " + "It is long. " * 40 + "\n",
    "----- a line -----\n",
    "die Schlüssel 钥匙 🔑\n",
    KEY,
)


def streamed(redact: Redactor, pieces: list[str]) -> str:
    stream = redact.stream()
    return "".join([*map(stream.feed, pieces), stream.end()])


def cut(text: str, sizes: list[int]) -> list[str]:
    pieces = []
    for size in sizes:
        pieces.append(text[:size])
        text = text[size:]
    return [*pieces, text]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(TEXTS), max_size=6), st.lists(st.integers(1, 90), max_size=40))
def test_pieces_are_redacted_as_the_whole_is(texts: list[str], sizes: list[int]) -> None:
    redact = Redactor(ENVIRON)
    text = "".join(texts)
    assert streamed(redact, cut(text, sizes)) == redact(text)


def test_every_single_character_can_be_a_piece() -> None:
    redact = Redactor(ENVIRON)
    for text in TEXTS:
        assert streamed(redact, list(text)) == redact(text)


def test_only_what_may_be_part_of_a_secret_is_held_back() -> None:
    stream = Redactor(ENVIRON).stream()
    assert stream.feed("step 1 of 2 ... do") == "step 1 of 2 ... "
    assert stream.feed("ne\nName: ") == "done\nName: "
    assert stream.feed("password: hun") == "password: "
    assert stream.feed("ter2") == ""
    assert stream.feed("\nok\n") == "[redacted:password]\nok\n"
    assert stream.end() == ""


def test_a_key_is_redacted_at_once_and_its_rest_swallowed() -> None:
    stream = Redactor({}).stream()
    shown = stream.feed("here:\n" + KEY[:300])
    assert shown == "here:\n[redacted:private-key]"
    assert stream.feed(KEY[300:600]) == ""
    assert stream.feed(KEY[600:] + "bye\n") == "\nbye\n"
    assert stream.end() == ""


def test_a_text_without_end_is_not_held_forever() -> None:
    stream = Redactor({}).stream()
    shown = "".join(stream.feed("ab" * 50) for _ in range(200))
    assert len(shown) > 10_000
    assert shown + stream.end() == "ab" * 10_000


def test_a_secret_without_end_is_swallowed() -> None:
    stream = Redactor({}).stream()
    shown = stream.feed("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.d")
    shown += "".join(stream.feed("aB3dE6gH9" * 10) for _ in range(100))
    shown += stream.feed(" done\n") + stream.end()
    assert shown == "[redacted:web-token] done\n"
