"""Differences as text, without secrets."""

import difflib
import hashlib
import re

from hermes_drift.values import SecretFilter

SHOWN_LINES = 60
MAX_LENGTH = 200
_NAMED = re.compile(
    r"""(?im)^(.{0,200}?(?:pass(?:word|wd|phrase)?|secret|token|credential|(?:api|private|access)[_-]?key)
    [\w.-]*["']?\s*[:=]\s*)(?!\[redacted)\S.*$""",
    re.VERBOSE,
)


def hide_named_secrets(hide: SecretFilter) -> SecretFilter:
    """Also hides every value whose name looks like a secret's: reports are passed on."""
    return lambda text: _NAMED.sub(r"\1[redacted]", hide(text))


def decoded(data: bytes) -> str | None:
    """The text, or None if it is not UTF-8."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def difference(declared: str, live: str, path: str) -> str:
    """A unified diff from declared to live, for `git apply` in the repository."""
    lines = difflib.unified_diff(
        declared.splitlines(keepends=True), live.splitlines(keepends=True),
        f"a/{path}", f"b/{path}",
    )  # fmt: skip
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def shown(declared: str, live: str, path: str, hide: SecretFilter) -> tuple[str, bool]:
    """The difference without secrets, which are removed from both sides first, and whether it is
    complete."""
    clear_declared, clear_live = hide(declared), hide(live)
    whole = clear_declared == declared and clear_live == live
    diff = difference(clear_declared, clear_live, path)
    if not diff:
        return "(they differ only in what looks like a secret, which is not shown)", False
    lines = diff.splitlines(keepends=True)
    if len(lines) > SHOWN_LINES:
        left = f"… {len(lines) - SHOWN_LINES} more lines\n"
        return "".join(lines[:SHOWN_LINES]) + left, False
    return diff, whole


def changed_lines(declared: str, live: str) -> str:
    """`+3 -1`."""
    steps = list(difflib.ndiff(declared.splitlines(), live.splitlines()))
    added = sum(step.startswith("+ ") for step in steps)
    return f"+{added} -{sum(step.startswith('- ') for step in steps)}"


def blob_id(data: bytes) -> str:
    """Git's id of these bytes."""
    head = b"blob %d\0" % len(data)
    return hashlib.sha1(head + data, usedforsecurity=False).hexdigest()


def brief(value: object) -> str:
    """A value in one line."""
    text = " ".join(str(value).split())
    return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + "…"
