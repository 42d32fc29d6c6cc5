"""In a house of its own: workers of nginx that outlived their master and keep its port, and a
second cluster of PostgreSQL at the port of the first."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import database, tiers, yard
from hermes_agent.incidents.drills import workshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth


def _site(port: int, target: int) -> str:
    return f"""upstream app_{target} {{
    server 127.0.0.1:{target};
}}

server {{
    listen 127.0.0.1:{port};

    location / {{
        proxy_pass http://app_{target};
    }}
}}
"""


def _orphans(probe: Probe) -> str:
    """Whether workers of nginx are left whose master is gone."""
    running = [process for process in probe.processes() if process.name == "nginx"]
    masters = {process.pid for process in running if "master" in process.command}
    left = [one for one in running if "worker" in one.command and one.parent not in masters]
    return "workers of an nginx that is gone are left" if left else ""


def orphaned_workers(pick: Pick) -> Scene:
    (main, other), (port, was, now, other_port) = pick.services(2), pick.ports(4)
    kept, site, settings = house.rows(pick), tiers.site_file(main), house.env_of(main)
    world = tiers.joined(
        [
            house.app(main, was, rows=kept, ready=f"file:{house.log_of(main)}"),
            house.app(other, other_port),
            house.nginx({main: _site(port, was)}, (main,), port, start_seconds=3),
        ],
        files={**house.history(main, pick), **house.history(other, pick)},
        hostname=pick.host(),
    )

    def inject(box: Box) -> None:
        master = box.run("supervisorctl pid nginx").stdout.strip()
        box.run(f"sed -i 's/^PORT=.*/PORT={now}/' {settings}; supervisorctl restart {main}")
        box.wait(f"tcp:{now}")
        box.run(f"sed -i 's/{was}/{now}/g' {site}")
        box.run(house.noted(f"{main} moved from port {was} to {now}"))
        box.run(f"kill -9 {master}")

    free = "pkill -x nginx; sleep 0.5"
    return Scene(
        world=world,
        check=house.reads(main, port, kept),
        healthy=lambda probe: said(
            house.keeps(probe, port), house.minded(probe, "nginx", "/etc"),
            house.minded(probe, main), _orphans(probe),
        ),
        truth=Truth(
            ("nginx",), ("port-conflict",),
            r"worker|orphan|nginx.*(pid|process) *\d+|(pid|process) *\d+.*nginx",
            rf"Address already in use|still could not bind|LISTEN.*:{port}\b.*nginx"
            r"|nginx: worker process",
        ),
        inject=inject,
        fix=("supervisorctl stop nginx", free, "supervisorctl start nginx"),
        wrong={
            "nginx is only started again": ["supervisorctl restart nginx"],
            "the service goes back to its old port": [
                f"sed -i 's/^PORT=.*/PORT={was}/' {settings}", f"supervisorctl restart {main}",
                "sleep 0.5",
            ],
            "nginx is moved to another port": [
                f"sed -i 's/:{port};/:{port + 1};/' {site}", "supervisorctl restart nginx",
            ],
        },
        stays=(house.code_of(main),),
        runs=(house.code_of(main), house.code_of(other)),
        harm=lambda probe: said(
            house.keeps(probe, other_port), house.lost(probe, house.base_of(main), kept)
        ),
    )  # fmt: skip


class _Next:
    """A second cluster of PostgreSQL, fresh, that a newer package has set up."""

    def __init__(self, pick: Pick, port: int, server: str) -> None:
        self.name = f"postgres-{pick.choice(('next', 'new', 'trial'))}"
        self.data = f"/var/lib/{self.name}/data"
        self.settings = f"/etc/postgresql/{self.name}.conf"
        settings = {
            "port": port, "listen_addresses": "'127.0.0.1'", "shared_buffers": "8MB",
            "unix_socket_directories": "'/run'", "max_connections": 20, "fsync": "off",
        }  # fmt: skip
        text = "".join(f"{key} = {value}\n" for key, value in settings.items())
        packed = f"/var/lib/{self.name}/new.tar.gz"
        self.part = tiers.Part(
            Program(
                name=self.name, command=f"{server} -D {self.data} -c config_file={self.settings}",
                ready=f"file:{self.data}/postmaster.pid",
                about=f"a newer PostgreSQL, empty as yet; settings {self.settings}",
            ),
            {
                packed: File(data=database.packed()),
                self.settings: File(text, age=tiers.MONTH),
            },
            {f"/var/lib/{self.name}": 0o700},
            (f"cd /var/lib/{self.name} && tar xzf {packed} --no-same-owner && rm {packed}",),
        )  # fmt: skip


def second_cluster(pick: Pick) -> Scene:
    (owner, other), (port, next_port, other_port) = pick.services(2), pick.ports(3)
    base, now = yard.Base(pick, owner, port), f"{pick.size(17, 18)}.{pick.size(1, 9)}"
    main = base.server(start_seconds=1)
    beside = _Next(pick, next_port, main.program.command.partition(" ")[0])
    world = tiers.joined(
        [main, beside.part, house.app(other, other_port)],
        files={"/var/log/apt/history.log": File(f"Upgrade: postgresql-client ({now})\n", age=9e5),
               **house.history(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    asks = f'{base.psql} -c "select count(*) from {base.table}" 2>&1'.replace("postgres ", "app ")
    port_is = f"sed -i 's/^port = .*/port = {{}}/' {beside.settings}"
    anew = f"supervisorctl restart {beside.name}"
    adds = f"insert into {base.table} values ('new-' || gen_random_uuid(), 'x') returning key"

    def healthy(probe: Probe) -> list[str]:
        writes = "new-" in base.ask(probe, adds)
        return said(
            base.lost(probe), "" if writes else "nothing can be written",
            house.minded(probe, "postgresql", "/var/lib"),
        )  # fmt: skip

    return Scene(
        world=world,
        check=WatchedCheck(
            f"{base.name} has its rows", Check(asks, Expect(output=r"^\d+$"), timeout=8.0),
            database.NAME, severity="P1",
        ),
        healthy=healthy,
        truth=Truth(
            (database.NAME, beside.name), ("port-conflict", "bad-config"), beside.name,
            rf"Address already in use|could not bind|another postmaster|{beside.name}",
        ),
        inject=lines(
            f"supervisorctl stop {database.NAME}",
            f"echo 'Upgrade: postgresql ({now}), settings of new clusters written anew' "
            ">> /var/log/apt/history.log",
            f"{port_is.format(port)}; {anew}",
            f"until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.1; done",
            f"supervisorctl start {database.NAME}",
        ),
        fix=(port_is.format(next_port), anew, "sleep 0.5", f"supervisorctl start {database.NAME}"),
        wrong={
            "it is only started again": [f"supervisorctl start {database.NAME}"],
            "it is moved to another port": [
                f"sed -i 's/^port = .*/port = {port + 1}/' {database.SETTINGS}",
                f"supervisorctl start {database.NAME}",
            ],
            "what is missing is made in the new one": [
                f"{base.psql.removesuffix(base.name)} -c 'create role app login'",
                f"{base.psql.removesuffix(base.name)} -c 'create database {base.name}'",
                f"{base.psql} -c 'create table {base.table} (key text, value text)'",
                f"{base.psql} -c 'grant all on {base.table} to app'",
            ],
        },
        stays=(database.SETTINGS,),
        runs=(house.code_of(other),),
        harm=lambda probe: said(house.keeps(probe, other_port)),
    )  # fmt: skip
