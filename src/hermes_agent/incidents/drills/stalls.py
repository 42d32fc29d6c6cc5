"""Services of many houses: the same small program, laid out, told and logged differently by
chance. What is learned in one of them must hold in the others."""

import json
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.incidents import Severity, WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills.parts import Part, source
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.world import File, Program

FORMS = ("json", "toml", "yaml", "properties", "env", "flags", "variables")
STYLES = ("json", "logfmt", "syslog", "glog")
MONTH = 30 * 86400.0


class Stall(Struct, frozen=True):
    """A service, and where all of it is."""

    name: str
    port: int
    part: Part
    root: str
    code: str
    data: str
    log: str
    config: str
    """The file that tells it what to do; the supervisor's entry where no other does."""
    form: str

    @property
    def program(self) -> Program:
        return self.part.programs[0]

    @property
    def entry(self) -> str:
        return f"/etc/supervisor/conf.d/{self.name}.conf"


def stall(
    pick: Pick,
    name: str,
    port: int,
    *,
    form: str = "",
    root: str = "",
    data: str = "",
    style: str = "",
    settings: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    about: str = "keeps items",
    **program: object,
) -> Stall:
    """A service with its code, configuration, data and log, wherever this house has them."""
    form = form or pick.choice(FORMS)
    root = root or pick.choice((f"/opt/{name}", f"/srv/{name}", f"/srv/apps/{name}"))
    code = f"{root}/{pick.choice(('bin', 'lib', 'app'))}/{pick.choice(('main', 'app', 'run'))}.py"
    data = data or pick.choice((f"{root}/data", f"/var/lib/{name}", f"/data/{name}/objects"))
    log = pick.choice(
        ("", f"{root}/logs/{name}.out", f"/var/log/{name}.log", f"{root}/log/current")
    )
    told: dict[str, object] = {
        "name": name, "port": port, "data": data,
        "style": style or pick.choice(STYLES), **({"log": log} if log else {}), **(settings or {}),
    }  # fmt: skip
    config, files = _configured(form, name, root, told)
    command, more = _command(form, code, config, told, root)
    variables = dict(environment or {})
    if form == "variables":
        variables |= {f"STALL_{key.upper()}": str(value) for key, value in told.items()}
    folders = {data if not data.endswith(".db") else data.rpartition("/")[0]: 0o755}
    if log:
        folders[log.rpartition("/")[0]] = 0o755
    usual = Program(
        name=name, command=command, directory=root, environment=variables, about=about,
        ready=f"tcp:{port}", start_seconds=1,
    )  # fmt: skip
    part = Part(
        (replace(usual, **program),),
        {code: source("stall.py"), **files, **more},
        folders,
    )
    entry = f"/etc/supervisor/conf.d/{name}.conf"
    return Stall(
        name, port, part, root, code, data, log or f"/var/log/supervisor/{name}.log",
        config or entry, form,
    )  # fmt: skip


def _configured(
    form: str, name: str, root: str, told: Mapping[str, object]
) -> tuple[str, dict[str, File]]:
    match form:
        case "json":
            path, text = f"{root}/etc/{name}.json", json.dumps({"server": dict(told)}, indent=2)
        case "toml":
            lines = [f"{key} = {json.dumps(value)}" for key, value in told.items()]
            path, text = f"/etc/{name}.toml", "\n".join(["[server]", *lines])
        case "yaml":
            lines = [f"  {key}: {value}" for key, value in told.items()]
            path, text = f"{root}/config/settings.yaml", "\n".join(["server:", *lines])
        case "properties":
            lines = [f"{name}.{key}={value}" for key, value in told.items()]
            path, text = f"{root}/conf/{name}.properties", "\n".join(lines)
        case "env":
            lines = [f'STALL_{key.upper()}="{value}"' for key, value in told.items()]
            path, text = f"/etc/default/{name}", "\n".join(["# sourced by start.sh", *lines])
        case _:
            return "", {}
    return path, {path: File(text=text + "\n", age=MONTH)}


def _command(
    form: str, code: str, config: str, told: Mapping[str, object], root: str
) -> tuple[str, dict[str, File]]:
    if form == "env":
        script = f"{root}/start.sh"
        text = f"#!/bin/bash\nset -a\n. {config}\nset +a\nexec python3 {code}\n"
        return script, {script: File(text=text, mode=0o755, age=MONTH)}
    if form == "flags":
        words = [f"--{key.replace('_', '-')}={value}" for key, value in told.items()]
        return " ".join(["python3", code, *words]), {}
    return f"python3 {code}" + (f" --config {config}" if config else ""), {}


def alive(service: Stall, severity: Severity = "P1") -> WatchedCheck:
    """The check of whoever uses it: is it there, and is it the right one."""
    run = f"curl -fsS -m 3 http://127.0.0.1:{service.port}/healthz"
    return WatchedCheck(
        name=f"{service.name}-alive",
        check=Check(run=run, expect=Expect(output=f"ok {service.name}"), timeout=5.0),
        service=service.name,
        severity=severity,
    )
