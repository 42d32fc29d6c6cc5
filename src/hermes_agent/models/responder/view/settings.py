"""Settings of programs in whatever form they are written: ini, toml, json, yaml, properties, lines
of an environment, blocks as nginx has them, `key value`, and flags of a command line. All are read
into one flat table: keys of what is nested are joined by dots, quotes and remarks are gone."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

import msgspec

MOST_CHARS = 200_000
"""A file that is longer holds data."""
_SECTION = re.compile(r"\[+\s*([^\[\]]+?)\s*\]+\s*(?:[#;].*)?$")
_PAIR = re.compile(r"(?:export\s+|set\s+|-\s+)?([A-Za-z_][\w.\-/]*)\s*(?:=|:=|:(?=\s|$|/))\s*(.*)$")
_WORDS = re.compile(r"([A-Za-z_][\w.-]*)\s+(\S.*)$")
_FLAG = re.compile(r"--?([A-Za-z][\w.-]*)(?:=(.*))?$", re.DOTALL)
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)$", re.DOTALL)
_PORT_KEY = re.compile(r"port|listen|bind|addr|^[pblaL]$|server|endpoint", re.IGNORECASE)
_NOT_A_PORT = re.compile(
    r"time|second|size|max|min|count|interval|retr|worker|pool|ttl|age", re.IGNORECASE
)
_CONFIG = re.compile(
    r"\.(conf|cfg|cnf|ini|ya?ml|json|toml|properties|env|config|settings|rc|hcl|xml)$"
    r"|(^|/)\.?(env|config|settings|[\w-]+rc)$"
)


class Settings(dict[str, str]):
    """Values by their whole keys."""

    def last(self, *names: str) -> str:
        """The first value whose key ends with one of these names, in whatever case."""
        wanted = [_plain(name) for name in names]
        for name in wanted:
            for key, value in self.items():
                if _plain(key.rpartition(".")[2]) == name:
                    return value
        return ""

    @property
    def paths(self) -> list[str]:
        """Values that are places of files, whole or relative."""
        found = [part for value in self.values() for part in re.split(r"[\s,;]+", value)]
        return [path for part in found if (path := _path(part))]

    @property
    def ports(self) -> list[int]:
        """Ports on which it listens, by what keys and values look like."""
        found = []
        for key, value in self.items():
            own = key.rpartition(".")[2]
            if "://" in value or not _PORT_KEY.search(own) or _NOT_A_PORT.search(own):
                continue
            if len(own) == 1 and own not in "pP" and ":" not in value:
                continue
            if port := re.fullmatch(r"(?:[\w.*\[\]:-]*:)?(\d{2,5})(?:\s.*)?", value):
                found.append(int(port[1]))
        return [port for port in dict.fromkeys(found) if port < 65536]


def is_config(path: str) -> bool:
    """Whether a file is one of settings, by its name."""
    return _CONFIG.search(path) is not None


def read(text: str, path: str = "") -> Settings:
    """The settings that a file holds; what it looks like counts more than its ending."""
    if len(text) > MOST_CHARS or "\0" in text:
        return Settings()
    stripped = text.strip()
    whole: Any = None
    if stripped[:1] in ("{", "["):
        whole = _as_json(stripped)
    if whole is None and not _has_blocks(stripped):
        whole = _as_toml(text)
        if whole is None and (path.endswith((".yml", ".yaml")) or _looks_yaml(stripped)):
            whole = _as_yaml(text)
    if isinstance(whole, (dict, list)):
        return Settings(_flat(whole))
    if _has_blocks(stripped):
        return Settings(_blocks(text))
    return Settings(_rows(text))


def flags(words: Sequence[str]) -> Settings:
    """What a command line sets: `--port=80`, `-p 80`, and `NAME=value` before the program."""
    found = Settings()
    for at, word in enumerate(words):
        after = words[at + 1] if at + 1 < len(words) else ""
        if flag := _FLAG.match(word):
            value = flag[2] if flag[2] is not None else after
            if flag[2] is None and (not after or re.match(r"--?[A-Za-z]", after)):
                value = "true"
            found[flag[1]] = value
        elif assigned := _ASSIGNED.match(word):
            found[assigned[1]] = assigned[2]
        elif (not at or not words[at - 1].startswith("-")) and (
            address := re.fullmatch(r"[\w.-]*:(\d{2,5})|(\d{4,5})", word)
        ):
            found.setdefault("port", address[1] or address[2])
    return found


def environment(text: str) -> Settings:
    """`A="1",B=2`, as supervisors have it."""
    found = Settings()
    for name, quoted, bare in re.findall(
        r"([A-Za-z_]\w*)\s*=\s*(?:\"([^\"]*)\"|'?([^,'\"]*)'?)", text
    ):
        found[name] = (quoted or bare).strip()
    return found


def script(text: str) -> tuple[Settings, list[str]]:
    """What a shell script sets before it runs something, and the words of what it runs last."""
    values, last = Settings(), list[str]()
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in joined.splitlines():
        row = line.strip()
        if not row or row.startswith("#"):
            continue
        words = split(row)
        plain = [word for word in words if word not in ("export", "exec", "nohup", "&")]
        set_here = [_ASSIGNED.match(word) for word in plain]
        if plain and all(set_here):
            values |= {one[1]: filled(one[2], values) for one in set_here if one}
        elif plain and plain[0] not in ("if", "fi", "then", "else", "set", "cd", "trap", "umask"):
            last = [filled(word, values) for word in plain]
    return values, last


def filled(text: str, values: dict[str, str]) -> str:
    """A text with the names of variables replaced where they are known."""

    def known(found: "re.Match[str]") -> str:
        return values.get(found[1] or found[3], found[2] if found[2] is not None else found[0])

    return re.sub(r"\$(?:\{(\w+)(?::?[-=]([^}]*))?\}|(\w+))", known, text)


def split(text: str) -> list[str]:
    """The words of a line of shell."""
    return list(_split(text))


@lru_cache(4096)
def _split(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text, comments=True))
    except ValueError:
        return tuple(text.split())


def _as_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _as_toml(text: str) -> Any:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def _as_yaml(text: str) -> Any:
    try:
        return msgspec.yaml.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError, TypeError):
        return None


def _looks_yaml(text: str) -> bool:
    rows = [row for row in text.splitlines() if row.strip() and not row.lstrip().startswith("#")]
    fitting = sum(bool(re.match(r"\s*(- )?[\w./\"'-]+:(\s|$)|\s*- ", row)) for row in rows)
    return bool(rows) and fitting >= 0.8 * len(rows)


def _has_blocks(text: str) -> bool:
    return re.search(r"^[^#=:\n]*\{\s*(#.*)?$", text, re.MULTILINE) is not None and "}" in text


def _flat(value: Any, above: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _flat(below, f"{above}.{key}" if above else str(key))
    elif isinstance(value, list):
        if all(not isinstance(one, (dict, list)) for one in value):
            yield above or "list", ", ".join(_told(one) for one in value)
            return
        for at, one in enumerate(value):
            yield from _flat(one, f"{above}.{at}" if above else str(at))
    elif value is not None:
        yield above or "value", _told(value)


def _told(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rows(text: str) -> Iterator[tuple[str, str]]:
    """Lines of `key = value`, `key: value` or `key value`, below sections where there are any."""
    section = ""
    rows = [row.strip() for row in text.splitlines()]
    rows = [row for row in rows if row and not row.startswith(("#", ";", "//", "!", "--"))]
    pairs = sum(bool(_PAIR.match(row)) for row in rows)
    for row in rows:
        if head := _SECTION.fullmatch(row):
            section = head[1].strip("\"' ")
        elif pair := _PAIR.match(row):
            yield _under(section, pair[1]), bare(pair[2])
        elif pairs <= len(rows) // 2 and (both := _WORDS.match(row)):
            yield _under(section, both[1]), bare(both[2])


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """`name { key value; }`, as nginx and others have it."""
    above: list[str] = []
    seen: dict[str, int] = {}
    for line in text.splitlines():
        row = (
            line.partition("#")[0].strip() if "'" not in line and '"' not in line else line.strip()
        )
        if not row or row.startswith(("#", ";", "//")):
            continue
        for part in re.findall(r"[^{};]+[{;]?|\}", row):
            words = part.rstrip("{;").strip()
            if part == "}":
                above = above[:-1]
            elif part.endswith("{"):
                above.append(words.split()[0] if words.split() else "")
            elif both := re.match(r"([\w.-]+)\s*[=:]?\s+(.+)$|([\w.-]+)\s*[=:]\s*(.+)$", words):
                key = ".".join([*(one for one in above if one), both[1] or both[3]])
                seen[key] = seen.get(key, 0) + 1
                value = bare(both[2] or both[4])
                yield (key if seen[key] == 1 else f"{key}.{seen[key]}.{both[1] or both[3]}"), value


def _under(section: str, key: str) -> str:
    return f"{section}.{key}" if section else key


def bare(value: str) -> str:
    """A value without quotes, a remark after it, or what ends it."""
    value = value.strip()
    if quoted := re.match(r"([\"'])(.*?)\1\s*[,;]?\s*(?:[#;].*)?$", value):
        return quoted[2]
    return re.split(r"\s+[#;]|\s+//\s", value)[0].rstrip(",;").strip()


def _path(text: str) -> str:
    """A place of a file, if it looks like one."""
    found = re.sub(
        r"^(?:file:(?://)?|unix:(?://)?|sqlite:(?:///?)?)(?=[/.])", "", text.strip("\"'")
    )
    if re.fullmatch(r"/[\w.@+~%-]+(?:/[\w.@+~%*-]+)*/?", found):
        return found.rstrip("/") or "/"
    if re.fullmatch(r"\.{0,2}/?[\w.@+-]+(?:/[\w.@+*-]+)+", found) and "//" not in found:
        return found if not re.fullmatch(r"[\d./]+", found) else ""
    if re.fullmatch(r"[\w-]+\.[a-z]{2,6}", found) and (is_config(found) or found[-4:] in _FILES):
        return found
    return ""


_FILES = (".log", ".pid", ".crt", ".pem", ".key", "sock", "lock", ".txt", "ite3")


def whole(path: str, folder: str) -> str:
    """A path, seen from a folder."""
    if path.startswith("/") or not folder.startswith("/"):
        return path if path.startswith("/") else ""
    parts: list[str] = []
    for part in [*PurePosixPath(folder).parts[1:], *PurePosixPath(path).parts]:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/" + "/".join(parts)


def _plain(name: str) -> str:
    return re.sub(r"[_.-]", "", name).lower()
