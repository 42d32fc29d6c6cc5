"""Worlds in other houses than the first: the same small service with its settings in any format and
place, and its log in any style."""

import json
from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_agent.core.incidents import Severity, WatchedCheck
from hermes_agent.core.skills import Check
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Program

STYLES = ("json", "logfmt", "syslog", "python", "go")
FORMS = ("json", "yaml", "env", "flags", "environment", "properties")
CODE = "/opt/porter/lib"


def porter(
    name: str,
    port: int,
    backend: str,
    *,
    form: str,
    style: str,
    log: str = "",
    more: Mapping[str, object] | None = None,
    needs: Sequence[str] = (),
    autorestart: bool = True,
    bind: str = "127.0.0.1",
    node: str = "",
    about: str = "",
) -> tiers.Part:
    """`log`: its own file; without one it goes where the supervisor puts what programs say."""
    own: dict[str, object] = {
        "name": name, "listen": f"{bind}:{port}", "backend": backend, "style": style,
        **({"log_file": log} if log else {}), **(more or {}),
    }  # fmt: skip
    run, files, environment = _set_up(name, own, form)
    folders = {log.rpartition("/")[0]: 0o755} if log else {}
    if backend.startswith("/"):
        folders[backend] = 0o755
    return tiers.Part(
        Program(
            name=name,
            command=run,
            environment=environment,
            autorestart=autorestart,
            needs=tuple(needs),
            node=node,
            about=about,
            ready=f"tcp:{port}" if bind == "127.0.0.1" else "",
        ),
        {**files, **code("porter.py", "items.py", "common.py")},
        folders,
    )


def code(*names: str) -> dict[str, File]:
    return {f"{CODE}/{n}": File(tiers.program_text(n), age=tiers.MONTH) for n in names}


def settings_file(name: str, form: str) -> str:
    """Where its settings are."""
    return {
        "json": f"/opt/{name}/conf/settings.json", "yaml": f"/srv/{name}/config.yml",
        "env": f"/etc/default/{name}", "properties": f"/opt/etc/{name}.properties",
    }.get(form, f"/etc/supervisor/conf.d/{name}.conf")  # fmt: skip


def _set_up(
    name: str, own: Mapping[str, object], form: str
) -> tuple[str, dict[str, File], dict[str, str]]:
    """What is run, files and environment."""
    run, path = f"python3 {CODE}/porter.py", settings_file(name, form)
    if form == "flags":
        flags = (f"--{k.replace('_', '-')}={quote(str(v))}" for k, v in own.items())
        return f"{run} {' '.join(flags)}", {}, {}
    if form == "environment":
        return run, {}, {f"PORTER_{k.upper()}": str(v) for k, v in own.items()}
    if form == "env":
        text = "".join(f'PORTER_{k.upper()}="{v}"\n' for k, v in own.items())
        script = f"#!/bin/sh\nset -a\n. {path}\nset +a\nexec {run}\n"
        start = f"/opt/{name}/bin/start"
        files = {path: File(text, age=tiers.MONTH), start: File(script, mode=0o755)}
        return start, files, {}
    return f"{run} {path}", {path: File(settings_text(own, form), age=tiers.MONTH)}, {}


def settings_text(own: Mapping[str, object], form: str) -> str:
    groups: dict[str, dict[str, object]] = {"app": {}, "storage": {}, "logging": {}}
    for key, value in own.items():
        group = {"name": "app", "listen": "app", "style": "logging", "log_file": "logging"}
        groups[group.get(key, "storage")][key] = value
    if form == "json":
        return json.dumps(groups, indent=2) + "\n"
    if form == "yaml":
        rows = [
            row
            for group, pairs in groups.items()
            for row in (f"{group}:", *(f"  {k}: {v}" for k, v in pairs.items()))
        ]
        return "# managed by hand\n" + "\n".join(rows) + "\n"
    rows = [f"{group}.{k}={v}" for group, pairs in groups.items() for k, v in pairs.items()]
    return "\n".join(rows) + "\n"


def lines(name: str, port: int, *, most: int = 100, autorestart: bool = True) -> tiers.Part:
    """A server of lines, as a cache or a store."""
    path, dump = f"/etc/{name}.conf", f"/var/lib/{name}/dump"
    text = f"# {name}\nport {port}\nbind 127.0.0.1\nmaxclients {most}\ndump {dump}\n"
    return tiers.Part(
        Program(
            name=name,
            command=f"python3 {CODE}/lines.py {path}",
            autorestart=autorestart,
            about=f"keeps values in memory, port {port}",
            ready=f"tcp:{port}",
        ),
        {path: File(text, age=tiers.MONTH), **code("lines.py")},
        {f"/var/lib/{name}": 0o755},
    )


def status(service: str, port: int, severity: Severity = "P1", seconds: float = 3) -> WatchedCheck:
    """Whether it writes a value and reads it."""
    run = f"curl -fsS -m {seconds:g} http://127.0.0.1:{port}/status"
    return WatchedCheck(f"{service}-status", Check(run, timeout=8), service, severity=severity)


def quick(probe: Probe, port: int, seconds: float) -> str:
    """Why a value cannot be written and read in time; empty where it can."""
    reply = probe.http(port, "/status", timeout=seconds)
    return "" if reply.status == 200 else f"port {port} is not quick: {reply.error or reply.status}"


def any_style(pick: Pick) -> str:
    return pick.choice(STYLES)
