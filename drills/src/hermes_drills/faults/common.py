"""What many faults do: change a setting as a careless colleague would, and put it back."""

import re
from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Kind, Service, Target, Truth, World
from hermes_drills.worlds import inits
from hermes_drills.worlds.formats import changed, value_of
from hermes_drills.worlds.styles import copy_path


def rewrite(box: Box, world: World, at: Target, text: str) -> str:
    """Replace a file, and leave the one before where this machine keeps copies; says where."""
    copy = copy_path(world.style, at.path, at.service)
    box.run(f"mkdir -p {quote(copy.rpartition('/')[0])}; cp -p {quote(at.path)} {quote(copy)}")
    box.write(at.path, text)
    return copy


def set_value(box: Box, world: World, at: Target, key: str, value: str | None) -> str:
    """Change one setting of a service, with a copy of the file before; says where that is."""
    return rewrite(box, world, at, changed(world.style.format, box.read(at.path), key, value))


def restart(box: Box, world: World, name: str) -> None:
    """As an operator would; it may fail to come up, which is what some faults are about."""
    box.run(inits.restart(world, name), check=False)


def put_back(world: World, truth: Truth) -> tuple[str, ...]:
    """What an expert types where a file was changed and a copy was left."""
    at = truth.at
    assert at is not None
    is_entry = at.path == inits.entry_path(world.style.init, at.service)
    again = inits.reload if is_entry else inits.restart
    return (f"cp -p {quote(truth.notes['copy'])} {quote(at.path)}", again(world, at.service))


def value_left(probe: Probe, world: World, at: Target, key: str, good: str) -> list[str]:
    """Whether the file says again what it should."""
    now = value_of(world.style.format, probe.text(at.path), key)
    return [] if now == good else [f"{at.path} says {key} {now}"]


def process_of(probe: Probe, pattern: str) -> list[int]:
    """Processes, as this machine counts them, whose command line matches."""
    return [one.pid for one in probe.processes() if re.search(pattern, one.command)]


def end_process(words: str) -> str:
    """A command that ends the processes whose command line has these words, but not its shell."""
    pattern = quote(f"[{words[0]}]{words[1:]}")
    return (
        "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null | "
        f"grep -q {pattern} && kill ${{p#/proc/}}; done; true"
    )


def await_port(box: Box, port: int) -> None:
    """Until something listens there."""
    box.run(
        f"for n in {{1..200}}; do (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && exit; "
        "sleep 0.02; done; exit 1"
    )


def upstream_of(world: World, name: str) -> Service | None:
    """The service that another needs first."""
    needs = world.service(name).needs
    return world.service(needs[0]) if needs else None


def users_of(world: World, name: str) -> list[Service]:
    return [one for one in world.services if name in one.needs]


class Stray(Fault):
    """A process beside a service, which somebody left running: it is to be ended."""

    wants: Kind = "service"
    scripts: tuple[str, ...]
    """What it may be called."""

    def leave(self, box: Box, world: World, at: Target, pick: Pick, text: str,
              run: str = "python3 -IS") -> str:  # fmt: skip
        """Start it; says where its script lies."""
        folder = world.service(at.service).directory
        path = f"{folder}/{pick.choice(('bin', 'jobs', 'scripts'))}/{pick.choice(self.scripts)}"
        box.write(path, text, 0o755)
        box.spawn(f"exec {run} {quote(path)}")
        return path

    def blamed(self, at: Target, script: str, evidence: str, check: str, log: str = "") -> Truth:
        name = script.rpartition("/")[2]
        return Truth(
            (at.service, name, name.partition(".")[0]), (self.category,),
            re.escape(name.partition(".")[0]), f"{re.escape(name)}|{evidence}", check, at,
            {"script": script, "log": log},
        )  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        script = truth.notes["script"]
        return [f"{script} still runs"] if process_of(probe, re.escape(script)) else []

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:  # noqa: ARG002
        return (end_process(truth.notes["script"]),)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        name = truth.at.service
        return {
            "restart the service": [inits.restart(world, name)],
            "kill the service": [f"kill -9 $(cat /run/{name}.pid)"],
            "remove the script": [f"rm {quote(truth.notes['script'])}"],
        }
