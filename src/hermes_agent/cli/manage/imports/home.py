"""Another agent's home as the import sees it, and how its files are read: only plain files inside
it, and without changing anything, while the other agent may be running."""

import json
import math
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw

from hermes_agent.cli.output.formatting import count
from hermes_agent.core.errors import HermesError
from hermes_agent.core.text.format import code_fence
from hermes_agent.host.inspect import alive, lock_owner
from hermes_agent.jobs.schedules.describe import UNITS

TEXT_BYTES = 2_000_000
LINE_BYTES = 8_000_000
SESSION_BYTES = 200_000_000
"""Larger transcripts are left out."""
MESSAGE_CHARS = 100_000
"""What one message may have; the rest is cut."""
NOTES = 500
"""Of one file; more than a memory of ours holds."""
SKILL_FILES = 200
TURN_CHARS = 10_000_000
"""A longer turn becomes several, so that each can be sent."""
_COPIES = 3
"""How often a database that changes while it is copied is copied again."""
_SCRATCH = "hermes-import-"
"""How the names of temporary folders begin; the process that made one follows."""

_UNREADABLE = (
    OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError
)  # fmt: skip

Row = dict[str, Any]


@dataclass(frozen=True)
class Message:
    """`role` is user, assistant or tool."""

    id: str
    role: str
    text: str
    time: float
    model: str = ""


@dataclass(frozen=True)
class PeerSession:
    id: str
    title: str
    messages: Callable[[], Iterator[Message]]
    folder: str
    """Where it worked."""


@dataclass
class PeerHome:
    peer: str
    path: Path
    servers: Mapping[str, str] = field(default_factory=dict)
    """Own model servers that are known here: the name of each by its address."""
    settings: Row = field(default_factory=dict)
    """Our settings by their dotted names."""
    keys: dict[str, str] = field(default_factory=dict)
    """Secrets by the variables that we read them from. Never shown."""
    memory: list[Row] = field(default_factory=list)
    documents: dict[str, str] = field(default_factory=dict)
    """`SOUL.md`, `AGENTS.md`."""
    skills: dict[str, dict[str, bytes]] = field(default_factory=dict)
    jobs: list[Row] = field(default_factory=list)
    sessions: list[PeerSession] = field(default_factory=list)
    left_out: list[tuple[str, str, str]] = field(default_factory=list)
    """What is not imported: its part, its name and why."""
    changed: dict[str, str] = field(default_factory=dict)
    """Settings that change on the way, and how."""

    def leave(self, part: str, name: str, why: str) -> None:
        self.left_out.append((part, name, why))

    def surviving(self, part: str, name: str) -> "Surviving":
        return Surviving(self, part, name)

    def read(self, part: str, name: str) -> bytes:
        """A plain file in the home; empty if there is none, or it cannot be read."""
        path = self.path / name
        if not os.path.lexists(path):
            return b""
        with self.surviving(part, name):
            handle = os.open(
                self.inside(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
            with open(handle, "rb") as file:
                _check_plain(os.fstat(handle), TEXT_BYTES)
                return file.read(TEXT_BYTES + 1)
        return b""

    def inside(self, path: Path) -> Path:
        """Where a path in the home really is; a `ValueError` if that is outside."""
        real = path.resolve(strict=True)
        if not real.is_relative_to(self.path.resolve()):
            raise ValueError("it is a link that leads out of the home")
        return real

    def holds(self, part: str, name: str) -> bool:
        """Whether a folder is there and in the home, also behind a link."""
        with self.surviving(part, name):
            return os.path.lexists(self.path / name) and self.inside(self.path / name).is_dir()
        return False

    def names(self, part: str, folder: str) -> list[str]:
        """What is in a folder of the home; nothing if there is none."""
        with self.surviving(part, folder):
            return sorted(os.listdir(self.path / folder)) if self.holds(part, folder) else []
        return []

    def has_transcript(self, name: str) -> bool:
        """Whether a file of a session can be read, line by line."""
        with self.surviving("sessions", name):
            _check_plain(self.inside(self.path / name).stat(), SESSION_BYTES)
            return True
        return False

    def database(self, name: str, stack: ExitStack, table: str) -> "PeerDatabase | None":
        """A database that has this table; None if there is none, or it is empty."""
        path = self.path / name
        if not path.exists() or not path.stat().st_size:
            return None
        _check_plain(self.inside(path).stat())
        database = PeerDatabase(path, stack)
        database.columns(table)
        return database

    def text(self, part: str, name: str) -> str:
        with self.surviving(part, name):
            return self.read(part, name).decode()
        return ""

    def json(self, part: str, name: str) -> Any:
        """A JSON file, perhaps with comments and trailing commas; an empty object if there is none,
        or it cannot be read."""
        text = self.text(part, name)
        with self.surviving(part, name):
            if text.strip():
                with suppress(ValueError):
                    return json.loads(text)
                bare = _COMMENTS.sub(r"\1", text)
                return json.loads(re.sub(r",(\s*[}\]])", r"\1", bare))
        return {}

    def add_notes(self, view: str, texts: Iterable[str]) -> None:
        for number, text in enumerate(texts):
            if number == NOTES:
                self.leave("memory", view, f"all notes after the first {NOTES}")
                return
            if text.strip():
                self.memory.append({"view": view, "text": text.strip()})

    def add_session(
        self, id: str, messages: Callable[[], Iterator[Message]], title: str = "", folder: str = ""
    ) -> None:
        """A session whose messages are read later, when its file may be gone or damaged."""

        def read() -> Iterator[Message]:
            with self.surviving("sessions", id):
                yield from messages()

        self.sessions.append(PeerSession(id, title, read, folder))

    def add_skills(
        self, folder: str, shipped: Callable[[str, Path], bool] = lambda _name, _place: False
    ) -> None:
        """Every folder below `folder` with a SKILL.md, except those `shipped` with the agent."""
        root, ours = self.path / folder, 0
        if not self.holds("skills", folder):
            return
        for place, inner, names in os.walk(root):
            inner[:] = sorted(name for name in inner if not name.startswith("."))
            if "SKILL.md" not in names:
                continue
            inner.clear()
            name = os.path.basename(place)
            with self.surviving("skills", name):
                if shipped(name, Path(place)):
                    ours += 1
                elif name in self.skills:
                    self.leave("skills", os.path.relpath(place, self.path), "another has this name")
                elif files := self._skill_files(name, Path(place)):
                    self.skills[name] = files
        if ours:
            self.leave("skills", f"{ours} unchanged", f"they ship with {self.peer}")

    def _skill_files(self, name: str, folder: Path) -> dict[str, bytes]:
        files: dict[str, bytes] = {}
        before = len(self.left_out)
        for place, inner, names in os.walk(folder):
            for entry in [*inner, *names]:
                path = Path(place, entry)
                if path.is_symlink():
                    self.leave("skills", name, f"{path.relative_to(folder)} is a link")
                    return {}
            for entry in names:
                path = Path(place, entry)
                if len(files) >= SKILL_FILES:
                    self.leave("skills", name, f"it has more than {SKILL_FILES} files")
                    return {}
                relative = path.relative_to(self.path).as_posix()
                files[path.relative_to(folder).as_posix()] = self.read("skills", relative)
        return files if len(self.left_out) == before else {}

    def lines(self, name: str) -> Iterator[Any]:
        """The objects of a JSONL file; lines that are not JSON are passed over."""
        bad = 0
        with (self.path / name).open("rb") as file:
            while line := file.readline(LINE_BYTES):
                if not line.endswith(b"\n") and len(line) == LINE_BYTES:
                    bad += 1
                    while (rest := file.readline(LINE_BYTES)) and not rest.endswith(b"\n"):
                        pass
                    continue
                try:
                    yield json.loads(line)
                except (ValueError, RecursionError):
                    bad += bool(line.strip())
        if bad:
            self.leave("sessions", name, f"{bad} damaged or oversized lines")


@dataclass(frozen=True)
class Surviving:
    """Reports what cannot be read, and goes on with the rest."""

    home: PeerHome
    part: str
    name: str

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if isinstance(error, HermesError):
            why = error.message
        elif isinstance(error, apsw.Error):
            why = f"the database is damaged: {error}"
        elif isinstance(error, _UNREADABLE):
            named = getattr(error, "strerror", None) or str(error) or type(error).__name__
            why = f"cannot be read: {named}"
        else:
            return False
        self.home.leave(self.part, self.name, why)
        return True


def _check_plain(facts: os.stat_result, most: float = math.inf) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise ValueError("it is not a plain file")
    if facts.st_size > most:
        raise ValueError(f"it is larger than {most // 1_000_000:.0f} MB")


def scratch_folder(stack: ExitStack) -> Path:
    """A private folder that goes with `stack`; what killed imports left goes before."""
    for old in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        with suppress(OSError, ValueError):  # gone by now, or named by something else
            owner = int(old.name.removeprefix(_SCRATCH).partition("-")[0])
            used = alive(owner) or lock_owner(str(old)) is not None
            if not used and old.lstat().st_uid == os.getuid():
                shutil.rmtree(old, ignore_errors=True)
    prefix = f"{_SCRATCH}{os.getpid()}-"
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix)))


class PeerDatabase:
    """A SQLite database of another agent. Opening one may write beside it, so one in use is read
    from a copy."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        journal = path.with_name(path.name + "-wal")
        uri, mode = f"{path.resolve().as_uri()}?immutable=1", apsw.SQLITE_OPEN_READONLY
        if journal.exists() and journal.stat().st_size:
            copy = scratch_folder(stack) / "copy"
            _copy(path, journal, copy)
            uri, mode = copy.as_uri(), apsw.SQLITE_OPEN_READWRITE
        self._db = apsw.Connection(uri, mode | apsw.SQLITE_OPEN_URI)
        self._db.limit(apsw.SQLITE_LIMIT_LENGTH, LINE_BYTES)
        stack.callback(self._db.close)

    def rows(self, sql: str, *values: Any) -> Iterator[Row]:
        cursor = self._db.cursor()
        names: tuple[str, ...] = ()
        for row in cursor.execute(sql, values):
            names = names or tuple(name for name, _ in cursor.get_description())
            yield dict(zip(names, row, strict=True))

    def columns(self, table: str) -> set[str]:
        if not [*self.rows("select 1 from sqlite_schema where type = 'table' and name = ?", table)]:
            raise ValueError(f"it has no table {table}")  # a view could go on for ever
        return {row["name"] for row in self.rows("select name from pragma_table_info(?)", table)}


def _copy(path: Path, journal: Path, target: Path) -> None:
    """Copy a database with its journal, as of one moment."""
    if journal.is_symlink() or not journal.is_file():
        raise ValueError("its journal is not a plain file")
    size = path.stat().st_size + journal.stat().st_size
    if size > shutil.disk_usage(target.parent).free // 2:
        raise ValueError("there is no room for a copy of it")
    for _ in range(_COPIES):
        before = _state(path, journal)
        shutil.copyfile(path, target)
        if journal.exists():
            shutil.copyfile(journal, target.with_name(target.name + "-wal"))
        if _state(path, journal) == before:
            return
    raise OSError(None, "it keeps changing; stop the other agent and try again")


def _state(path: Path, journal: Path) -> object:
    """Changes when pages move from the journal to the database, or the journal begins anew."""
    try:
        with journal.open("rb") as file:
            head = file.read(32)
    except FileNotFoundError:
        head = b""
    facts = path.stat()
    return facts.st_mtime_ns, facts.st_size, head


def turns_of(messages: Iterable[Message]) -> Iterator[Row]:
    """The turns of a conversation. Results of tools become part of the reply before them."""
    turn: Row | None = None
    size = 0
    for one in messages:
        text = one.text[:MESSAGE_CHARS]
        size += len(text)
        if one.role == "user" or turn is None or size > TURN_CHARS:
            size = len(text)
            if turn is not None:
                yield turn
            opening = text if one.role == "user" else "(started by the agent)"
            turn = {"key": one.id, "time": one.time, "text": opening, "replies": [], "model": ""}
            if one.role == "user":
                continue
        replies = turn["replies"]
        if one.role == "tool" and replies:
            replies[-1][1] = f"{replies[-1][1]}\n\n{text}"[: 2 * MESSAGE_CHARS]
        elif text.strip():
            replies.append([one.time, text])
        turn["model"] = one.model or turn["model"]
    if turn is not None:
        yield turn


def utf8(value: Any) -> Any:
    """The same with what is not UTF-8 replaced."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {utf8(key): utf8(inner) for key, inner in value.items()}
    return [utf8(inner) for inner in value] if isinstance(value, list) else value


def plain(value: Any) -> str:
    """A name or number in a configuration; empty if it is anything else."""
    return str(value).strip() if isinstance(value, str | int | float) else ""


def content_text(content: Any) -> str:
    """The text of a message, whatever its parts."""
    if isinstance(content, str):
        return content
    parts = []
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else ""
        if kind in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
            parts.append(part["text"])
        elif kind in ("toolCall", "tool_use"):
            parts.append(call_text(part.get("name"), part.get("arguments", part.get("input"))))
        elif kind in ("image", "image_url"):
            parts.append("[an image, not imported]")
    return "\n\n".join(parts)


def call_text(name: Any, given: Any) -> str:
    if isinstance(command := _fields(given).get("command"), str):
        return _block(f"$ {command}")
    shown = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return f"[called {name}: {shown}]"


def result_text(name: Any, text: str) -> str:
    fields = _fields(text)
    if not isinstance(output := fields.get("output"), str):
        return f"[{name or 'the tool'} answered: {text}]"
    code, error = fields.get("exit_code"), fields.get("error")
    notes = [f"exit code {code}" if code else "", str(error) if error else ""]
    return "\n".join(filter(None, [_block(output), *notes]))


def group(value: Any, *steps: str) -> Row:
    """What is below these names; empty if that is not an object."""
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def parsed(given: Any) -> Any:
    """What a text holds as JSON; anything else as it is."""
    with suppress(ValueError, RecursionError):
        return json.loads(given) if isinstance(given, str) else given
    return given


def _fields(given: Any) -> Row:
    """The fields of an object, also as JSON; none if it is anything else."""
    return group(parsed(given))


def _block(text: str) -> str:
    fence = code_fence(text)
    return f"{fence}\n{text.rstrip()}\n{fence}"


def seconds_of(value: Any) -> float:
    """A time as seconds: a number of seconds or milliseconds, or ISO text; 0 if it is none."""
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError, OSError):
            return 0.0
    if not isinstance(value, int | float) or not 0 <= value < 1e14:
        return 0.0
    return float(value) / 1000 if value > 1e11 else float(value)


def every_words(seconds: int) -> str:
    """An interval in its largest unit: `every 6 hours`."""
    unit, size = next((unit, size) for unit, size in UNITS if not seconds % size)
    return f"every {count(seconds // size, unit)}"


_COMMENTS = re.compile(r'("(?:[^"\\]|\\.)*(?:"|\\?\Z))|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
"""Strings, which stay, and comments, which go. What is left open goes on to the end."""
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"```.*?```", re.DOTALL)
_BLANK = re.compile(
    r"Store stable user preferences and profile facts.*|Use one directive per entry:"
    r"|- (?:Begin each directive with an imperative|Record the observation date and either).*"
    r"|- When a preference changes, mark the old entry.*|- Keep stable communication style, rel.*"
    r"|- Save this file at the workspace root as.*|Replace the example below with a real.*"
    r"|- \[Agent workspace\].*|Learn about the person you're helping.*|The more you know, the.*"
    r"|This file stores important information that should persist.*"
    r"|Information about the user to help personalize interactions\.|"
    r"#.*|-{3,}|\*[^*]+\*|_[^_]+_|\(.*\)|[-*] *(?:\[[ x]\].*|\.\.\.|Prefer \.\.\.)?"
    r"|[-*] \*\*[^*]+\*\*:? *(?:\(.*\))?"
)
"""Headings, rules, and lines of a template that nobody has filled in."""


def entries(text: str) -> list[str]:
    """The entries of a Markdown file of memories: its list items and paragraphs."""
    found: list[list[str]] = []
    fresh = True
    closed, end, rest = text.rpartition("-->")  # or each open comment is searched to the end
    for line in _CODE.sub("", _COMMENT.sub("", closed + end) + rest).splitlines():
        bare = line.strip()
        if not bare or _BLANK.fullmatch(bare):
            fresh = True
            continue
        item = re.match(r"(?:[-*]|\d+\.) +", bare)
        if item and line[:1] not in " \t":
            found.append([bare[item.end() :]])
        elif fresh or not found:
            found.append([bare[item.end() :] if item else bare])
        else:
            found[-1].append(bare)
        fresh = False
    return ["\n".join(lines) for lines in found]
