"""A real Apptainer, as `scripts/test-all-needs` unpacks it, and a small image for it."""

import contextlib
import hashlib
import os
import subprocess
import uuid
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hermes_agent.core.settings.terminals import ApptainerPlace
from hermes_agent.terminals import apptainer
from hermes_agent.terminals.transport import Transport
from tests.support import images
from tests.support.daemons import check_root, folder_of, locked
from tests.support.transports import Way

MOUNTED = ("dev", "proc", "sys", "var/tmp", "workspace")


def cached(path: str) -> Path:
    """A file that `scripts/test-all-needs` has got."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = base / "hermes-tests" / path
    assert found.exists(), f"{found} is not here: run scripts/test-all-needs"
    return found


@cache
def apptainer_place() -> ApptainerPlace:
    """With an image that is made once for all test processes."""
    check_root("Apptainer")
    program = cached("apptainer/usr/bin/apptainer")
    recipe = Path(images.__file__).read_bytes()
    image = folder_of(f"apptainer-{hashlib.sha256(recipe).hexdigest()[:16]}.sif")
    with locked(folder_of("apptainer.lock")), TemporaryDirectory() as scratch:
        if not image.exists():
            subprocess.run(["tar", "-x", "-C", scratch], input=images.small_root(), check=True)
            for folder in MOUNTED:
                Path(scratch, folder).mkdir(parents=True, exist_ok=True)
            draft = image.with_suffix(".new")
            build = [program, "--silent", "build", "--force", draft, scratch]
            subprocess.run(build, check=True, capture_output=True)
            draft.replace(image)
    return ApptainerPlace(image=str(image), program=str(program))


def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "SECRET_TOKEN": "xyz"}


@contextlib.asynccontextmanager
async def apptainer_way(folder: Path) -> AsyncIterator[Way]:
    """An instance of a session of its own."""
    place = apptainer_place()
    session = uuid.uuid4().hex
    made: list[Transport] = []

    def again() -> Transport:
        made.append(
            apptainer.transport(
                place, session=session, workspace="", folder=folder, environ=environment()
            )
        )
        return made[-1]

    try:
        yield Way(again(), again, place.workspace)
    finally:
        for transport in made:
            await transport.destroy()
