"""The unit, supervisor entry or init script of a service was changed for the worse."""

from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import put_back, rewrite
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits


class _EntryEdited(Fault):
    category = "entry-broken"
    wants = "service"

    def _edit(
        self, box: Box, world: World, at: Target, good: str, bad: str, evidence: str
    ) -> Truth:
        """Replace a part of the entry, and start the service by it."""
        path = inits.entry_path(world.style.init, at.service)
        entry = Target("service", at.service, path, port=at.port)
        text = box.read(path)
        assert good in text, f"{path} does not have {good!r}"
        copy = rewrite(box, world, entry, text.replace(good, bad))
        box.run(inits.reload(world, at.service), check=False)
        return Truth(
            (at.service,), (self.category, "service-crash", "bad-config"), path,
            f"{evidence}|{path}", at=entry, notes={"copy": copy, "good": good.strip()},
        )  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        assert truth.at is not None
        path, good = truth.at.path, truth.notes["good"]
        lines = [one.strip() for one in probe.text(path).splitlines() if not one.startswith("#")]
        return [] if any(good in one for one in lines) else [f"{path} does not say {good!r}"]

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        return put_back(world, truth)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        service = world.service(truth.at.service)
        by_hand = f"{service.command} </dev/null >/dev/null 2>&1 &"
        return {
            "restart": [inits.restart(world, service.name)],
            "read it again": [inits.reload(world, service.name)],
            "delete the entry": [f"rm {quote(truth.at.path)}", inits.reload(world, service.name)],
            "run it by hand": [inits.command(world, service.name, "stop"), f"setsid {by_hand}"],
        }


class WrongProgram(_EntryEdited):
    """The command names a program that does not exist."""

    mechanism = "program"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        program = world.service(at.service).command.split()[2]
        folder, _, name = program.rpartition("/")
        bad = pick.choice((f"{folder}/bin/{name}", f"{folder}/main.py", f"/opt/apps/{name}"))
        return self._edit(box, world, at, program, bad, r"can't open file|No such file")


class MissingOption(_EntryEdited):
    """The command lost its last argument, the path of the configuration."""

    mechanism = "option"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        program, config = world.service(at.service).command.split()[2:]
        return self._edit(box, world, at, f"{program} {config}", program, r"IndexError|usage")


class WrongDirectory(_EntryEdited):
    """The working directory does not exist."""

    mechanism = "directory"
    foreign = True

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        good = world.service(at.service).directory
        words = {"supervisord": "directory=", "systemd": "WorkingDirectory=", "sysv": "cd "}
        word = words[world.style.init]
        bad = pick.choice((f"/srv/apps/{at.service}", f"/home/deploy/{at.service}"))
        evidence = r"chdir|cd: can't|No such file or directory"
        end = " " if world.style.init == "sysv" else "\n"
        return self._edit(box, world, at, f"{word}{good}{end}", f"{word}{bad}{end}", evidence)


FAULTS = (WrongProgram(), MissingOption(), WrongDirectory())
