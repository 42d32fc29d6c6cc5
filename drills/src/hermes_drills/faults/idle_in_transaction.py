"""A session of PostgreSQL that took a lock in a transaction and was left idle."""

from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits
from hermes_drills.worlds.postgres import BASE, NAME, USER, program

IDLE = "from pg_stat_activity where state like 'idle in transaction%'"


class IdleInTransaction(Fault):
    """An abandoned session still locks the table."""

    category = "database-lock"
    mechanism = "idle-in-transaction"
    wants = "service"
    stacks = frozenset({"postgres"})
    needs = ("postgres",)

    def fits(self, world: World, at: Target) -> bool:
        return "dsn" in world.settings[at.service]

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        name = pick.choice(("month-report", "backfill", "migration", "console"))
        mode = pick.choice(("exclusive", "access exclusive"))
        sql = f"begin; lock table items in {mode} mode;"
        box.spawn(f"(echo {quote(sql)}; exec sleep infinity) | PGAPPNAME={name} {_psql(world)}")
        return Truth(
            (NAME, at.service, name, "postgres"), (self.category,),
            rf"items|{name}|{NAME}|transaction|pid",
            rf"idle in transaction|statement timeout|{name}|ExclusiveLock",
            at=Target(at.kind, at.service),
        )  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        words = _psql(world, "postgres").split()
        words[0] = program("psql")
        said = probe.run([*words, "-Atc", f"select application_name {IDLE}"]).stdout.split()
        return [f"{one} is idle in a transaction" for one in said]

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:  # noqa: ARG002
        ask = f"{_psql(world, 'postgres')} -c"
        return (
            f'{ask} "select pid, application_name, xact_start {IDLE}"',
            f'{ask} "select pg_terminate_backend(pid) {IDLE}"',
        )

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        service = world.service(truth.at.service)
        again = inits.restart(world, service.name)
        cancel = (
            "select pg_cancel_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'"
        )
        return {
            "restart": [again],
            "cancel what waits": [f'{_psql(world, "postgres")} -c "{cancel}"'],
            "another table": [f"sed -i 's#/{BASE}#/postgres#' {quote(service.config)}", again],
        }


def _psql(world: World, user: str = USER) -> str:
    return f"psql -X -h 127.0.0.1 -p {world.service(NAME).port} -U {user} {BASE}"


FAULTS = (IdleInTransaction(),)
