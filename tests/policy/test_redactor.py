import base64
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

import hermes_agent
from hermes_agent.policy.redaction.redactor import Redactor

ENVIRON = {
    "OPENAI_API_KEY": "plainly-a-key-value",
    "DB_PASSWORD": 'p"ss\\word!',
    "SHORT_TOKEN": "abc",
    "LONG_TOKEN": "value-that-is-long",
    "LONGER_SECRET": "value-that-is-long-and-longer",
    "PATH": "/usr/local/bin:/usr/bin",
    "MONKEY": "a-monkey-is-no-key",
    "GOOGLE_APPLICATION_CREDENTIALS": "/home/user/account.json",
    "KEYBOARD": "a-keyboard-layout",
}
BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n"
ENCRYPTED = (
    f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{BODY}"
    "-----END RSA PRIVATE KEY-----"
)


def test_values_of_secret_variables_are_named_instead_of_shown() -> None:
    redact = Redactor(ENVIRON)
    text = "key=plainly-a-key-value, abc, value-that-is-long-and-longer value-that-is-long."
    assert redact(text) == (
        "key=[redacted:OPENAI_API_KEY], abc, [redacted:LONGER_SECRET] [redacted:LONG_TOKEN]."
    )


def test_a_value_is_found_as_json_writes_it_too() -> None:
    redact = Redactor(ENVIRON)
    assert redact('{"p": "p\\"ss\\\\word!"}') == '{"p": "[redacted:DB_PASSWORD]"}'
    assert redact('p"ss\\word!') == "[redacted:DB_PASSWORD]"


@pytest.mark.parametrize("name", ["PATH", "MONKEY", "GOOGLE_APPLICATION_CREDENTIALS", "KEYBOARD"])
def test_variables_that_are_no_secrets_are_left_alone(name: str) -> None:
    assert Redactor(ENVIRON)(f"x {ENVIRON[name]} y") == f"x {ENVIRON[name]} y"


@pytest.mark.parametrize(
    ("secret", "name"),
    [
        ("sk-proj-" + "a1B2" * 10, "sk-key"),
        ("sk-ant-api03-" + "Zz9_" * 10, "sk-key"),
        ("ghp_" + "a1" * 18, "github-token"),
        ("github_pat_" + "a1_" * 12, "github-token"),
        ("glpat-" + "a1b2c" * 4, "gitlab-token"),
        ("AKIA" + "ABCD1234" * 2, "aws-key"),
        ("ASIA" + "ABCD1234" * 2, "aws-key"),
        ("AIza" + "a1B2c" * 7, "google-key"),
        ("xoxb-" + "123456789012-abc", "slack-token"),
        ("sk_live_" + "a1B2" * 5, "stripe-key"),
        ("npm_" + "a1B2" * 9, "npm-token"),
        ("pypi-AgEIcHlwaS5vcmc" + "a1B_" * 12, "pypi-token"),
        ("hf_" + "abCDefGHij" * 3 + "klmn", "huggingface-token"),
        ("dop_v1_" + "a1b2c3d4" * 8, "digitalocean-token"),
        ("SG." + "a1B2c3D4e5F6g7H8i9J0k1." + "a1B2c3D4-_" * 4 + "xyz", "sendgrid-key"),
        ("SK" + "a1b2c3d4" * 4, "twilio-key"),
        ("hvs." + "a1B2c3" * 5, "vault-token"),
        ("AGE-SECRET-KEY-1" + "QPZRY9X8GF" * 5 + "2TVDW0S3", "age-key"),
        ("MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs", "discord-token"),
        ("rk_live_" + "a1B2" * 5, "stripe-key"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVPmB92K27u", "web-token"),
        (f"-----BEGIN PRIVATE KEY-----\n{BODY}{BODY}-----END PRIVATE KEY-----", "private-key"),
        (ENCRYPTED, "private-key"),
    ],
)
def test_keys_of_known_shape_are_found_wherever_they_stand(secret: str, name: str) -> None:
    redact = Redactor({})
    for before, after in (("", ""), ("key: ", "\n"), ('"', '"'), ("KEY=", ";"), ("(", ")")):
        assert redact(before + secret + after) == f"{before}[redacted:{name}]{after}"


def test_a_bearer_token_goes_and_its_header_stays() -> None:
    text = "curl -H 'Authorization: Bearer abc.def-123_456~789+0=' host"
    assert Redactor({})(text) == "curl -H 'Authorization: Bearer [redacted:bearer-token]' host"


def test_a_private_key_that_is_cut_off_or_numbered_is_not_shown() -> None:
    redact = Redactor({})
    numbered = f"1|-----BEGIN PRIVATE KEY-----\n2|{BODY}3|{BODY}[lines 1 to 3 of 20]"
    assert redact(numbered) == "1|[redacted:private-key]\n[lines 1 to 3 of 20]"
    escaped = '"-----BEGIN PRIVATE KEY-----\\n' + BODY.strip() + "\\n"
    assert BODY.strip() not in redact(escaped)


@pytest.mark.parametrize(
    "text",
    [
        "task-force-of-the-year-with-many-words risk-averse-people-everywhere-2024",
        "sk-learn-is-a-nickname-for-a-library and sk-1 is short",
        "the bearer of this-most-important-message is late; Bearer authentication-mechanisms",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b in ghp_ and AKIA and xox",
        "see https://example.com/a/b?c=d#e, mail me@example.com, 10.0.0.1:8080",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "a line says -----BEGIN PRIVATE KEY----- and goes on about keys",
        "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        "die Schlüssel 钥匙 🔑 \x00\x1b[31m",
    ],
)
def test_ordinary_text_is_not_damaged(text: str) -> None:
    assert Redactor(ENVIRON)(text) == text


def test_our_own_source_is_ordinary_text() -> None:
    redact = Redactor({})
    folder = Path(hermes_agent.__file__).parent
    changed = [path for path in folder.rglob("*.py") if redact(text := path.read_text()) != text]
    assert changed == []


def test_values_inside_data_are_redacted_too() -> None:
    redact = Redactor(ENVIRON)
    data = {"diff": "+plainly-a-key-value", "rows": [1, None, ("plainly-a-key-value",)], "ok": True}
    assert redact.deep(data) == {
        "diff": "+[redacted:OPENAI_API_KEY]",
        "rows": [1, None, ["[redacted:OPENAI_API_KEY]"]],
        "ok": True,
    }


def test_redacting_twice_is_redacting_once() -> None:
    redact = Redactor(ENVIRON)
    once = redact("plainly-a-key-value ghp_" + "a1" * 18)
    assert redact(once) == once


def test_a_value_that_is_learned_later_is_recognised() -> None:
    redact = Redactor({})
    assert redact("it is quite-a-value") == "it is quite-a-value"
    redact.learn("LATER", " quite-a-value\n")
    redact.learn("TOO_SHORT", "it is")
    assert redact("it is quite-a-value") == "it is [redacted:LATER]"


@pytest.mark.parametrize(
    "value", ["plainly-a-key-value", 'p"ss\\word!', "pässword-ñ", "a b c d e f"]
)
@pytest.mark.parametrize("before", ["", "x", "xy", "user:"])
@pytest.mark.parametrize("after", ["", "z", "\n"])
def test_known_values_are_found_in_base64_hex_and_urls(value: str, before: str, after: str) -> None:
    redact = Redactor({"MY_SECRET": value})
    raw = f"{before}{value}{after}".encode()
    for text in (
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode(),
        raw.hex(),
        raw.hex().upper(),
        quote(value, safe=""),
        quote(value, safe="").lower() if value.islower() else quote(value),
    ):
        assert "[redacted:MY_SECRET]" in redact.known(f"see {text} there")
        assert "[redacted:MY_SECRET]" in redact(f"see {text} there")


def test_known_secrets_alone_can_be_taken_out_and_what_only_looks_like_one_stays() -> None:
    redact = Redactor(ENVIRON)
    shaped = "nothing, ghp_" + "a1" * 18
    assert redact.known(shaped) == shaped
    text = "curl -d plainly-a-key-value -u x:value-that-is-long"
    assert redact.known(text) == "curl -d [redacted:OPENAI_API_KEY] -u x:[redacted:LONG_TOKEN]"


def test_each_long_line_of_a_secret_of_several_lines_is_recognised() -> None:
    redact = Redactor({"SSH_KEY": f"-----BEGIN PRIVATE KEY-----\n{BODY}-----END PRIVATE KEY-----"})
    assert redact(f"17|{BODY}") == "17|[redacted:SSH_KEY]\n"


@pytest.mark.parametrize(
    "piece",
    [
        "a", "aB1", "-", "=", " ", "_", "🔑é", "password=", 'password="', "password: '\\",
        "--token ",
        "-----BEGIN RSA PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY----- ", "eyJ", "eyJhbGciOiJI.",
        "://", "://a:", "sk-", "sk-" + "a" * 40 + " ", "Bearer ", "Bearer " + "a" * 40,
        "cookie: a=",
        "Cookie: a=b; ", "Authorization: ", "authorization: basic a,", "curl -u a:b",
        "mysql -pabcde ",
        "api_key:", "private_key=", "xoxb-1-", "AccountKey=", "sha256-", "%41", "secret_",
        "MNOMNOMNOMNOMNOMNOMNOMNO.", "AKIA" + "A" * 16,
    ],
)  # fmt: skip
def test_hostile_text_takes_no_longer_than_its_length(piece: str) -> None:
    # A quadratic search would run into the time limit of the tests.
    text = piece * (300_000 // len(piece))
    assert len(Redactor(ENVIRON)(text)) > 0


SECRET = "sk-live-0Hq7/Xc+9ZtW4vB2nM8kR5yD1"
ENCODERS = (
    "cat", "base64", "base64 -w 20", "base64 -w 0", "basenc --base64url", "basenc --base16",
    "od -An -tx1", "od -An -v -tx1 -w1", "od -tx1", "od -tx1z -Ax", "od -x", "od -An -c",
    "od -An -x",
    "fold -w 7", "sed 's/./& /g'", "od -An -tx1 | tr -d ' \\n'",
    "od -An -tx1 | tr -d '\\n' | sed 's/ /:/g'", "od -An -tx1 | tr -d '\\n' | sed 's/ /%/g'",
    "od -An -tx1 | tr -d '\\n' | sed 's/ /\\\\x/g'", "od -An -tx1 | sed 's/ /, 0x/g'",
    "od -An -tx1 | tr -d '\\n' | sed 's/ /\\\\u00/g'", "sed 's/-/%2d/g; s/[+]/%2B/'",
    "od -An -tx1 | tr -d '\\n' | tr a-f A-F",
)  # fmt: skip


def encoded(encoder: str, before: int) -> str:
    """What a command prints that encodes a text with the secret in it."""
    text = "NAME=value-"[:before] + SECRET + "\nAND=more of it"
    return subprocess.run(
        ["bash", "-c", encoder], input=text, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("before", [0, 1, 2, 5])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_secret_that_a_command_encodes_is_still_found(encoder: str, before: int) -> None:
    redact, shown = Redactor({"LIVE_KEY": SECRET}), encoded(encoder, before)
    results = [redact(shown)]
    for size in (1, 7, 40):
        stream = redact.stream()
        pieces = [stream.feed(shown[at : at + size]) for at in range(0, len(shown), size)]
        results.append("".join(pieces) + stream.end())
    for hidden in results:
        head, label, rest = hidden.partition("[redacted:LIVE_KEY]")
        assert label
        # A stream may have shown the first signs before they began to look like the secret.
        assert results[0].startswith(head[:-14])
        assert results[0].endswith(label + rest)


def test_output_that_only_resembles_a_dump_stays_as_it_is() -> None:
    redact = Redactor({"LIVE_KEY": SECRET})
    for text in (
        "00000010: 7368 6f72 7400  short\n",
        "a%20b%2Fc",
        "12 34 56\n78 90\n",
        "QUJD\nREVG",
    ):
        assert redact(text) == text
