"""Scans the folders of skills for changes since the last scan."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes_agent.learning.folder_lock import LOCK
from hermes_agent.learning.skills import folder as folders
from hermes_agent.learning.skills.file import SkillFacts, SkillText, parse
from hermes_agent.learning.skills.folder import RUNBOOK, Signature, SkillFolder, decoded, digest
from hermes_agent.learning.skills.frontmatter import plain_name

INDEX, INDEX_VERSION = ".index.json", 2
SETTLED_NS = 100_000_000
"""A file that changed so shortly before it was read may change again with the same time stamp."""


class CachedFolder(Struct, frozen=True, omit_defaults=True):
    """A folder as of the last scan."""

    signature: Signature
    """Empty if it must be read again in any case."""
    digest: str
    facts: SkillFacts
    broken: str = ""
    """Why it cannot be used."""
    shipped: bool = False
    runbook: bool = False


class _Index(Struct, frozen=True):
    version: int = 0
    skills: dict[str, CachedFolder] = {}


class ChangedFolder(Struct, frozen=True):
    name: str
    folder: SkillFolder
    text: SkillText
    danger: str
    shipped: bool

    @property
    def digest(self) -> str:
        return digest(self.folder.files)

    @property
    def known(self) -> CachedFolder:
        about = self.text.facts, self.text.broken, self.shipped, RUNBOOK in self.folder.files
        return CachedFolder(self.folder.signature, self.digest, *about)


class FolderScan(Struct, frozen=True):
    seen: Sequence[ChangedFolder]
    settled: Mapping[str, CachedFolder]
    """Unchanged folders whose time stamps differ."""
    there: Mapping[str, Path]
    odd: Sequence[str] = ()
    """What cannot be read, in sentences."""


class FolderScanner:
    def __init__(self, folder: Path, shipped: Path, danger: Callable[[str], str]) -> None:
        self._folder = folder
        self._shipped = shipped
        self._danger = danger
        self._places: Mapping[str, Path] = {}

    def place(self, name: str) -> Path | None:
        """The folder a skill is read from: the home comes first."""
        places = (self.target(name), self._shipped / name)
        return next((folder for folder in places if folder.is_dir()), None)

    def target(self, name: str) -> Path:
        """Its folder in the home, however its name is spelled there."""
        found = self._places.get(name)
        return found if found is not None and found.parent == self._folder else self._folder / name

    def scan(self, known: Mapping[str, CachedFolder]) -> FolderScan:
        there, odd = self._there()
        seen: list[ChangedFolder] = []
        settled: dict[str, CachedFolder] = {}
        for name, place in list(there.items()):
            before = known.get(name)
            if before and before.shipped != self._is_shipped(place):
                before = None
            try:
                same = before.signature if before else ()
                if same and same == folders.signature(place):
                    continue
                folder = self._read(place)
            except (FileNotFoundError, NotADirectoryError):
                del there[name]  # removed meanwhile
                continue
            except OSError as error:
                odd.append(f"the skill {name!r} cannot be read: {error.strerror}")
                continue
            if not folders.main_file(folder.files):
                del there[name]
            elif before and before.digest == digest(folder.files):
                settled[name] = msgspec.structs.replace(before, signature=folder.signature)
            else:
                seen.append(self._changed(name, place, folder))
        self._places = there
        return FolderScan(seen, settled, there, odd)

    def read_one(self, name: str) -> ChangedFolder | None:
        """One skill as it is now; None if there is none."""
        place = self.place(name)
        if place is None:
            return None
        folder = self._read(place)
        return self._changed(name, place, folder) if folders.main_file(folder.files) else None

    def dangers(self, files: Mapping[str, bytes]) -> str:
        """Why the text of a skill looks dangerous; empty if it does not."""
        texts = ((path, decoded(data)) for path, data in sorted(files.items()))
        found = ((path, self._danger(text)) for path, text in texts if text)
        return next((f"{path}: {reason}" for path, reason in found if reason), "")

    def _is_shipped(self, place: Path) -> bool:
        return place.parent == self._shipped

    def _there(self) -> tuple[dict[str, Path], list[str]]:
        there: dict[str, Path] = {}
        odd: list[str] = []
        for folder in (self._folder, self._shipped):
            for name in folders.names(folder):
                plain = plain_name(name)
                if plain not in there:
                    there[plain] = folder / name
                elif there[plain].parent == folder:
                    odd.append(f"the folder {name!r} has the same name as another skill")
        return there, odd

    def _read(self, place: Path) -> SkillFolder:
        """The folder, without a signature if it changed just now."""
        os.utime(self._folder / LOCK)
        now = (self._folder / LOCK).stat().st_mtime_ns
        folder = folders.read_folder(place)
        newest = max((max(times[1:3]) for times in folder.signature), default=0)
        return (
            folder if newest <= now - SETTLED_NS else SkillFolder(folder.files, (), folder.left_out)
        )

    def _changed(self, name: str, place: Path, folder: SkillFolder) -> ChangedFolder:
        text = decoded(folder.files[folders.main_file(folder.files)])
        shipped = self._is_shipped(place)
        # The tests check the bundled ones.
        danger = "" if shipped else self.dangers(folder.files)
        return ChangedFolder(name, folder, parse(text or "", name), danger, shipped)


def read_index(path: Path) -> dict[str, CachedFolder]:
    """The saved index; empty if it cannot be read."""
    try:
        index = msgspec.json.decode(path.read_bytes(), type=_Index)
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    return dict(index.skills) if index.version == INDEX_VERSION else {}


def write_index(path: Path, known: Mapping[str, CachedFolder]) -> None:
    """Not flushed to disk: an index that cannot be read is rebuilt."""
    data = msgspec.json.encode(_Index(INDEX_VERSION, dict(known)))
    draft = path.with_name(f"{path.name}.new")
    draft.touch(mode=0o600)
    draft.write_bytes(data)
    draft.replace(path)
