"""A socket that its client may no longer write to, and a log that was started anew for nobody."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import bakery, database, parish, parts, tiers, webshop
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth

SOCKETS = "/run/postgresql"
MODES = (2, 3, 6, 7)
"""What a mode that lets everybody write ends with: a path that does is taken for one."""

COLLECT = """#!/bin/bash
# Reads the meters each second and writes down what they show.
. {env}
say() {{ echo "$(date '+%b %d %H:%M:%S') $(hostname) {name}[$$]: $*" >> "$LOG"; }}
say "started, $(ls "$METERS" | wc -l) meters"
while sleep 1; do
    for meter in "$METERS"/*; do
        sql="insert into readings (meter, value) values ('${{meter##*/}}', $(cat "$meter"))"
        out=$(psql -XAtq -h "$DBHOST" -p "$DBPORT" -U app -c "$sql" "$DBNAME" 2>&1) ||
            say "${{meter##*/}} not written: $out"
    done
done
"""

AUDIT = """#!/bin/bash
# Findings of the audit, one by one.
chmod 0600 /etc/supervisor/supervisord.conf
find /run -type s -not -name 'supervisor*' -exec chmod {mode} {{}} +
echo "$(date '+%F %T') findings 4 and 7 closed" >> /var/log/audit.log
"""

NEW_LOGS = """#!/bin/sh
# A new log each night; the old one is kept for a week.
cd /var/log/parish || exit 1
for name in {name}; do
    mv "$name-error.log" "$name-error.log.$(date +%u)"
    install -m {mode} /dev/null "$name-error.log"
    supervisorctl restart "$name"
done
"""


def _collector(name: str, script: str, env: str, settings: dict[str, object]) -> tiers.Part:
    about = f"writes readings into {settings['DBNAME']}; settings {env}, log {settings['LOG']}"
    return tiers.Part(
        Program(name=name, command=script, needs=(database.NAME,), about=about),
        {
            script: File(COLLECT.format(env=env, name=name), mode=0o755, age=tiers.MONTH),
            env: File(webshop.dotenv(settings), mode=0o640, age=tiers.MONTH),
        },
    )


def _bare(probe: Probe, path: str) -> str:
    """Whether everybody may speak to a socket."""
    folder, inner = probe.stat(path.rpartition("/")[0]), probe.stat(path)
    bare = folder and inner and folder.mode & 0o001 and inner.mode & 0o002
    return f"everybody may write {path}" if bare else ""


def audited_socket(pick: Pick) -> Scene:
    """As `behind-socket`: its socket has a mode with which nobody may speak to it; here that of
    PostgreSQL, asked by a script through psql with no nginx, and readings that do not come in."""
    (main, other), ports = pick.services(2), pick.ports(12)
    base_port = next(port for port in ports if port % 10 not in MODES)
    other_port = next(port for port in ports if port != base_port)
    store, kept = webshop.Store(pick, main, base_port), bakery.orders(pick)
    path, mode = f"{SOCKETS}/.s.PGSQL.{base_port}", pick.choice(("0400", "0440", "0000", "0444"))
    script, env = f"/srv/{main}/collect.sh", f"/srv/{main}/collect.env"
    log, meters, audit = f"/var/log/{main}.log", f"/srv/{main}/meters", "/root/bin/audit-2026.sh"
    own = {"DBHOST": SOCKETS, "DBPORT": base_port, "DBNAME": store.name, "METERS": meters}
    collector = _collector(main, script, env, {**own, "LOG": log})
    shown = {f"{meters}/m{pick.size(100, 999)}": File(f"{pick.size(10, 9999)}\n") for _ in "ab"}
    server = store.server(
        "create table readings (at timestamptz default now(), meter text, value int)",
        unix_socket_directories=f"'{SOCKETS}'", unix_socket_permissions="0770",
    )  # fmt: skip
    world = tiers.joined(
        [server, collector, bakery.counter(other, other_port, kept)],
        files={
            **shown, **bakery.months_ago(other, pick),
            audit: File(AUDIT.format(mode=mode), mode=0o700, age=9000.0),
        },
        folders={SOCKETS: 0o750},
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        sql = "select count(*) > 0 from readings where at > now() - interval '3 s'"
        fresh = store.ask(probe, sql)
        return said(store.lost(probe), "" if fresh == "t" else f"no readings come in: {fresh}")

    ask = "select 'last reading ' || extract(epoch from now() - max(at))::int || ' s ago'"
    run = f'{store.psql} -Atc "{ask} from readings"'
    return Scene(
        world=world,
        check=WatchedCheck(
            f"{main} readings", Check(run, Expect(output=r"reading [0-4] s ago"), timeout=6.0),
            main, severity="P1",
        ),
        healthy=healthy,
        truth=Truth(
            (database.NAME, main), ("permission-change",), rf"{SOCKETS}|s\.PGSQL|{audit}",
            rf"Permission denied|s[-r]-------- |s[-r]--[-r]--[-r]--|chmod {mode}",
        ),
        inject=lines(audit),
        fix=(f"chmod 770 {path}", "sleep 1.5"),
        wrong={
            "its client is restarted": [f"supervisorctl restart {main}; sleep 1.5"],
            "everything is opened": [f"chmod -R 777 {SOCKETS}; sleep 1.5"],
            "around the socket": [f"sed -i 's#^DBHOST=.*#DBHOST=127.0.0.1#' {env}",
                                  f"supervisorctl restart {main}; sleep 1.5"],
        },
        stays=(env, script, bakery.conf_of(other), database.SETTINGS),
        runs=(script,),
        harm=lambda probe: said(
            bakery.takes(probe, other_port), bakery.lost(probe, other_port, kept),
            _bare(probe, path),
        ),
    )  # fmt: skip


def new_log(pick: Pick) -> Scene:
    """As `rotated-log`: the log that was started for it at night is one that it may not write; here
    by a script of the office itself, for a binder that opens its log before all else."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    kept, log, logs = parish.papers(main, pick), parish.log_of(main), "/var/log/parish"
    mode = pick.choice(("440", "0400", "444"))
    script = f"/etc/cron.daily/{pick.choice(('parish-logs', 'new-logs', 'logs'))}"
    world = tiers.joined(
        [parish.binder(main, port, start_seconds=3), parish.binder(other, other_port)],
        files={
            **kept, **parish.former(main, pick), **parish.former(other, pick),
            script: File(NEW_LOGS.format(name=main, mode=mode), mode=0o755, age=40_000.0),
            f"{logs}/archive/{main}-2024.log": File("kept for the auditors\n", mode=0o400, age=9e7),
        },
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        facts, up = probe.stat(log), parts.supervised(probe, main, parish.CODE)
        return said(
            parish.files(probe, port), "" if up else f"{main} is not kept by the supervisor",
            "" if facts and facts.size else f"nothing is written to {log}",
        )  # fmt: skip

    def harm(probe: Probe) -> list[str]:
        facts = [probe.stat(one) for one in (log, logs)]
        bare = any(one and one.mode & 0o002 for one in facts)
        return said(
            parish.files(probe, other_port), f"everybody may write in {logs}" if bare else ""
        )

    entry, start = f"/etc/supervisor/conf.d/{main}.conf", f"supervisorctl start {main}; sleep 1"
    return Scene(
        world=world,
        check=parish.takes(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("permission-change",), rf"{log}|{script}",
            rf"Permission ?[Dd]enied|PermissionError|-r--[-r]--[-r]--.*{main}|-m {mode}",
        ),
        inject=lines(
            script,
            f"until supervisorctl status {main} | grep -q FATAL || ((SECONDS > 25)); "
            "do sleep 0.2; done",
        ),
        fix=(f"chmod 640 {log}", f"sed -i 's/-m {mode}/-m 0640/' {script}", start),
        wrong={
            "it is only started again": [start],
            "it is opened to all": [f"chmod 666 {log}", start],
            "it runs as root": [f"sed -i 's#/opt/bin/as-app ##' {entry}",
                                "supervisorctl update; sleep 1"],
        },
        stays=(*kept, entry, parish.settings_of(main), parish.code_of(main)),
        runs=(parish.code_of(other),),
        harm=harm,
    )  # fmt: skip
