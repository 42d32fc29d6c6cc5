"""Scope units: systemd unit files and drop-ins, and what the manager has loaded."""

import posixpath
import shlex
from collections.abc import Mapping, Sequence

from hermes_drift import diff_text
from hermes_drift.attribution import AuditTrail
from hermes_drift.config import FilesScope, Units
from hermes_drift.matching import fits_any
from hermes_drift.scopes import file_facts
from hermes_drift.scopes.file_facts import Fact
from hermes_drift.scopes.files import HERE, FileAudit
from hermes_drift.scopes.repository import Repository, RepositoryFile, clean
from hermes_drift.values import Advice, DriftFinding, LiveState, ScopeResult, SecretFilter, Who

KINDS = (".service", ".timer", ".socket", ".path", ".mount", ".target", ".slice", ".automount")
FACTS = ("Id", "LoadState", "FragmentPath", "DropInPaths", "UnitFileState", "ActiveState",
         "NeedDaemonReload")  # fmt: skip
PLACES = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system")
"""Where drop-ins come from, first the one that wins."""


class UnitAudit(FileAudit):
    """A folder of unit files against one of the machine, and against the manager."""

    def __init__(
        self, wanted: Units, repository: Repository, live: LiveState, trail: AuditTrail,
        hide: SecretFilter,
    ) -> None:  # fmt: skip
        folder = f"{wanted.root.rstrip('/')}{wanted.live}"
        files = FilesScope(wanted.declared, folder, extra=False, ignore=wanted.ignore)
        super().__init__(files, repository, live, trail, hide, "units")
        self._units = wanted

    async def run(self) -> ScopeResult:
        checked = (await super().run()).checked
        entries = [self._below(one) for one in self._repository.below(self._base)]
        units = [at for at in entries if at.endswith(KINDS) and "/" not in at]
        units = [at for at in units if not self._ignored(at)]
        dropped = {posixpath.dirname(at)[:-2] for at in entries if ".d/" in at}
        known = await self._manager([*units, *sorted(dropped - set(units))])
        notes: tuple[str, ...] = ()
        if known is None and not self._units.root:
            notes = ("systemd is not available: only unit files were compared",)
        for unit in sorted({*units, *dropped}):
            await self._dropped_in(unit, entries, (known or {}).get(unit, {}))
            self._loaded(unit, (known or {}).get(unit, {}))
        await self._enabled(known or {})
        return ScopeResult("units", checked, tuple(self._found), tuple(self._troubles), notes)

    @property
    def _reload(self) -> str:
        quiet = self._units.root or self._live.name != HERE
        return "" if quiet else " && systemctl daemon-reload"

    async def _manager(self, units: Sequence[str]) -> dict[str, dict[str, str]] | None:
        """The manager's facts of each unit; None without a manager."""
        if self._units.root or not units:
            return None
        named = " ".join(f"-p {name}" for name in FACTS)
        answer = await self._live.ask(f"systemctl show --no-pager {named} -- {shlex.join(units)}")
        if not answer.ok:
            return None
        blocks = [
            dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
            for block in answer.out.split("\n\n")
        ]
        return dict(zip(units, blocks, strict=False))

    async def _content(self, at: str, entry: RepositoryFile, fact: Fact, declared: bytes) -> None:
        """One finding for each setting that differs, or one for comments and blanks."""
        before = diff_text.decoded(declared)
        live, _ = await file_facts.content(self._live, self._path(at))
        after = diff_text.decoded(live) if live is not None else None
        if before is None or after is None:
            await super()._content(at, entry, fact, declared)
            return
        wanted, there = settings_of(before), settings_of(after)
        diff, whole = diff_text.shown(before, after, entry.path, self._hide)
        who = await self._trail.last_change(self._path(at), fact, live)
        history = await self._known_version(entry, live or b"")
        names = [name for name in {**wanted, **there} if wanted.get(name) != there.get(name)]
        revert = f"{self._restore_command(entry, self._path(at))}{self._reload}"
        for name in names or ["comments"]:
            self._add(
                at, name, declared=self._said(wanted, name), live=self._said(there, name),
                diff=diff, source=entry.path, who=who, history=history,
                advice=Advice(revert=revert, patch=diff if whole else ""),
            )  # fmt: skip

    def _said(self, settings: Mapping[str, tuple[str, ...]], name: str) -> str:
        if name == "comments":
            return "different comments or whitespace"
        values = settings.get(name)
        if values is None:
            return "not set"
        key = name.partition(".")[2]
        return diff_text.brief(self._hide(" | ".join(f"{key}={value}" for value in values)))

    async def _dropped_in(
        self, unit: str, entries: Sequence[str], facts: Mapping[str, str]
    ) -> None:
        """Find drop-ins that are not declared."""
        root = self._units.root.rstrip("/")
        paths = shlex.split(facts.get("DropInPaths", ""))
        if facts.get("NeedDaemonReload") != "no":  # there may be more than is loaded
            for place in dict.fromkeys((self._units.live, *PLACES)):
                listing = await file_facts.listed(self._live, f"{root}{place}/{unit}.d", 1)
                paths += [f"{place}/{unit}.d/{at}" for at in listing.facts if at.endswith(".conf")]
        for path in dict.fromkeys(paths):
            at = posixpath.relpath(path, self._units.live)
            if at not in entries and not fits_any(self._units.ignore, at):
                await self._one_dropped_in(unit, f"{root}{path}")

    async def _one_dropped_in(self, unit: str, path: str) -> None:
        fact = (await file_facts.listed(self._live, path)).facts.get("")
        data, _ = await file_facts.content(self._live, path)
        text = diff_text.decoded(data or b"") or ""
        names = sorted(settings_of(text)) or ["nothing"]
        there = posixpath.join(clean(self._units.declared), f"{unit}.d", posixpath.basename(path))
        self._found.append(
            DriftFinding(
                "units", unit, f"drop-in {posixpath.basename(path)}",
                declared="no such drop-in", live=f"{path} sets {', '.join(names)}",
                diff=diff_text.shown("", text, there, self._hide)[0], terminal=self._live.name,
                who=await self._trail.last_change(path, fact, data) if fact else Who(),
                advice=Advice(
                    revert=f"rm -- {shlex.quote(path)}{self._reload}",
                    adopt=self._adopt_command(path, there),
                ),
            )
        )  # fmt: skip

    def _loaded(self, unit: str, facts: Mapping[str, str]) -> None:
        """Compare what the manager has loaded with the files."""

        def add(field: str, declared: str, live: str, revert: str) -> None:
            self._found.append(
                DriftFinding("units", unit, field, declared, live, terminal=self._live.name,
                        source=posixpath.join(self._base, unit), advice=Advice(revert=revert))
            )  # fmt: skip

        if facts.get("LoadState") == "masked":
            add("masked", "not masked", "masked", f"systemctl unmask {unit}")
        if facts.get("NeedDaemonReload") == "yes":
            add("loaded", "as in its file", "an older version", "systemctl daemon-reload")
        if unit in self._units.active and facts.get("ActiveState", "active") != "active":
            add("active", "active", facts["ActiveState"], f"systemctl start {unit}")

    async def _enabled(self, known: Mapping[str, Mapping[str, str]]) -> None:
        wanted = dict.fromkeys(self._units.enabled, True)
        wanted |= dict.fromkeys(self._units.disabled, False)
        root = f"--root={shlex.quote(self._units.root)} " if self._units.root else ""
        for unit, enabled in wanted.items():
            state = known.get(unit, {}).get("UnitFileState", "")
            if not state:
                answer = await self._live.ask(f"systemctl {root}is-enabled -- {shlex.quote(unit)}")
                state = answer.out.strip()
                if answer.refused or (not state and not answer.ok):
                    self._troubles.append(
                        f"cannot tell whether {unit} is enabled: {answer.trouble}"
                    )
                    continue
            if state.startswith("enabled") != enabled:
                verb = "enable" if enabled else "disable"
                self._found.append(
                    DriftFinding(
                        "units", unit, "enabled", "enabled" if enabled else "disabled", state,
                        terminal=self._live.name, source="drift.yaml",
                        advice=Advice(revert=f"systemctl {root}{verb} {shlex.quote(unit)}"),
                    )
                )  # fmt: skip


def settings_of(text: str) -> Mapping[str, tuple[str, ...]]:
    """The values by name (`Service.ExecStart`). An empty assignment clears those before it."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in _lines(text):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            continue
        name, equals, value = line.partition("=")
        if not equals:
            continue
        values = found.setdefault(f"{section}.{name.strip()}", [])
        if value.strip():
            values.append(value.strip())
        else:
            values[:] = [""]
    return {name: tuple(values) for name, values in found.items()}


def _lines(text: str) -> list[str]:
    """Lines without comments, joined where a backslash continues them."""
    lines: list[str] = []
    held = ""
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith(("#", ";")) or (not bare and not held):
            continue
        if bare.endswith("\\"):
            held += bare[:-1].rstrip() + " "
            continue
        lines.append(held + bare)
        held = ""
    return [*lines, held.strip()] if held else lines
