"""A front, and a service that keeps its items in PostgreSQL. A data folder takes seconds to make
and is the same for all: it is made once on a machine, in a box, and kept in the cache."""

import base64
import functools
import os
import tempfile
from pathlib import Path
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.needs import find
from hermes_drills.pick import Pick
from hermes_drills.types import MONTH, File, Service, Style, World
from hermes_drills.worlds import inits
from hermes_drills.worlds.builder import Builder

NAME = "postgresql"
TOP = "/var/lib/postgresql"
DATA = f"{TOP}/data"
CONFIG = "/etc/postgresql/postgresql.conf"
BASE, USER = "items", "app"
_PACKED = "/run/postgresql.tar.gz"
_MAKE = {
    "postgres": f"create role {USER} login;\ncreate database {BASE} owner {USER};\n",
    BASE: "create table items (key text primary key, value text);\n"
    f"alter table items owner to {USER};\n",
}


def postgres(pick: Pick, style: Style) -> World:
    made = Builder("postgres", pick, style)
    front, books = pick.names(2)
    *ports, port = pick.ports(3)
    host = made.host(books)
    own = {"bind": "0.0.0.0", "dsn": f"postgres://{USER}@127.0.0.1:{port}/{BASE}"}
    _server(made, port)
    made.app(books, "ledger", {**own, "lock": f"/run/{books}.lock"}, needs=(NAME,), port=ports[1],
             program="postgres.py")  # fmt: skip
    made.app(front, "front", {"upstream": f"http://{host}:{ports[1]}"}, needs=(books,),
             port=ports[0], limits={"nofile": 96})  # fmt: skip
    return made.world(front)


def _server(made: Builder, port: int) -> None:
    settings = {
        "listen_addresses": "'127.0.0.1'", "port": port, "unix_socket_directories": "'/run'",
        "max_connections": 20, "shared_buffers": "8MB", "fsync": "off", "autovacuum": "off",
        "log_line_prefix": "'%m [%p] %a '", "timezone": "'UTC'", "log_timezone": "'UTC'",
    }  # fmt: skip
    lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
    made.needs.append("postgres")
    made.folders[TOP] = 0o700
    made.files |= {
        CONFIG: File(lines, age=MONTH), _PACKED: File(data=_packed()),
        "/opt/bin/psql": File(link=program("psql")),
    }  # fmt: skip
    made.setup.append(f"tar xzf {_PACKED} -C {TOP} --no-same-owner && rm {_PACKED}")
    command = f"{program('postgres')} -D {DATA} -c config_file={CONFIG}"
    log = inits.output_path(made.style.init, NAME)
    made.services.append(
        Service(NAME, "database", command, port, config=CONFIG, log=log, directory=TOP)
    )


def program(name: str) -> str:
    """One of the server's own version: the one on the path may be a script that looks for it."""
    found = find("postgres")
    return str(Path(found).resolve().with_name(name)) if found else f"/usr/bin/{name}"


@functools.cache
def _packed() -> bytes:
    """A data folder with an empty table, packed; nothing where there is no PostgreSQL."""
    if find("postgres") is None:
        return b""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hermes-drills"
    kept = cache / f"postgresql-{Path(program('postgres')).parent.parent.name}.tar.gz"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            new = Path(folder) / "new"
            new.write_bytes(_made(Path(folder) / "box"))
            new.replace(kept)
    return kept.read_bytes()


def _made(folder: Path) -> bytes:
    style = Style("opt", "etc", "ini", "output", "bak", "sysv")
    box = Box(folder)
    try:
        box.boot(World("empty", style, "empty", (), "", folders={"/etc/init.d": 0o755}))
        box.run(f"as-app {program('initdb')} -D {DATA} -U postgres --no-sync --wal-segsize=1 "
                "-A trust -E UTF8 --locale=C --no-instructions")  # fmt: skip
        single = f"as-app {program('postgres')} --single -D {DATA}"
        for base, sql in _MAKE.items():
            box.run(f"printf %s {quote(sql)} | {single} {base}")
        return base64.b64decode(box.run(f"tar cz -C {TOP} data | base64 -w0").stdout)
    finally:
        box.remove()
