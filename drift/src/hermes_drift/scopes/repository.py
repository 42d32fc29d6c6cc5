"""The declared side: one commit of a Git repository."""

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hermes_agent.core.errors import NotFound, UsageError

SECONDS = 60.0
VERSIONS = 50
"""How many commits of a file are searched for the live version."""
QUIET = {
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C.UTF-8",
}  # fmt: skip


class RepositoryFile(NamedTuple):
    path: str
    kind: str
    """`file` or `link`."""
    executable: bool
    blob: str


class FileCommit(NamedTuple):
    """A commit that changed a file, and the blob it left."""

    commit: str
    author: str
    at: float
    subject: str
    blob: str


class Repository:
    """One commit. Nothing from the repository is run: no hook, filter or alias."""

    def __init__(self, folder: str, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.commit = ""
        self.subject = ""
        self._environ = {**environ, **QUIET}
        self._entries: dict[str, RepositoryFile] = {}

    @classmethod
    async def open(cls, folder: str, environ: Mapping[str, str], ref: str = "") -> "Repository":
        if not Path(folder).is_dir():
            raise NotFound(f"no folder at {folder!r}", "name a Git repository")
        made = cls(folder, environ)
        top = await made._git("rev-parse", "--show-toplevel")
        made.folder = os.path.realpath(top.decode().rstrip("\n"))
        named = ("--end-of-options", ref or "HEAD", "--")
        line = (await made._git("log", "-1", "--format=%H%x00%s", *named)).rstrip(b"\n")
        made.commit, _, made.subject = line.decode(errors="replace").partition("\0")
        listed = await made._git("ls-tree", "-r", "-z", "--full-tree", made.commit)
        made._entries = {entry.path: entry for entry in map(_entry, listed.split(b"\0")) if entry}
        return made

    def below(self, path: str) -> Sequence[RepositoryFile]:
        """The files of a folder, or the one file at this path."""
        path = clean(path)
        if path in self._entries:
            return [self._entries[path]]
        start = f"{path}/" if path else ""
        found = [one for name, one in self._entries.items() if name.startswith(start)]
        if not found:
            raise NotFound(
                f"{path!r} is not in commit {self.commit[:10]} of {self.folder}",
                "only committed files are compared",
            )
        return found

    def has(self, path: str) -> bool:
        return clean(path) in self._entries

    async def read(self, path: str) -> bytes:
        (entry,) = self.below(path)
        return await self._git("cat-file", "blob", entry.blob)

    async def read_all(self, entries: Sequence[RepositoryFile]) -> dict[str, bytes]:
        """By path."""
        asked = "".join(f"{entry.blob}\n" for entry in entries).encode()
        output = await self._git("cat-file", "--batch", given=asked)
        found, place = {}, 0
        for entry in entries:
            end = output.index(b"\n", place)
            size = int(output[place:end].split()[-1])
            found[entry.path] = output[end + 1 : end + 1 + size]
            place = end + size + 2
        return found

    async def versions(self, path: str) -> Sequence[FileCommit]:
        """The commits that changed a file, newest first."""
        output = await self._git(
            "log", f"-{VERSIONS}", "--format=%x01%H%x00%an%x00%at%x00%s%x00", "--raw",
            "--no-abbrev", "--no-renames", "--no-ext-diff", self.commit, "--",
            f":(top,literal){path}",
        )  # fmt: skip
        found = []
        for block in output.decode(errors="replace").split("\x01")[1:]:
            commit, author, at, subject, raw = block.split("\0", 4)
            words = raw.split()
            blob = words[3] if len(words) > 3 else ""
            found.append(FileCommit(commit, author, float(at), subject, blob))
        return found

    async def _git(self, *words: str, given: bytes | None = None) -> bytes:
        return await asyncio.to_thread(self._run, words, given)

    def _run(self, words: Sequence[str], given: bytes | None) -> bytes:
        command = [
            "git", "-C", self.folder, "-c", "core.fsmonitor=false",
            "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat",
            "-c", "log.showSignature=false", *words,
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, env=self._environ, capture_output=True, timeout=SECONDS,
                input=given or b"", check=False,
            )  # fmt: skip
        except FileNotFoundError:
            raise UsageError("git is not installed", "install it") from None
        except subprocess.TimeoutExpired:
            raise UsageError(
                f"git took more than {SECONDS:.0f} seconds", "run `git log` there to see why"
            ) from None
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise UsageError(
                f"git cannot read {self.folder}: {said[0] if said else 'no message'}",
                "name a Git repository with a commit and an owner that git trusts",
            )
        return done.stdout


def clean(path: str) -> str:
    """A path as Git writes it. Raises `UsageError` for one outside the repository."""
    whole = os.path.normpath(path.strip() or ".")
    if whole.startswith(("/", "..")):
        raise UsageError(f"{path!r} is not in the repository", "name a path inside it")
    return "" if whole == "." else whole


def _entry(line: bytes) -> RepositoryFile | None:
    facts, _, path = line.partition(b"\t")
    if not path:
        return None
    mode, kind, blob = facts.split()
    if kind != b"blob":  # a submodule is another repository
        return None
    sort = "link" if mode == b"120000" else "file"
    return RepositoryFile(path.decode(errors="replace"), sort, mode == b"100755", blob.decode())
