"""In a house of its own: a lock that is a row of a table, and a lease that nobody gives back."""

from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills import workshop as house
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth

JOB = """#!/bin/bash
# One at a time.
lock=$1
set -o noclobber
echo "$(hostname):$$ $(date '+%F %T')" > "$lock" || exit 1
trap 'rm -f "$lock"; exit' TERM INT
while true; do
    date +%s >| "$2"
    sleep 1 &
    wait
done
"""


def _job(name: str, lock: str) -> tiers.Part:
    """A long job that is at work and says so by a lock of its own."""
    code = f"{house.HOME}/bin/{name}.sh"
    return tiers.Part(
        Program(
            name=name, command=f"{code} {lock} {house.HOME}/data/{name}.progress",
            ready=f"file:{lock}", autorestart=False, about="a long job, at work; must not be ended",
        ),
        {code: File(JOB, mode=0o755, age=tiers.MONTH)},
        {lock.rpartition("/")[0]: 0o755},
    )  # fmt: skip


def migration_lock(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    job, kept, base = f"{pick.word()}-job", house.rows(pick), house.base_of(main)
    lock, host = f"{house.HOME}/data/{job}.lock", pick.host()
    world = tiers.joined(
        [
            house.app(main, port, {"MIGRATION_WAIT": 900}, rows=kept),
            house.app(other, other_port),
            _job(job, lock),
        ],
        files={**house.history(main, pick), **house.history(other, pick)},
        hostname=host,
    )
    held = (
        f"update schema_lock set locked = 1, locked_by = '{host}/{pick.size(2000, 9000)}', "
        "locked_at = datetime('now', '-50 minutes')"
    )
    sql = (
        'python3 -c "import sqlite3; b = sqlite3.connect(\'{}\'); b.execute(\\"{}\\"); b.commit()"'
    )
    freed = "update schema_lock set locked = 0, locked_by = null, locked_at = null"

    def healthy(probe: Probe) -> list[str]:
        locked = house.ask(probe, base, "select 1 from schema_lock where locked")
        return said(
            house.keeps(probe, port), house.minded(probe, main),
            "migrations are still locked" if locked else "",
        )  # fmt: skip

    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("stale-lock", "database-lock"), r"schema_lock|migration",
            r"migrations are locked|schema_lock|migration lock|locked_by",
        ),
        inject=lines(
            f"kill -9 $(supervisorctl pid {main}); supervisorctl stop {main}",
            sql.format(base, held), f"supervisorctl start {main}", "sleep 0.5",
        ),
        fix=(sql.format(base, freed), f"supervisorctl start {main}", "sleep 1"),
        wrong={
            "it is only restarted": [f"supervisorctl restart {main}"],
            "another lock goes": [f"rm {lock}", f"supervisorctl restart {main}"],
            "it begins with an empty database": [f"mv {base} /root/",
                                                 f"supervisorctl restart {main}", "sleep 1"],
        },
        stays=(lock, house.env_of(main), house.code_of(main)),
        runs=(f"/{job}.sh", house.code_of(other)),
        harm=lambda probe: said(
            house.keeps(probe, other_port), house.lost(probe, base, kept)
        ),
    )  # fmt: skip


def lease(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    word, busy = pick.words(2)
    name, job, spool = f"{main}-{word}", f"{busy}-job", f"{house.HOME}/spool/{main}"
    folder = pick.choice((f"/run/{main}", "/run/leases", "/var/lock/deploy"))
    ours, theirs = f"{folder}/{name}.lease", f"{folder}/{job}.lease"
    kept, code = house.rows(pick), f"{house.APPS}/{name}/app/intake.py"
    world = tiers.joined(
        [
            house.worker(name, spool, {"LEASE": ours}),
            house.app(main, port, {"SPOOL": spool}, rows=kept, needs=(name,)),
            house.app(other, other_port),
            _job(job, theirs),
        ],
        files={**house.history(main, pick), **house.history(other, pick)},
        folders={folder: 0o755},
        hostname=pick.host(),
    )

    def healthy(probe: Probe) -> list[str]:
        holder = probe.text(ours).partition(" ")[0].rpartition(":")[2]
        alive = [str(one.inner) for one in probe.processes() if code in one.command]
        return said(
            house.does(probe, port), house.minded(probe, name),
            "" if holder in alive else f"{ours} is held by nobody who lives",
        )  # fmt: skip

    return Scene(
        world=world,
        check=house.works(main, port),
        healthy=healthy,
        truth=Truth(
            (name,), ("stale-lock",), rf"{ours}|{name}\.lease",
            rf"standing by|{name}\.lease",
        ),
        inject=lines(f"kill -9 $(supervisorctl pid {name})", "sleep 1"),
        fix=(f"rm {ours}", "sleep 0.5"),
        wrong={
            "it is only restarted": [f"supervisorctl restart {name}"],
            "all leases go": [f"rm {folder}/*.lease", f"supervisorctl restart {name}"],
            "the job at work is ended": [f"supervisorctl stop {job}", f"rm {ours}"],
        },
        stays=(theirs, house.env_of(name), code),
        runs=(f"/{job}.sh", house.code_of(other), house.code_of(main)),
        harm=lambda probe: said(
            house.keeps(probe, other_port), house.lost(probe, house.base_of(main), kept)
        ),
    )  # fmt: skip
