"""Checks everything Hermes needs; each finding says how to fix it."""

import asyncio
import importlib.util
import os
import platform
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from hermes_agent.core.errors import HermesError
from hermes_agent.core.installation.extras import install_hint
from hermes_agent.core.settings.root import NOBODY_NOTIFIED, Settings
from hermes_agent.core.text.terminal import clean
from hermes_agent.core.version import __version__
from hermes_agent.host import inspect, paths
from hermes_agent.host.config import load_settings
from hermes_agent.host.distributions import NotInstalled, distributions
from hermes_agent.host.home import Home
from hermes_agent.host.paths import unit_path
from hermes_agent.models.registry import ModelRegistry
from hermes_agent.policy.files.loader import Policies, PolicyFilesInvalid
from hermes_agent.policy.secrets import Secrets
from hermes_agent.runtime.backup import owned
from hermes_agent.runtime.references import dangling_references
from hermes_agent.runtime.tools import builtin
from hermes_agent.store.store import Store
from hermes_agent.terminals.local.view import cannot_confine
from hermes_agent.terminals.registry import check, kind_of
from hermes_agent.terminals.shell.spool import Spool, process_lives

LOW_BYTES = 500_000_000
"""Warn below this much free space."""
SOURCE_SECONDS = 5.0
"""How long a production source may take to answer."""

_State = Literal["ok", "info", "warn", "fail"]
_Report = tuple[_State, str, str]
"""State, text and hint of a finding."""


class DoctorFinding(NamedTuple):
    name: str
    state: _State
    what: str
    hint: str = ""


class RunningRuntime(NamedTuple):
    """The status of a running runtime, and its store's faults."""

    status: dict[str, Any]
    faults: list[str]


def examine(
    home: Path, environ: Mapping[str, str], running: RunningRuntime | None
) -> Iterator[DoctorFinding]:
    """Run all checks, in order. `running` is None when no runtime answers."""
    yield from _machine()
    yield from _distributions()
    out_of_reach = inspect.out_of_reach(home)
    if out_of_reach is None:
        yield from _home(home)
        yield from _inside(home, environ, running)
    else:
        yield DoctorFinding("home", "fail", *out_of_reach)


def _inside(
    home: Path, environ: Mapping[str, str], running: RunningRuntime | None
) -> Iterator[DoctorFinding]:
    settings = None
    try:
        settings = load_settings(Home(home).config, environ)
    except HermesError as error:
        yield DoctorFinding("config", "fail", error.message, error.hint)
    if settings is not None:
        there = (
            "config.yaml is valid" if Home(home).config.exists() else "no config.yaml; all defaults"
        )
        wrong = list(dangling_references(home, settings))
        yield from (DoctorFinding("config", "fail", f"{name}: {error.message}", error.hint)
                    for name, error in wrong)  # fmt: skip
        if not wrong:
            yield DoctorFinding("config", "ok", there)
        yield _model(home, settings, environ)
        yield _policy(home, settings)
        yield _terminal(settings, environ)
        yield _tools(settings)
        yield from _servers(settings)
        yield from _sources(home, settings, environ)
        yield from _learning(settings, environ)
        yield from _watching(home, settings, running)
    status = running.status if running is not None else None
    told_of = check_channels(settings or Settings(), status)
    yield from (DoctorFinding("channels", *report) for report in told_of)
    yield from (DoctorFinding("jobs", *report) for report in _jobs(home, environ, status))
    yield _secrets(home, environ)
    yield _runtime(home, running, settings)
    yield from _store(home, running)
    found = _shells(home, (settings or Settings()).terminal.idle_seconds, time.time())
    yield DoctorFinding("shells", *found)


def _tools(settings: Settings) -> DoctorFinding:
    try:
        builtin.chosen(settings.tools.use)
    except HermesError as error:
        return DoctorFinding("tools", "fail", f"tools.use: {error.message}", error.hint)
    found = builtin.facts(settings)
    lacking = [f"{one.name} needs {one.missing}" for one in found if one.missing]
    if not lacking:
        return DoctorFinding("tools", "ok", f"{len(found)} built in, all usable")
    return DoctorFinding(
        "tools", "info", f"{len(found)} built in; not offered: {'; '.join(lacking)}"
    )


def _servers(settings: Settings) -> Iterator[DoctorFinding]:
    """Does not connect: `hermes mcp test` does that."""
    names = [name for name, server in settings.mcp.items() if server.enabled]
    if names and importlib.util.find_spec("mcp") is None:
        yield DoctorFinding(
            "mcp", "fail", "the library for MCP servers is not installed",
            install_hint("mcp"),
        )  # fmt: skip
    elif names:
        listed = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
        yield DoctorFinding(
            "mcp", "ok", f"servers: {listed}; `hermes mcp test NAME` connects to one"
        )


def _sources(home: Path, settings: Settings, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Asks each whether it answers."""
    if not any(one.enabled for one in settings.sources.values()):
        hint = "`hermes sources discover`, `hermes sources add KIND URL`"
        yield DoctorFinding("sources", "info", "the agent can look at no production source", hint)
        return
    from hermes_agent.runtime.sources import verify_all

    quick = {name: replace(one, timeout_seconds=min(one.timeout_seconds, SOURCE_SECONDS))
             for name, one in settings.sources.items()}  # fmt: skip
    asked = verify_all(replace(settings, sources=quick), Secrets(environ, home).get, time.time)
    for one in asyncio.run(asked):
        what = f"{one.name} ({one.kind}): {one.what}"
        yield DoctorFinding("sources", "ok" if one.ok else "warn", what, one.hint)


def _learning(settings: Settings, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Which model reviews, and what is configured but cannot work."""
    learning, memory = settings.learning, settings.memory
    named = settings.models.uses.review or settings.models.uses.cheap
    if learning.notes == learning.skills == "off":
        yield DoctorFinding("learning", "info", "reviews are off (learning.notes, learning.skills)")
    elif not named and settings.model.startswith("scripted/"):
        yield DoctorFinding(
            "learning", "info", "no reviews: a scripted model cannot review",
            "choose a model: `hermes model use review NAME`",
        )  # fmt: skip
    else:
        who = ", ".join(named) if named else "the main model"
        most = f"{learning.day_tokens:,} tokens or ${learning.day_dollars:g} a day"
        yield DoctorFinding("learning", "ok", f"reviews by {who}, at most {most}")
    if learning.semantic and importlib.util.find_spec("wordllama") is None:
        yield DoctorFinding(
            "recall", "fail", "semantic recall is on, but its library is not installed",
            install_hint("semantic"),
        )  # fmt: skip
    key = f"{memory.provider.upper()}_API_KEY"
    if memory.provider and not memory.address and not environ.get(key):
        yield DoctorFinding(
            "memory", "warn", f"{memory.provider} is the memory provider, but {key} is not set",
            f"set {key}, or put it into .env in the home",
        )  # fmt: skip
    elif memory.provider:
        yield DoctorFinding(
            "memory", "ok", f"{memory.provider} is used besides the built-in memory"
        )


def _watching(
    home: Path, settings: Settings, running: RunningRuntime | None
) -> Iterator[DoctorFinding]:
    from hermes_agent.incidents.monitoring.config import CheckFiles
    from hermes_agent.incidents.monitoring.topology import load

    loaded = CheckFiles(home / "checks").load()
    wrong = [(f"checks/{one}", one.hint) for one in loaded.problems]
    wrong += [(str(one), one.hint) for one in load(home)[1]]
    for what, hint in wrong:
        yield DoctorFinding("watch", "fail", what, hint)
    report = ((running.status.get("watch") if running else None) or {}).get("troubles", ())
    for trouble in set(report) - {f"{what} ({hint})" for what, hint in wrong}:
        yield DoctorFinding("watch", "fail", trouble)
    if settings.watch.listen and not settings.watch.token:
        yield DoctorFinding("watch", "fail", "watch.listen is set, but watch.token is not",
                      "`hermes config set watch.token NAME`")  # fmt: skip
    count = f"checks: {len(loaded.checks)}, log patterns: {len(loaded.logs)}"
    if not loaded.entries and not settings.watch.listen:
        yield DoctorFinding("watch", "info", "nothing is watched",
                            "`hermes watch install` proposes checks")  # fmt: skip
    elif loaded.entries and running is None:
        yield DoctorFinding("watch", "warn", f"{count}, but no runtime runs them", "`hermes up`")
    elif loaded.entries:
        yield DoctorFinding("watch", "ok", f"{count}; they keep the runtime running")
    if (loaded.entries or settings.watch.listen) and not settings.watch.notifies:
        yield DoctorFinding("watch", "warn", *NOBODY_NOTIFIED)


def _machine() -> Iterator[DoctorFinding]:
    version = platform.python_version()
    yield (
        DoctorFinding("python", "ok", f"Python {version}")
        if sys.version_info >= (3, 11)
        else DoctorFinding(
            "python", "fail", f"Python {version} is too old", "install 3.11 or newer"
        )
    )
    bash = shutil.which("bash")
    if bash is None:
        yield DoctorFinding("bash", "fail", "bash is not installed", "install it; commands need it")
        return
    report = subprocess.run(
        [bash, "-c", 'printf "%s %s" "${BASH_VERSINFO[0]}" "$BASH_VERSION"'],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    if len(report) == 2 and report[0].isdigit() and int(report[0]) >= 5:
        yield DoctorFinding("bash", "ok", f"bash {report[1]}")
    else:
        yield DoctorFinding("bash", "fail", f"{bash} is older than 5.0", "install bash 5 or newer")


def _home(home: Path) -> Iterator[DoctorFinding]:
    if not home.exists():
        yield DoctorFinding("home", "ok", f"{home} does not exist yet; created on first use")
        return
    trouble = inspect.home_trouble(home)
    if trouble is not None:
        yield DoctorFinding("home", "fail", *trouble)
        return
    facts = home.stat()
    if facts.st_uid != os.getuid():
        yield DoctorFinding("home", "warn", f"{home} belongs to another user", f"chown it: {home}")
    elif stat.S_IMODE(facts.st_mode) & 0o077:
        yield DoctorFinding("home", "warn", f"other users can read {home}", f"chmod 700 {home}")
    else:
        yield DoctorFinding("home", "ok", f"{home}, private and writable")
    room = inspect.free_bytes(home)
    what = f"{room / 1e9:.1f} GB free"
    yield (
        DoctorFinding("disk", "ok", what)
        if room >= LOW_BYTES
        else DoctorFinding("disk", "warn", what, "free some space before it is full")
    )


def _model(home: Path, settings: Settings, environ: Mapping[str, str]) -> DoctorFinding:
    try:
        models = ModelRegistry(settings.models, Secrets(environ, home).beside(environ), home)
        models.check(settings.model)
        for name in settings.models.fallbacks:
            models.check(name)
    except HermesError as error:
        return DoctorFinding("model", "fail", error.message, error.hint)
    if models.catalogue.trouble:
        return DoctorFinding("model", "warn", models.catalogue.trouble, "`hermes model refresh`")
    if models.catalogue.stale(time.time()):
        old = f"the model catalogue is from {models.catalogue.date}; prices may have changed"
        return DoctorFinding("model", "warn", old, "`hermes model refresh`")
    others = f" and {len(settings.models.fallbacks)} more" if settings.models.fallbacks else ""
    return DoctorFinding("model", "ok", f"{settings.model}{others}; ready")


def _policy(home: Path, settings: Settings) -> DoctorFinding:
    policies = Policies.of_home(home, Path.home())
    try:
        policies.rules(settings.policy)
    except PolicyFilesInvalid as error:
        return DoctorFinding(
            "policy", "fail", f"every effect is denied: {error.message}", error.hint
        )
    except HermesError as error:
        return DoctorFinding("policy", "fail", error.message, error.hint)
    own = len(policies.load().own)
    return DoctorFinding("policy", "ok", f"{settings.policy}; policy files of your own: {own}")


def _terminal(settings: Settings, environ: Mapping[str, str]) -> DoctorFinding:
    name = settings.terminal.default
    place = settings.places.get(name)
    if place is None:
        there = ", ".join(settings.places)
        return DoctorFinding(
            "terminal", "fail", f"no terminal called {name!r}", f"available: {there}"
        )
    kind = kind_of(place)
    missing = asyncio.run(check(kind.name, place, environ))
    if missing:
        return DoctorFinding(
            "terminal", "fail", f"{name}: {missing}", "`hermes terminals` lists others"
        )
    if settings.policy == "sandbox" and not kind.confined:
        what = f"the profile sandbox allows everything, and {name} confines nothing"
        return DoctorFinding(
            "terminal", "warn", what, "`hermes config set terminal.default sandbox`"
        )
    if kind.name == "local" and (why := cannot_confine(environ)):
        what = "ask" if settings.terminal.confine == "required" else "rely on the rules alone"
        return DoctorFinding(
            "terminal", "warn", f"commands that should run confined {what}: {why}",
            "install bubblewrap, not set-user-ID, and allow user namespaces (`sysctl"
            " kernel.unprivileged_userns_clone=1`), or see `terminal.confine`",
        )  # fmt: skip
    return DoctorFinding("terminal", "ok", f"{name}: {kind.summary}")


def _secrets(home: Path, environ: Mapping[str, str]) -> DoctorFinding:
    """An invalid `.env` keeps the runtime from starting."""
    try:
        count = len(Secrets(environ, home).names())
    except HermesError as error:
        return DoctorFinding("secrets", "fail", error.message, error.hint)
    return DoctorFinding(
        "secrets", "ok", f"{count} known; a command sees one only if a rule grants it"
    )


def _runtime(
    home: Path, running: RunningRuntime | None, settings: Settings | None
) -> DoctorFinding:
    if running is not None:
        return _answering(running.status, settings)
    owner = inspect.lock_owner(str(home))
    sockets = [path for path in map(Path, paths.socket_paths(str(home))) if path.exists()]
    if owner is not None and sockets:
        return DoctorFinding(
            "runtime",
            "fail",
            f"pid {owner} owns the home but does not answer",
            f"`hermes logs` may show why; `kill {owner}` ends it",
        )
    if owner is not None:
        return DoctorFinding("runtime", "ok", f"none; another program (pid {owner}) uses the home")
    if sockets:
        return DoctorFinding(
            "runtime",
            "warn",
            f"stopped, but its socket {sockets[0]} is still there: it was killed",
            "`hermes up` starts it again and resumes unfinished work",
        )
    return DoctorFinding("runtime", "ok", "stopped; commands start it when they need it")


def _answering(status: dict[str, Any], settings: Settings | None) -> DoctorFinding:
    if status["state"] == "degraded":
        return DoctorFinding("runtime", "fail", f"degraded: {status['reason']}", status["hint"])
    stale = []
    if status["version"] != __version__:
        stale.append(f"version {status['version']}, this is {__version__}")
    for name in ("model", "policy"):
        wanted = getattr(settings, name, status[name])
        if status[name] != wanted:
            stale.append(f"{name} {status[name]!r}, the settings say {wanted!r}")
    if stale:
        return DoctorFinding("runtime", "warn", f"runs with {'; '.join(stale)}", "`hermes restart`")
    return DoctorFinding("runtime", "ok", f"{status['state']}, pid {status['pid']}")


def _store(home: Path, running: RunningRuntime | None) -> Iterator[DoctorFinding]:
    if running is not None:
        yield _soundness(home, running.faults)
        counts = running.status["parked"] or 0, running.status["questions"] or 0
    elif not (home / "state.db").exists() and not (home / "store.id").exists():
        yield DoctorFinding("store", "ok", "none yet; it is created with the first message")
        return
    elif inspect.lock_owner(str(home)) is not None:
        yield DoctorFinding("store", "warn", "not checked: the home is in use", "try again later")
        return
    else:
        try:
            with owned(Home(home)):
                faults, *rest = asyncio.run(_look_inside(home))
        except HermesError as error:
            yield DoctorFinding("store", "fail", error.message, error.hint)
            return
        yield _soundness(home, faults)
        counts = rest[0], rest[1]
    yield _count("parked", counts[0], "effects with an unknown outcome", "`hermes parked`")
    yield _count("questions", counts[1], "open questions", "`hermes approvals`")


async def _look_inside(home: Path) -> tuple[list[str], int, int]:
    store = await Store.open(home, readonly=True)
    try:
        faults = list(await store.check())
        if faults:
            return faults, 0, 0
        return [], len(await store.parked()), len(await store.questions())
    finally:
        await store.close()


def _soundness(home: Path, faults: list[str]) -> DoctorFinding:
    if not faults:
        return DoctorFinding("store", "ok", "no damage")
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    trouble = inspect.home_trouble(home)
    if trouble is not None and inspect.database_trouble(home) is None:
        return DoctorFinding("store", "fail", faults[0] + more, "fix the home first")
    return DoctorFinding("store", "fail", faults[0] + more, "`hermes restore` restores a backup")


def _count(name: str, count: int, what: str, command: str) -> DoctorFinding:
    if not count:
        return DoctorFinding(name, "ok", "none")
    return DoctorFinding(name, "warn", f"{count} {what}", f"{command} lists them")


def _distributions() -> Iterator[DoctorFinding]:
    for package, part in distributions().items():
        if importlib.util.find_spec(package) is None:
            missing = NotInstalled(package)
            yield DoctorFinding("packages", "info", missing.message, missing.hint)
        else:
            yield DoctorFinding("packages", "ok", f"{part.distribution} is installed")


def check_channels(settings: Settings, status: dict[str, Any] | None) -> Iterator[_Report]:
    """`status` is that of a running runtime."""
    if status is None:
        names = [name for name, given in settings.channels.items() if given.get("enabled", True)]
        if names:
            listed = ", ".join(sorted(names))
            yield "warn", f"not listening on {listed}: the runtime is not running", "`hermes up`"
        return
    gateway = status.get("gateway") or {}
    for name, row in (gateway.get("left") or {}).items():
        what = f"{name} is no longer configured; messages left: {sum(row.values())}"
        yield "warn", what, f"`hermes gateway setup {name}`, or `hermes gateway dead --drop all`"
    for name, row in (gateway.get("channels") or {}).items():
        yield _channel(name, row)
        for unknown in row.get("unknown", ()):
            what = f"{name}: no setting is called channels.{name}.{unknown}"
            yield "warn", what, "check the spelling in config.yaml"
        if row.get("asks") == []:
            yield (
                "warn", f"{name}: no one can approve requests: no home chat, no owner",
                f"`hermes gateway pair {name} --role owner`, or set channels.{name}.home",
            )  # fmt: skip
        if row.get("dead") or row.get("set_aside"):
            given_up = row["dead"] + row["set_aside"]
            yield "warn", f"{name}: {given_up} undeliverable", "`hermes gateway dead` lists them"


def _channel(name: str, row: dict[str, Any]) -> _Report:
    state, says, error = row["state"], clean(row.get("says", "")), clean(row["error"])
    if state == "up":
        return ("ok", f"{name}: {says}", "") if row["well"] else (
            ("info", f"{name}: not checked yet: {says}", f"`hermes gateway test {name}`")
        )  # fmt: skip
    what = f"{name}: {state}: {error or says}"
    if state in ("starting", "waiting"):
        return "warn", what, row["hint"] or f"`hermes gateway test {name}` tries it"
    return "fail", what, row["hint"] or f"`hermes gateway test {name}`; see `hermes logs`"


def _jobs(
    home: Path, environ: Mapping[str, str], status: dict[str, Any] | None
) -> Iterator[_Report]:
    """`status` is that of a running runtime."""
    try:
        report = status.get("jobs") if status is not None else _offline_jobs(home)
    except HermesError:  # another check reports the store
        return
    if not report or not (report["active"] or report["paused"]):
        return
    for trouble in report["troubles"]:
        yield "fail", trouble, "`hermes task check`"
    for run in report.get("parked", ()):
        yield (
            "warn", f"run {run['run']} of {run['name']} is waiting for a decision",
            "`hermes parked`" if run.get("session") else (
                f"`hermes task decide {run['run']} done|again|failed`"
            ),
        )  # fmt: skip
    for run in report.get("running", ()):
        if run.get("waits"):
            yield "warn", f"run {run['run']} of {run['name']}: {run['waits']}", "`hermes approvals`"
    for name in report.get("failing", ()):
        yield "warn", f"the job {name} is failing", f"`hermes task show {name}`"
    if report["active"] and status is None:
        some = f"{report['active']} active, but the runtime is stopped: due runs are missed"
        yield "warn", some, "`hermes up`"
    if report["active"] and not Path(unit_path(environ)).exists():
        yield (
            "warn", "nothing starts Hermes after a reboot, so jobs may be missed",
            "`hermes watch install`, or let your service manager run `hermes serve`",
        )  # fmt: skip
    else:
        yield "ok", f"{report['active']} active, {report['paused']} paused", ""


def _offline_jobs(home: Path) -> dict[str, Any] | None:
    if not (home / "state.db").exists() or inspect.lock_owner(str(home)) is not None:
        return None
    with owned(Home(home)):
        return asyncio.run(_read_jobs(home))


async def _read_jobs(home: Path) -> dict[str, Any]:
    from hermes_agent.jobs import consistency

    store = await Store.open(home, readonly=True)
    try:
        jobs = await store.jobs.jobs()
        # Slots missed while no runtime was up get their rows at its next start.
        seen = max((job.planned for job in jobs), default=0.0)
        return {
            "active": sum(job.state == "active" for job in jobs),
            "paused": sum(job.state == "paused" for job in jobs),
            "failing": [job.spec.name or job.id for job in jobs if job.failures],
            "troubles": await consistency.check(store.jobs, seen) if jobs else [],
        }
    finally:
        await store.close()


def _shells(home: Path, idle_seconds: float, now: float) -> _Report:
    """Idle shells end by themselves, so an old one is stuck."""
    held, stuck = 0, []
    for note in sorted((home / "terminals").glob("*/local/daemon.*")):
        words = _words_in(note)
        if len(words) < 2 or not words[0].isdigit() or not process_lives(int(words[0]), words[1]):
            continue
        held += 1
        last = Spool(note.parent).now()
        ended = note.parent / f"{last}.r"
        since = ended.stat().st_mtime if last and ended.exists() else now
        if now - since > 2 * idle_seconds + 60:
            stuck.append(words[0])
    if stuck:
        pids = ", ".join(stuck)
        return "warn", f"idle for too long: pid {pids}", f"kill {pids}"
    return "ok", f"{held} open for sessions; they end when idle" if held else "none open", ""


def _words_in(note: Path) -> list[str]:
    try:
        return note.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return []  # its shell has just ended
