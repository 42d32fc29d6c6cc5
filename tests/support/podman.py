"""A real Podman service with Docker's API on a socket of its own."""

import contextlib
from functools import cache
from pathlib import Path

from tests.support.daemons import check_root, folder_of, hold
from tests.support.dockerd import container_place, container_way, provided
from tests.support.images import program
from tests.support.terminals import Place
from tests.support.transports import Way

NAME = "podman"
ENGINE = """\
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
static_dir = "{folder}/static"
tmp_dir = "{folder}/tmp"
volume_path = "{folder}/volumes"
"""
STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
"""


@cache
def podman_engine() -> str:
    check_root("podman")
    program("podman", "podman")
    program("catatonit", "catatonit")
    folder = folder_of(NAME)
    way = folder / "podman.sock"
    engine, storage = (folder.with_name(f"podman-{part}.conf") for part in ("engine", "storage"))
    engine.write_text(ENGINE.format(folder=folder))
    storage.write_text(STORAGE.format(folder=folder))
    command = [
        "env", f"CONTAINERS_CONF={engine}", f"CONTAINERS_STORAGE_CONF={storage}",
        "catatonit", "--", "podman", "system", "service", "--time=0", f"unix://{way}",
    ]  # fmt: skip
    hold(NAME, command, way)
    return provided(f"unix://{way}")


def podman_way(folder: Path) -> contextlib.AbstractAsyncContextManager[Way]:
    return container_way(folder, podman_engine)


def podman_place(folder: Path) -> contextlib.AbstractAsyncContextManager[Place]:
    return container_place(folder, podman_engine)
