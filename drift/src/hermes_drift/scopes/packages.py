"""Scope packages: a list in the repository against dpkg, rpm or pip."""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from hermes_agent.core.errors import UsageError
from hermes_drift.attribution import AuditTrail
from hermes_drift.config import Packages
from hermes_drift.matching import fits_any
from hermes_drift.scopes.repository import Repository, clean
from hermes_drift.values import Advice, DriftFinding, LiveState, ScopeResult, Who

AUTOMATIC = ("unattended-upgrade", "packagekit", "landscape", "ansible", "puppet", "salt", "chef")
"""Words in the command lines of programs that install packages on their own."""


class PackageLine(NamedTuple):
    name: str
    version: str
    wanted: bool
    number: int


class Manager(NamedTuple):
    command: str
    read: Callable[[str], dict[str, str]]
    install: str
    """With `{name}` and `{version}`, which includes `pin`."""
    remove: str
    pin: str


def _dpkg(text: str) -> dict[str, str]:
    rows = [line.split("\t") for line in text.splitlines()]
    return {row[1]: row[2] for row in rows if len(row) == 3 and row[0].startswith(("ii", "hi"))}


def _rpm(text: str) -> dict[str, str]:
    return dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)


def _pip(text: str) -> dict[str, str]:
    return {_plain(row["name"]): row["version"] for row in msgspec.json.decode(text)}


def _dist_info(text: str) -> dict[str, str]:
    pairs = [line.removesuffix(".dist-info").rpartition("-") for line in text.splitlines()]
    return {_plain(name): version for name, _, version in pairs if name}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


MANAGERS: Mapping[str, Manager] = {
    "dpkg": Manager(
        r"dpkg-query -W -f='${db:Status-Abbrev}\t${Package}\t${Version}\n'", _dpkg,
        "apt-get install --allow-downgrades {name}{version}", "apt-get remove {name}", "=",
    ),
    "rpm": Manager(
        r"rpm -qa --qf '%{NAME}\t%{VERSION}-%{RELEASE}\n'", _rpm,
        "dnf install {name}{version}", "dnf remove {name}", "-",
    ),
    "pip": Manager(
        "pip list --format json", _pip, "pip install {name}{version}", "pip uninstall {name}", "==",
    ),
}  # fmt: skip


async def run(
    wanted: Packages, repository: Repository, live: LiveState, trail: AuditTrail
) -> ScopeResult:
    manager = MANAGERS.get(wanted.manager)
    if manager is None:
        raise UsageError(
            f"no package manager called {wanted.manager!r}", f"use one of: {', '.join(MANAGERS)}"
        )
    path = clean(wanted.declared)
    text = (await repository.read(path)).decode(errors="replace")
    lines = [one for one in declared(text, wanted.manager) if not fits_any(wanted.ignore, one.name)]
    command, read = manager.command, manager.read
    if wanted.manager == "pip" and wanted.folder:
        folder = shlex.quote(wanted.folder)
        command, read = f"find {folder} -type d -name '*.dist-info' -printf '%f\\n'", _dist_info
    answer = await live.ask(command)
    if not answer.ok:
        return ScopeResult("packages", 0, (), (f"{wanted.manager}: {answer.trouble}",))
    try:
        there = read(answer.out)
    except (msgspec.MsgspecError, KeyError, TypeError):
        return ScopeResult("packages", 0, (), (f"{wanted.manager}: cannot read its package list",))
    found = []
    for line in lines:
        version = there.get(line.name)
        if line.wanted == (version is not None) and line.version in ("", version):
            continue
        found.append(await _finding(line, version, path, manager, live, trail))
    return ScopeResult("packages", len(lines), tuple(found))


def declared(text: str, manager: str) -> list[PackageLine]:
    """The lines of a list, without pip's options, hashes and markers."""
    found = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].partition(";")[0].partition("--hash")[0].strip(" \\\t")
        if not line or line.startswith("-"):
            continue
        wanted = not line.startswith("!")
        name, _, version = line.lstrip("!").partition("=")
        name = name.strip().partition("[")[0]
        if any(sign in line for sign in "<>~@"):  # a range is not one version to compare with
            name, version = re.split(r"[<>~@!=\s\[]", line.lstrip("!"), maxsplit=1)[0], ""
        name = _plain(name) if manager == "pip" else name.partition(":")[0]
        found.append(PackageLine(name, version.lstrip("=").strip(), wanted, number))
    return found


async def _finding(
    line: PackageLine, version: str | None, path: str, manager: Manager, live: LiveState,
    trail: AuditTrail,
) -> DriftFinding:  # fmt: skip
    name = shlex.quote(line.name)
    pinned = f"{manager.pin}{shlex.quote(line.version)}" if line.version else ""
    if not line.wanted:
        field, declared, advice = "extra", "not installed", manager.remove.format(name=name)
    else:
        field = "missing" if version is None else "version"
        declared = line.version or "installed"
        advice = manager.install.format(name=name, version=pinned)
    adopt = f"in {path} line {line.number}: "
    if version is None:
        adopt += "remove it"
    else:
        adopt += f"{line.name}{'==' if manager.pin == '==' else '='}{version}"
    return DriftFinding(
        "packages", line.name, field, declared, version or "not installed", source=path,
        terminal=live.name, who=await _who(line.name, trail),
        advice=Advice(revert=advice, adopt=adopt),
    )  # fmt: skip


async def _who(package: str, trail: AuditTrail) -> Who:
    """Who last changed it, by the package manager's own logs."""
    changes = [one for one in await trail.installed() if one.package == package]
    runs = [one for one in await trail.apt_runs() if package in one.packages]
    if not changes and not runs:
        return Who()
    if not runs:
        last = changes[-1]
        return Who("unknown", "", "", last.at, f"{last.action} in dpkg.log")
    run = runs[-1]
    if any(name in run.command.lower() for name in AUTOMATIC):
        return Who("controller", run.command.split()[0], "certain", run.ended, "apt's history")
    if run.by:
        return Who("person", run.by, "certain", run.ended, f"apt's history: {run.command}")
    return Who("person", "root", "likely", run.ended, f"apt's history: {run.command}")
