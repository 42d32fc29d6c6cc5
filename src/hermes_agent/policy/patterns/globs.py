"""Patterns: for words, where `*` is anything, and for paths, where `*` stays within one folder."""

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from hermes_agent.core.text.secret_files import SECRET_FILES, SECRET_KEYS, SECRET_NAMES
from hermes_agent.core.text.sensitive_paths import expression

LISTS = {
    "{secret-files}": SECRET_FILES, "{secret-keys}": SECRET_KEYS, "{secret-names}": SECRET_NAMES,
}  # fmt: skip
"""Placeholders for lists of paths."""
MAX_STARS = 3
MAX_DEPTH = 2
"""More of them would let a long path keep the matching busy for seconds."""
MAX_PATH = 4_096
MAX_NAME = 255
_SPECIAL = re.compile(r"[*?[]")
_ROOTS = ("workspace", "home", "hermes")
_DOLLAR = re.compile(r"(?<!\[)\$")
_BRACE = re.compile(r"(?<!\[)\{")
_HOLDER = re.compile(r"\{([\w-]*)\}")
_PART = re.compile(r"/\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|\{session\}|.", re.DOTALL)


class WordGlobs:
    """Globs over words: names, flags, arguments."""

    __slots__ = ("_exact", "_globs", "_pattern", "fit")

    fit: Callable[[str], object]
    """True, or something that counts as true, for a word that fits."""

    def __init__(self, globs: Iterable[str]) -> None:
        given = tuple(globs)
        self._exact = frozenset(glob for glob in given if not _SPECIAL.search(glob))
        self._globs = tuple(glob for glob in given if _SPECIAL.search(glob))
        self._pattern: re.Pattern[str] | None = None
        self.fit = self._first if self._globs else self._exact.__contains__

    def _first(self, word: str) -> object:
        return self._ready()(word)

    def _ready(self) -> Callable[[str], object]:
        """Patterns are made ready when first asked: most rules of a session never are."""
        if self._pattern is None:
            self._pattern = re.compile("|".join(map(fnmatch.translate, self._globs)))
            self.fit = self._fit if self._exact else self._pattern.match
        return self.fit

    def _fit(self, word: str) -> bool:
        assert self._pattern is not None
        return word in self._exact or self._pattern.match(word) is not None

    def fit_any(self, words: Iterable[str]) -> bool:
        if not self._globs:
            return not self._exact.isdisjoint(words)
        return any(map(self._ready(), words))


def escape(text: str) -> str:
    """A glob for words, or for paths, that fits this text only."""
    return re.sub(r"([*?[{$])", r"[\1]", text)


class Roots:
    """What the placeholders stand for: each folder as it is named and where it leads."""

    __slots__ = ("_compiled", "folders", "session")

    def __init__(self, folders: Mapping[str, tuple[str, ...]], session: str) -> None:
        self.folders = folders
        self.session = session
        self._compiled: dict[tuple[str, ...], re.Pattern[str]] = {}

    def pattern(self, globs: tuple[str, ...]) -> re.Pattern[str]:
        """One regular expression for any of the path globs."""
        found = self._compiled.get(globs)
        if found is None:
            one = "|".join(part for glob in globs for part in self._expressions(glob))
            found = self._compiled[globs] = re.compile(one or r"(?!)", re.DOTALL)
        return found

    def named(self, path: str) -> tuple[str, ...]:
        """A plain path with a placeholder, in full; of a list, those that are plain."""
        if path in LISTS:
            rows = [row.removeprefix("~/").removesuffix("/**") for row in LISTS[path]]
            plain = [row if row.startswith("/") else f"~/{row}" for row in rows if "*" not in row]
            return tuple(full for row in plain for full in self.named(row))
        return tuple(f"{root}{rest}" for root, rest in self._roots(path))

    def _expressions(self, glob: str) -> Iterable[str]:
        if glob in LISTS:
            yield expression(LISTS[glob])
            for row in LISTS[glob]:
                yield from self._expressions(row) if row.startswith("~") else ()
            return
        for root, rest in self._roots(glob):
            yield re.escape(root) + _expression(rest, self.session)

    def _roots(self, glob: str) -> Iterable[tuple[str, str]]:
        name, rest = _split(glob)
        if not name:
            return (("", rest),)
        return tuple((folder.rstrip("/"), rest) for folder in self.folders.get(name, ()) if folder)


@lru_cache(maxsize=64)
def roots(
    workspace: tuple[str, ...], home: tuple[str, ...], hermes: tuple[str, ...], session: str
) -> Roots:
    """The same roots for the same folders, so that patterns are made ready once."""
    return Roots({"workspace": workspace, "home": home, "hermes": hermes}, session)


@lru_cache(maxsize=4096)
def _split(glob: str) -> tuple[str, str]:
    """The placeholder that a path glob begins with, and what follows it. What begins with neither
    `/`, `~`, `**` nor a placeholder is below the workspace."""
    if glob.startswith(("/", "**")):
        return "", glob
    if glob == "~" or glob.startswith("~/"):
        return "home", glob[1:]
    holder = _HOLDER.match(glob)
    if holder and holder[1] in _ROOTS:
        return holder[1], glob[holder.end() :]
    return "workspace", f"/{glob.removeprefix('./')}".removesuffix("/.")


@lru_cache(maxsize=4096)
def _expression(glob: str, session: str) -> str:
    """The regular expression of a path glob. `a/**` is a and all below it."""
    if glob == "**":
        return ".*"
    tail = ""
    if glob.endswith("/**"):
        glob, tail = glob[:-3], "(?:/.*)?"
    lead = ""
    if glob.startswith("**/"):
        glob, lead = glob[3:], "(?:.*/)?"
    return lead + "".join(_translated(part[0], session) for part in _PART.finditer(glob)) + tail


def _translated(part: str, session: str) -> str:
    match part:
        case "/**/":
            return "/(?:.*/)?"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
        case "{session}":
            return re.escape(session)
        case _ if len(part) > 1:
            inner = part[1:-1].replace("\\", r"\\")
            inner = f"^{inner[1:]}" if inner.startswith("!") else inner.replace("^", r"\^")
            return f"(?!/)[{inner.replace('[', chr(92) + '[')}]"
        case _:
            return re.escape(part)


def trouble(glob: str, *, folders: bool = True) -> tuple[str, str] | None:
    """What is wrong with a path pattern, and how to write it. `folders`: one that ends in a slash
    would fit nothing."""
    if not glob:
        return "it is empty", ""
    if glob in LISTS:
        return None
    if (wrong := _bad_braces(glob)) is not None:
        return wrong
    if _DOLLAR.search(glob):
        return "variables are not expanded here", "write {home}, {workspace}, or the full path"
    if folders and glob.endswith("/") and len(glob) > 1:
        folder = glob.rstrip("/")
        return (
            "it never matches",
            f"write {folder}/** for the folder and everything below it, or {folder}",
        )
    names = glob.removesuffix("/**").split("/")
    if names.count("**") > MAX_DEPTH or any(name.count("*") > MAX_STARS for name in names):
        return f"it has more than {MAX_DEPTH} ** or {MAX_STARS} * in one name", ""
    if "\0" in glob or ".." in glob.split("/"):
        return "paths here cannot contain ..", ""
    if "[" not in glob:
        return None  # only brackets can be wrong
    try:
        re.compile(_expression(glob, ""))
    except re.error as error:
        return f"it is invalid: {error}", ""
    return None


def _bad_braces(glob: str) -> tuple[str, str] | None:
    known = ", ".join(f"{{{name}}}" for name in (*_ROOTS, "session"))
    for found in _HOLDER.finditer(glob):
        if found[1] == "session":
            continue
        if found[1] not in _ROOTS:
            return f"unknown placeholder {found[0]}; available: {known}", ""
        if found.start():
            return f"{found[0]} is only valid at the beginning", ""
    if _BRACE.search(_HOLDER.sub("", glob)):
        return "braces are for placeholders", f"write a list of paths; placeholders are {known}"
    return None


def sensible(path: str) -> bool:
    """Whether an absolute path can be one at all."""
    return (
        path.startswith("/")
        and len(path) <= MAX_PATH
        and "\0" not in path
        and all(len(name) <= MAX_NAME for name in path.split("/"))
    )
