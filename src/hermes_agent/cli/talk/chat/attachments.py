"""Files in a message: `@path` attaches one. What is pasted or dropped becomes such a mention, so it
can be seen, and removed, like the rest of the text."""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from hermes_agent.cli.arguments import read_files
from hermes_agent.core.errors import UsageError
from hermes_agent.core.text.format import code_fence

MAX_TEXT_BYTES = 200_000
MEDIA = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")
"""Files that models see. Others are inserted as text."""

_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
_CLIPBOARDS = (
    ("wl-paste", ("wl-paste", "--type", "image/png")),
    ("xclip", ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")),
    ("pngpaste", ("pngpaste", "-")),
)
CLIPBOARD_SECONDS = 5.0


class MentionedFile(NamedTuple):
    name: str
    """As written in the message."""
    path: str


def mention(path: str) -> str:
    return f'@"{path}"' if re.search(r"\s", path) else f"@{path}"


def attachments(text: str, ignored: Collection[str] = ()) -> Iterator[MentionedFile]:
    """The files that a message mentions. Names that are no file are part of the text, as are those
    in `ignored`: pasted text must not attach what its author chose."""
    seen = set()
    for quoted, bare in _MENTION.findall(text):
        for name in (quoted,) if quoted else (bare, bare.rstrip(".,;:!?)")):
            path = os.path.abspath(os.path.expanduser(name))
            if os.path.isfile(path):
                if name not in ignored and path not in seen:
                    seen.add(path)
                    yield MentionedFile(name, path)
                break


def expand(text: str, ignored: Collection[str] = ()) -> tuple[str, list[dict[str, str]]]:
    """The message with the text files it mentions inserted, and the images and PDFs to go with
    it."""
    files: list[dict[str, str]] = []
    inserted = []
    for name, path in attachments(text, ignored):
        if path.lower().endswith(MEDIA):
            files += read_files([path])
        else:
            inserted.append(_fenced(name, _text_of(path, name)))
    return "\n\n".join([text, *inserted]), files


def _fenced(name: str, text: str) -> str:
    fence = code_fence(text)
    return f"{name}:\n{fence}\n{text.rstrip()}\n{fence}"


def _text_of(path: str, name: str) -> str:
    way_out = "leave out the @: the agent can read files by their path"
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_TEXT_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}", way_out) from None
    if len(data) > MAX_TEXT_BYTES:
        most = MAX_TEXT_BYTES // 1_000
        raise UsageError(f"{name} is larger than {most} kB", way_out)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UsageError(f"{name} is neither text, an image nor a PDF", way_out)
    return text


def pasted_media(text: str) -> list[str]:
    """The images and PDFs that a terminal pastes as paths when they are dropped on it: bare,
    quoted, escaped or as `file://` URLs. Empty if the text has anything else in it."""
    text = text.strip()
    if not text or len(text) > 10_000:
        return []
    if _is_media(os.path.expanduser(text)):
        return [os.path.expanduser(text)]
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    paths = [_local_path(word) for word in words]
    return paths if paths and all(map(_is_media, paths)) else []


def _local_path(word: str) -> str:
    if word.startswith("file://"):
        return unquote(urlsplit(word).path)
    return os.path.expanduser(word)


def _is_media(path: str) -> bool:
    return os.path.isabs(path) and path.lower().endswith(MEDIA) and os.path.isfile(path)


def clipboard_image() -> str | None:
    """The image in the clipboard, saved to a file; None if there is none, or nothing to ask."""
    for program, command in _CLIPBOARDS:
        if shutil.which(program) is None:
            continue
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                check=False,
                stdin=subprocess.DEVNULL,
                timeout=CLIPBOARD_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0 and done.stdout.startswith(b"\x89PNG"):
            folder = tempfile.mkdtemp(prefix="hermes-paste-")
            path = os.path.join(folder, "clipboard.png")
            with open(path, "wb") as file:
                file.write(done.stdout)
            return path
    return None
