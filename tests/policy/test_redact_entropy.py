"""Random tokens, and all that looks a little like them."""

import base64
import hashlib
import random
import string
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes_agent.policy.redaction.redactor import Redactor

redact = Redactor({})
LETTERS = string.ascii_letters + string.digits


def draw(dice: random.Random, alphabet: str, size: int) -> str:
    return "".join(dice.choices(alphabet, k=size))


@pytest.mark.parametrize(
    ("make", "share"),
    [
        (lambda dice: draw(dice, LETTERS, 20), 0.85),
        (lambda dice: draw(dice, LETTERS, 32), 0.95),
        (lambda dice: draw(dice, LETTERS + "+/", 40), 0.95),
        (lambda dice: base64.b64encode(dice.randbytes(32)).decode(), 0.95),
        (lambda dice: base64.urlsafe_b64encode(dice.randbytes(32)).decode(), 0.95),
    ],
)
def test_most_random_tokens_are_found_without_any_name(
    make: Callable[[random.Random], str], share: float
) -> None:
    dice = random.Random(5)
    tokens = [make(dice) for _ in range(400)]
    found = [token for token in tokens if token not in redact(f"see {token}, please")]
    assert len(found) / len(tokens) >= share


def test_near_a_telling_word_shorter_tokens_are_found() -> None:
    assert redact("the token is q8Zr0x71LmPwT4sd") == "the token is [redacted:high-entropy]"
    assert redact("the build is q8Zr0x71LmPwT4sd") == "the build is q8Zr0x71LmPwT4sd"


def ids(dice: random.Random) -> Iterator[str]:
    raw = dice.randbytes(64)
    yield hashlib.sha1(raw).hexdigest()
    yield hashlib.sha256(raw).hexdigest()
    yield hashlib.sha512(raw).hexdigest()
    yield hashlib.sha256(raw).hexdigest().upper()
    yield f"sha256:{hashlib.sha256(raw).hexdigest()}"
    yield str(uuid.UUID(bytes=raw[:16]))
    yield str(uuid.UUID(bytes=raw[:16])).upper()
    yield draw(dice, "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 26)
    yield f"sha512-{base64.b64encode(hashlib.sha512(raw).digest()).decode()}"
    yield f"sha256={base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).decode().rstrip('=')}"
    yield f"h1:{base64.b64encode(hashlib.sha256(raw).digest()).decode()}"
    yield f"SHA256:{base64.b64encode(hashlib.sha256(raw).digest()).decode().rstrip('=')}"
    yield f"web-{draw(dice, '0123456789abcdef', 10)}-{draw(dice, string.ascii_lowercase, 5)}"
    yield f"AAAAC3NzaC1lZDI1NTE5AAAAI{draw(dice, LETTERS + '+/', 43)}"
    yield f"2026-11-{dice.randint(10, 28)}T12:34:56.{dice.randint(100000, 999999)}+00:00"


def test_hashes_and_ids_are_never_redacted() -> None:
    dice = random.Random(9)
    for _ in range(300):
        for text in ids(dice):
            for before, after in (
                ("", ""),
                ("commit ", "\n"),
                ('"id": "', '",'),
                ("a token, ", ""),
            ):
                assert redact(before + text + after) == before + text + after


@pytest.mark.parametrize(
    "text",
    [
        "/usr/lib/python3.11/site-packages/kubernetes_asyncio/client/models/v1_pod.py",
        "V1ValidatingAdmissionPolicyBinding CoreV1EventSeries2List getElementsByTagNameNS3",
        "test_HTTPSConnection2_reads_AES256_from_PBKDF2WithHmacSHA256AndAES_256",
        "_ZNKSt5ctypeIwE9do_narrowEPKwS2_cPc __cxxabiv116__enum_type_infoE",
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
        base64.b64encode(b"apiVersion: v1\nkind: ConfigMap\n").decode(),
        "https://example.com/TR/2001/PR-SVG-20010719/DTD/svg10.dtd",
        "x86_64-unknown-linux-gnu-GCC-12.2.0-14+deb12u1",
    ],
)
def test_names_paths_and_encoded_text_are_not_random(text: str) -> None:
    assert redact(text) == text


def test_lines_of_a_certificate_or_an_encoded_file_are_left_alone() -> None:
    data = base64.encodebytes(random.Random(2).randbytes(400)).decode()
    block = f"-----BEGIN CERTIFICATE-----\n{data}-----END CERTIFICATE-----\n"
    assert redact(block) == block
    assert redact(data) == data


def test_the_sources_that_come_with_python_are_left_almost_alone() -> None:
    folder = Path(random.__file__).parent
    text = "\n".join(path.read_text() for path in sorted(folder.glob("[a-h]*.py")))
    found = [text[start:end] for start, end, _ in redact.spans(text)]
    assert len(text) > 1_000_000
    assert len(found) <= 2, found
