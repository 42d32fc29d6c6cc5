"""A new release that is broken; the one before it lies beside it."""

import re
from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import restart
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits


class _Deployed(Fault):
    category = "bad-deploy"
    wants = "release"
    evidence: str

    def defect(self, text: str, pick: Pick) -> tuple[str, str]:
        """The code of the new release, and the line of it that is wrong."""
        raise NotImplementedError

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        earlier = world.files[at.path].link
        top, _, version = earlier.rpartition("/")
        first, second, _ = version.split(".")
        new = f"{top}/{first}.{int(second) + 1}.0"
        box.run(f"cp -r {quote(earlier)} {quote(new)}; rm -rf {quote(new)}/__pycache__")
        text, line = self.defect(box.read(f"{new}/app.py"), pick)
        box.write(f"{new}/app.py", text)
        box.run(f"touch {quote(new)}; ln -sfn {quote(new)} {quote(at.path)}")
        restart(box, world, at.service)
        return Truth(
            (at.service,), (self.category,), f"{re.escape(new)}|{re.escape(at.path)}",
            self.evidence, at=at, notes={"earlier": earlier, "new": new, "line": line},
        )  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        assert truth.at is not None
        text = probe.text(f"{truth.at.path}/app.py")
        if not text:
            return [f"{truth.at.path} does not point to a release"]
        return [f"{truth.at.path} is still broken"] if truth.notes["line"] in text else []

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        path, earlier = quote(truth.at.path), quote(truth.notes["earlier"])
        return (f"ln -sfn {earlier} {path}", inits.restart(world, truth.at.service))

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        name, notes = truth.at.service, truth.notes
        again = inits.restart(world, name)
        return {
            "restart": [again],
            "delete the release": [f"rm -rf {quote(notes['new'])}", again],
            "copy it over the earlier one": [
                f"cp {quote(notes['new'])}/app.py {quote(notes['earlier'])}/app.py",
                f"ln -sfn {quote(notes['earlier'])} {quote(truth.at.path)}", again,
            ],
        }  # fmt: skip


class CodeError(_Deployed):
    """Its code raises an exception as soon as it is loaded."""

    mechanism = "code"
    evidence = r"NameError|SyntaxError|Traceback"

    def defect(self, text: str, pick: Pick) -> tuple[str, str]:
        lines = ("LIMITS = limits_of(REGION)", "def handler(self, request", "POOL = Pool(4)")
        line = pick.choice(lines)
        return text.replace("\nVERSION = ", f"\n{line}\nVERSION = ", 1), line


class MissingModule(_Deployed):
    """It imports a module that is not installed."""

    mechanism = "module"
    evidence = r"ModuleNotFoundError|No module named"

    def defect(self, text: str, pick: Pick) -> tuple[str, str]:
        line = f"import {pick.choice(('orjson', 'uvloop', 'httptools', 'structlog'))}"
        return text.replace("\nimport os\n", f"\n{line}\nimport os\n", 1), line


class Regression(_Deployed):
    """It starts and listens, but every request that does real work fails."""

    mechanism = "regression"
    foreign = True
    evidence = r"AttributeError|has no attribute|Traceback"

    def fits(self, world: World, at: Target) -> bool:  # noqa: ARG002
        return bool(at.port)

    def defect(self, text: str, pick: Pick) -> tuple[str, str]:
        line = f"if self.config.{pick.choice(('delay', 'pause', 'latency'))}:"
        return text.replace("if self.delay:", line, 1), line


FAULTS = (CodeError(), MissingModule(), Regression())
