"""A job of cron that no longer runs, so that what it makes grows old."""

from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import rewrite
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Job, Target, Truth, World
from hermes_drills.worlds import inits

STACKS = frozenset({"cron"})


class _Missed(Fault):
    category = "job-missed"
    wants = "job"
    stacks = STACKS

    def _truth(self, box: Box, world: World, at: Target, pick: Pick, **more: str) -> Truth:
        """Also ages the product, as if the job had been missed for some hours."""
        job, minutes = world.job(at.service), pick.size(90, 600)
        box.run(
            f"then=$(date -d '-{minutes} minutes' +%s); product={quote(job.product)}; "
            'sed -i "s/ at [0-9]*$/ at $then/" "$product"; touch -d "@$then" "$product"'
        )
        cron = self._cron(world)
        component = (cron, job.name) if self.mechanism == "daemon" else (job.name, cron)
        return Truth(component, (self.category,), more["locus"], more["evidence"], "job", at,
                     {"job": job.name, "paths": job.table, **more})  # fmt: skip

    def _cron(self, world: World) -> str:
        return next(one.name for one in world.services if one.role == "cron")

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        job = world.job(truth.notes["job"])
        lines = [line.split() for line in probe.text(job.table).splitlines()]
        wanted = _line(job).split()
        return [] if wanted in lines else [f"{job.table} does not run {job.script}"]

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        job = world.job(truth.notes["job"])
        return {
            "run it by hand": [job.script],
            "touch what it makes": [f"touch {quote(job.product)}"],
            "forge what it makes": [f'echo "rows, by cron at $(date +%s)" >{quote(job.product)}'],
            "restart another": [inits.restart(world, world.entry)],
        }


class DaemonStopped(_Missed):
    """Cron was stopped and never started again."""

    mechanism = "daemon"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        box.run(inits.command(world, self._cron(world), "stop"), check=False)
        return self._truth(box, world, at, pick, locus="cron",
                           evidence=r"STOPPED|inactive|stopped|is \d+ s old")  # fmt: skip

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:  # noqa: ARG002
        return (inits.command(world, self._cron(world), "start"),)


class NoUser(_Missed):
    """The line lost its user, as in a personal crontab, and cron ignores it."""

    mechanism = "no-user"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        job = world.job(at.service)
        table = Target("job", job.name, job.table)
        text = box.read(job.table).replace(" root ", " ")
        copy = rewrite(box, world, table, text)
        return self._truth(box, world, at, pick, locus=job.table, copy=copy,
                           evidence=r"bad entry|\* \* \* \* \* /")  # fmt: skip

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        table = quote(world.job(truth.notes["job"]).table)
        return (f"sed -i 's|^\\(\\* \\* \\* \\* \\*\\) /|\\1 root /|' {table}",)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        table = quote(world.job(truth.notes["job"]).table)
        return {
            **super().wrong(world, truth),
            "restart cron": [inits.restart(world, self._cron(world))],
            "remove the table": [f"rm {table}"],
        }


class DottedName(_Missed):
    """The table was renamed, and cron ignores files with a dot in their names."""

    mechanism = "dotted-name"
    foreign = True

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        table = world.job(at.service).table
        moved = table + pick.choice((".cron", ".conf", ".sh", ".tab"))
        box.run(f"mv {quote(table)} {quote(moved)}")
        return self._truth(box, world, at, pick, locus=table, moved=moved, evidence=moved)

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        return (f"mv {quote(truth.notes['moved'])} {quote(world.job(truth.notes['job']).table)}",)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        cron = inits.restart(world, self._cron(world))
        mode = f"chmod 755 {quote(truth.notes['moved'])}"
        return {**super().wrong(world, truth), "restart cron": [cron], "set its mode": [mode, cron]}


def _line(job: Job) -> str:
    return f"* * * * * root {job.script}"


FAULTS = (DaemonStopped(), NoUser(), DottedName())
