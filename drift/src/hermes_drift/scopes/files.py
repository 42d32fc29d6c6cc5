"""Scope files: content, mode, owner, missing and extra files."""

import hashlib
import posixpath
import shlex
from collections.abc import Mapping, Sequence

from hermes_drift import diff_text
from hermes_drift.attribution import AuditTrail
from hermes_drift.config import FilesScope
from hermes_drift.matching import fits, fits_any
from hermes_drift.recommendations import OLDER
from hermes_drift.scopes import file_facts
from hermes_drift.scopes.file_facts import Fact
from hermes_drift.scopes.repository import Repository, RepositoryFile, clean
from hermes_drift.values import Advice, DriftFinding, LiveState, Scope, ScopeResult, SecretFilter

HERE = "local"
"""The terminal of the machine that the repository is on."""
MAX_EXTRA = 50
"""In one folder; more are only counted."""


class FileAudit:
    """One folder of the repository against one of the machine."""

    def __init__(
        self, wanted: FilesScope, repository: Repository, live: LiveState, trail: AuditTrail,
        hide: SecretFilter, scope: Scope = "files",
    ) -> None:  # fmt: skip
        self._wanted = wanted
        self._repository = repository
        self._live = live
        self._trail = trail
        self._hide = hide
        self._scope = scope
        self._root = wanted.live.rstrip("/") or "/"
        self._base = clean(wanted.declared)
        self._found: list[DriftFinding] = []
        self._troubles: list[str] = []

    async def run(self) -> ScopeResult:
        entries = {self._below(one): one for one in self._repository.below(self._base)}
        entries = {at: one for at, one in entries.items() if not self._ignored(at)}
        listing = await file_facts.listed(self._live, self._root)
        if listing.trouble:
            self._troubles.append(listing.trouble)
        if listing.trouble and not listing.facts:
            return ScopeResult(self._scope, 0, (), tuple(self._troubles))
        for at, entry in entries.items():
            fact = listing.facts.get(at)
            if fact is None and listing.sees(at):
                self._missing(at, entry)
            elif fact is not None:
                await self._facts(at, entry, fact)
        await self._contents(entries, listing.facts)
        if self._wanted.extra and "" not in entries:
            await self._extras(entries, listing.facts)
        return ScopeResult(self._scope, len(entries), tuple(self._found), tuple(self._troubles))

    def _below(self, entry: RepositoryFile) -> str:
        """Its path below the root; empty if the root is this file."""
        return entry.path[len(self._base) :].lstrip("/")

    def _ignored(self, at: str) -> bool:
        return fits_any(self._wanted.ignore, at)

    def _path(self, at: str) -> str:
        return posixpath.join(self._root, at) if at else self._root

    def _add(self, at: str, field: str, **more: object) -> None:
        self._found.append(
            DriftFinding(self._scope, self._path(at), field, terminal=self._live.name, **more)  # type: ignore[arg-type]  # fields by name
        )

    def _missing(self, at: str, entry: RepositoryFile) -> None:
        path, mode = self._path(at), self._mode(at) or ("0755" if entry.executable else "0644")
        if entry.kind == "link":
            revert = f'ln -s "$({self._git_show(entry)})" {shlex.quote(path)}'
        else:
            revert = self._restore_command(entry, path, mode)
        adopt = f"git -C {shlex.quote(self._repository.folder)} rm -- {shlex.quote(entry.path)}"
        self._add(
            at, "missing", declared="present", live="not present", source=entry.path,
            advice=Advice(revert=revert, adopt=adopt),
        )  # fmt: skip

    def _git_show(self, entry: RepositoryFile) -> str:
        object = f"{self._repository.commit[:12]}:{entry.path}"
        return shlex.join(["git", "-C", self._repository.folder, "show", object])

    def _restore_command(self, entry: RepositoryFile, path: str, mode: str = "") -> str:
        """The command that writes the declared version."""
        show, quoted = self._git_show(entry), shlex.quote(path)
        if self._live.name != HERE:  # Git and the file are on two machines
            return f"{show}  # write this to {path} on {self._live.name}"
        return (
            f"{show} | install -D -m {mode} /dev/stdin {quoted}" if mode else f"{show} > {quoted}"
        )

    def _adopt_command(self, path: str, to: str) -> str:
        """The command that copies the live version into the repository."""
        add = shlex.join(["git", "-C", self._repository.folder, "add", "--", to])
        there = posixpath.join(self._repository.folder, to)
        if self._live.name != HERE:
            return f"copy {path} from {self._live.name} to {there}, then {add}"
        folder = shlex.quote(posixpath.dirname(there))
        return f"mkdir -p {folder} && cp -r {shlex.quote(path)} {shlex.quote(there)} && {add}"

    def _mode(self, at: str) -> str:
        name = at or posixpath.basename(self._root)
        for glob, mode in self._wanted.mode.items():
            if fits(glob, name):
                return mode.zfill(4)
        return ""

    async def _facts(self, at: str, entry: RepositoryFile, fact: Fact) -> None:
        """Kind, mode and owner."""
        path, quoted = self._path(at), shlex.quote(self._path(at))
        if fact.kind == "c":  # what covers a secret from commands that only read
            self._troubles.append(f"{path} is a device, or hidden because it may contain secrets")
            return
        if {"file": "f", "link": "l"}[entry.kind] != fact.kind:
            kinds = {"f": "a file", "l": "a link", "d": "a folder"}
            self._add(
                at, "kind", declared=f"a {entry.kind}", live=kinds.get(fact.kind, "something else"),
                source=entry.path, who=await self._trail.last_change(path, fact),
            )  # fmt: skip
            return
        if entry.kind == "link":
            return
        if (mode := self._wrong_mode(at, entry, fact)) is not None:
            glob = f'mode: {{{at or posixpath.basename(self._root)}: "{fact.mode}"}}'
            self._add(
                at, "mode", declared=mode, live=fact.mode, source=entry.path,
                who=await self._trail.last_change(path, fact, facts_only=True),
                advice=Advice(
                    revert=f"chmod {mode} {quoted}", adopt=f"in drift.yaml, for this folder: {glob}"
                ),
            )  # fmt: skip
        for field, live in (("owner", fact.owner), ("group", fact.group)):
            declared = getattr(self._wanted, field)
            if declared and declared != live:
                program = "chown" if field == "owner" else "chgrp"
                self._add(
                    at, field, declared=declared, live=live, source=entry.path,
                    who=await self._trail.last_change(path, fact, facts_only=True),
                    advice=Advice(revert=f"{program} {shlex.quote(declared)} {quoted}"),
                )  # fmt: skip

    def _wrong_mode(self, at: str, entry: RepositoryFile, fact: Fact) -> str | None:
        """What the mode should be, if it is another."""
        if wanted := self._mode(at):
            return None if wanted == fact.mode else wanted
        bits = int(fact.mode, 8)
        if bool(bits & 0o100) == entry.executable and not bits & 0o6002:
            return None
        right = bits & 0o0775
        right = right | (right >> 2 & 0o111) if entry.executable else right & ~0o111
        return f"{right:04o}"

    async def _contents(
        self, entries: Mapping[str, RepositoryFile], facts: Mapping[str, Fact]
    ) -> None:
        both = [at for at in entries if at in facts and entries[at].kind == "file"]
        files = [at for at in both if facts[at].kind == "f"]
        data = await self._repository.read_all(list(entries.values()))
        same_size = [at for at in files if facts[at].size == len(data[entries[at].path])]
        sums, troubles = await file_facts.sums(self._live, [self._path(at) for at in same_size])
        self._troubles += troubles
        for at in files:
            declared = data[entries[at].path]
            if at in same_size:
                sum = sums.get(self._path(at))
                if sum is None or sum == hashlib.sha256(declared).hexdigest():
                    continue
            await self._content(at, entries[at], facts[at], declared)
        for at, entry in entries.items():
            fact = facts.get(at)
            target = data[entry.path].decode(errors="replace")
            if entry.kind == "link" and fact and fact.kind == "l" and fact.target != target:
                path = self._path(at)
                self._add(
                    at, "target", declared=target, live=fact.target, source=entry.path,
                    who=await self._trail.last_change(path, fact),
                    advice=Advice(revert=f"ln -sfn {shlex.quote(target)} {shlex.quote(path)}"),
                )  # fmt: skip

    async def _content(self, at: str, entry: RepositoryFile, fact: Fact, declared: bytes) -> None:
        path = self._path(at)
        live, why = None, "too large to show"
        if fact.size <= file_facts.MAX_BYTES and len(declared) <= file_facts.MAX_BYTES:
            live, why = await file_facts.content(self._live, path)
        who = await self._trail.last_change(path, fact, live)
        revert, adopt = self._restore_command(entry, path), self._adopt_command(path, entry.path)
        summary, diff, patch = f"{fact.size} bytes", f"(not shown: {why})", ""
        history: tuple[str, ...] = ()
        if live is not None:
            before, after = diff_text.decoded(declared), diff_text.decoded(live)
            history = await self._known_version(entry, live)
            diff = "(not text)"
            if before is not None and after is not None:
                diff, whole = diff_text.shown(before, after, entry.path, self._hide)
                patch = diff if whole else ""
                summary = f"{diff_text.changed_lines(before, after)} lines"
        self._add(
            at, "content", declared=f"as in {self._repository.commit[:10]}", live=summary,
            diff=diff, source=entry.path, who=who, history=history,
            advice=Advice(revert=revert, adopt=adopt, patch=patch),
        )  # fmt: skip

    async def _known_version(self, entry: RepositoryFile, live: bytes) -> tuple[str, ...]:
        """Whether an older commit declared the live version: nobody changed it here, it was never
        updated or was put back."""
        blob = diff_text.blob_id(live)
        for version in await self._repository.versions(entry.path):
            if version.blob == blob:
                by = f"{version.commit[:10]} by {version.author} ({version.subject})"
                return (f"live is the version of commit {by}: {OLDER}",)
        return ()

    async def _extras(
        self, entries: Mapping[str, RepositoryFile], facts: Mapping[str, Fact]
    ) -> None:
        """Undeclared files in folders with declared ones. An undeclared folder is one finding."""
        folders = {parent for at in entries for parent in _parents(at)}
        for folder in sorted(folders):
            inside = [
                fact for at, fact in facts.items()
                if at and posixpath.dirname(at) == folder
                and at not in entries and at not in folders and not self._ignored(at)
            ]  # fmt: skip
            if len(inside) > MAX_EXTRA:
                self._add(
                    folder, "extra", declared="nothing else",
                    live=f"{len(inside)} undeclared files",
                    advice=Advice(adopt="in drift.yaml, for this folder: extra: false"),
                )  # fmt: skip
                continue
            for fact in inside:
                await self._extra(fact, facts)

    async def _extra(self, fact: Fact, facts: Mapping[str, Fact]) -> None:
        path, quoted = self._path(fact.path), shlex.quote(self._path(fact.path))
        below = sum(at.startswith(f"{fact.path}/") for at in facts)
        what = f"a folder ({below} inside)" if fact.kind == "d" else f"{fact.size} bytes"
        remove = "rm -r" if fact.kind == "d" else "rm"
        self._add(
            fact.path, "extra", declared="not present",
            live=f"{what}, mode {fact.mode}, {fact.owner}",
            who=await self._trail.last_change(path, fact),
            advice=Advice(
                revert=f"{remove} -- {quoted}",
                adopt=self._adopt_command(path, posixpath.join(self._base, fact.path)),
            ),
        )  # fmt: skip


def _parents(at: str) -> Sequence[str]:
    parts = at.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(len(parts) + 1)]
