"""Worlds of several services: what one keeps is asked for through another."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from shlex import quote
from typing import Any

from msgspec import Struct

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Program, World

MONTH = 30 * 86400.0


class Part(Struct, frozen=True):
    """A program with what is its own."""

    program: Program
    files: Mapping[str, File]
    folders: Mapping[str, int] = {}
    setup: tuple[str, ...] = ()


OURS = "hermes_agent.incidents.drills.services."


def program_text(name: str) -> str:
    """A program as it stands in a box, beside those that it uses."""
    text = (files("hermes_agent.incidents.drills") / "services" / name).read_text("utf-8")
    return text.replace(OURS, "")


def configuration(name: str, settings: Mapping[str, object]) -> str:
    lines = [f"{key} = {value}" for key, value in {"name": name, **settings}.items()]
    return "\n".join(["[service]", *lines, ""])


def configured(name: str) -> str:
    """Where the configuration of a service is."""
    return f"/etc/{name}/{name}.conf"


def items(
    name: str,
    port: int,
    settings: Mapping[str, object],
    *,
    code: str = "",
    needs: Sequence[str] = (),
    node: str = "",
    environment: Mapping[str, str] | None = None,
    autorestart: bool = True,
    bind: str = "127.0.0.1",
) -> Part:
    """The service that keeps items, or asks another for them."""
    keeps = not {"upstream", "database"} & set(settings)
    own: dict[str, object] = {"bind": bind, "port": port, "log": f"/var/log/{name}/{name}.log"}
    if keeps:
        own["data"] = f"/var/lib/{name}"
    return Part(
        Program(
            name=name,
            command=f"python3 {code or f'/srv/{name}/server.py'} {configured(name)}",
            directory=f"/srv/{name}",
            environment=dict(environment or {}),
            autorestart=autorestart,
            needs=tuple(needs),
            node=node,
            ready=f"tcp:{port}" if bind == "127.0.0.1" else f"file:/var/log/{name}/{name}.log",
            about=f"configuration {configured(name)}, log /var/log/{name}/{name}.log",
        ),
        {
            configured(name): File(configuration(name, {**own, **settings}), age=MONTH),
            **({} if code else items_code(f"/srv/{name}")),
        },
        {f"/var/log/{name}": 0o755, f"/srv/{name}": 0o755}
        | ({f"/var/lib/{name}": 0o700} if keeps else {}),
    )


def items_code(folder: str) -> dict[str, File]:
    """The program of such a service, with what it uses."""
    names = {"server.py": "items.py", "common.py": "common.py"}
    return {f"{folder}/{own}": File(program_text(n), age=MONTH) for own, n in names.items()}


def joined(
    parts: Sequence[Part],
    *,
    files: Mapping[str, File] | None = None,
    folders: Mapping[str, int] | None = None,
    setup: Sequence[str] = (),
    **more: Any,
) -> World:
    every_file: dict[str, File] = {}
    every_folder: dict[str, int] = {}
    lines: list[str] = []
    for part in parts:
        every_file |= part.files
        every_folder |= part.folders
        lines += part.setup
    return World(
        programs=tuple(part.program for part in parts),
        files=every_file | dict(files or {}),
        folders=every_folder | dict(folders or {}),
        setup=(*lines, *setup),
        **more,
    )


def nginx(sites: Mapping[str, str], needs: Sequence[str], ready: int) -> Part:
    """nginx, with a file for each site."""
    main = """daemon off;
user root root;
worker_processes 1;
pid /run/nginx.pid;
error_log /var/log/nginx/error.log;

events {
    worker_connections 128;
}

http {
    access_log /var/log/nginx/access.log;
    client_body_temp_path /var/lib/nginx/body;
    proxy_temp_path /var/lib/nginx/proxy;
    fastcgi_temp_path /var/lib/nginx/fastcgi;
    uwsgi_temp_path /var/lib/nginx/uwsgi;
    scgi_temp_path /var/lib/nginx/scgi;
    proxy_read_timeout 2s;

    include /etc/nginx/sites-enabled/*.conf;
}
"""
    return Part(
        Program(
            name="nginx",
            command="nginx",
            needs=tuple(needs),
            ready=f"tcp:{ready}",
            about="sites in /etc/nginx/sites-enabled, logs in /var/log/nginx",
        ),
        {"/etc/nginx/nginx.conf": File(main, age=MONTH)}
        | {site_file(name): File(text, age=MONTH) for name, text in sites.items()},
        {"/var/log/nginx": 0o755, "/var/lib/nginx": 0o755},
    )


def site_file(name: str) -> str:
    return f"/etc/nginx/sites-enabled/{name}.conf"


def old_lines(path: str, lines: Mapping[int, str]) -> tuple[str, ...]:
    """Lines of a log that were written so many minutes ago."""
    return tuple(
        f"echo \"$(date -d '-{minutes} min' '+%F %T')\" {quote(text)} >> {path}"
        for minutes, text in sorted(lines.items(), reverse=True)
    )


class Pair(Struct, frozen=True, kw_only=True):
    """A front that asks a store for what it keeps, and a service that has nothing to do with it."""

    variant: str
    front: str
    front_port: int
    store: str
    store_port: int
    beside: str
    beside_port: int
    host: str
    secret: str


def pair(pick: Pick, variant: str) -> dict[str, Any]:
    """The fields of a `Pair`."""
    front, store, beside = pick.services(3)
    ports = pick.ports(3)
    return {
        "variant": variant, "front": front, "front_port": ports[0], "store": store,
        "store_port": ports[1], "beside": beside, "beside_port": ports[2], "host": pick.host(),
        "secret": pick.token(24),
    }  # fmt: skip


def secret_of(name: str) -> str:
    """Where a service keeps what it signs with."""
    return f"/etc/{name}/secret"


def kept(plan: Pair) -> dict[str, str]:
    """What the store has kept for long, by its keys."""
    return {f"order-{plan.secret[at : at + 4]}": plan.secret[at:] * 40 for at in range(0, 12, 3)}


def pair_parts(
    plan: Pair,
    *,
    upstream: str = "",
    front: Mapping[str, object] | None = None,
    store: Mapping[str, object] | None = None,
    **more: Any,
) -> list[Part]:
    """The three services; `more` is for the store's program."""
    upstream = upstream or f"http://127.0.0.1:{plan.store_port}"
    asking = {"upstream": upstream, "timeout": 1.0, **(front or {})}
    return [
        items(plan.front, plan.front_port, asking, needs=[plan.store]),
        items(plan.store, plan.store_port, store or {}, **more),
        items(plan.beside, plan.beside_port, {}),
    ]


def kept_files(plan: Pair) -> dict[str, File]:
    return {
        f"/var/lib/{plan.store}/{k}": File(v, mode=0o600, age=MONTH) for k, v in kept(plan).items()
    }


def lost(probe: Probe, plan: Pair) -> list[str]:
    """What was kept for long and is not as it was, and who does not work that should."""
    wrong = [
        f"{path} is not what it was"
        for path, file in kept_files(plan).items()
        if probe.read(path) != file.text.encode()
    ]
    if said := probe.keeps(plan.beside_port):
        wrong.append(f"{plan.beside} does not work: {said}")
    return wrong


def gone(probe: Probe, *names: str) -> list[str]:
    """Programs below /srv that should run and do not."""
    running = [process.command for process in probe.processes()]
    return [f"{n} does not run" for n in names if not any(f"/srv/{n}/" in c for c in running)]


def changed(probe: Probe, before: Mapping[str, str]) -> list[str]:
    """Files, by their path, that do not have the hash that they had."""
    return [f"{p} was changed" for p, was in before.items() if probe.sha256(p) != was]


def until_broken(box: Box, check: WatchedCheck) -> None:
    """Wait until what was done is felt."""
    box.run(f"while {check.check.run} >/dev/null; do sleep 0.05; done", seconds=30)


def answers(service: str, port: int, url: str = "") -> WatchedCheck:
    """What is watched in nearly all of these worlds: whether the service does its work."""
    url = url or f"http://127.0.0.1:{port}/ready"
    return WatchedCheck(
        f"{service}-answers", Check(f"curl -fs -m 3 {url}", timeout=8), service, severity="P1"
    )
