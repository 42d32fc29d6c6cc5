"""What a box is made of, and what is true of a drill, as values."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct


class File(Struct, frozen=True):
    text: str = ""
    data: bytes = b""
    """Instead of a text."""
    mode: int = 0o644
    link: str = ""
    """A symbolic link to this, and nothing else."""
    size: int = 0
    """So many bytes behind it, which do not compress."""
    age: float = 0.0
    """Seconds since it was changed."""


class Program(Struct, frozen=True):
    """A program that the supervisor keeps."""

    name: str
    command: str
    user: Literal["app", "root"] = "app"
    """`app` has no privileges in the box."""
    directory: str = "/"
    environment: Mapping[str, str] = {}
    autostart: bool = True
    autorestart: bool = True
    limits: Mapping[str, int] = {}
    """As `prlimit` calls them: nofile, as, data, nproc, fsize, cpu."""
    node: str = ""
    """The node whose network it has; the box's own where it is empty."""
    needs: tuple[str, ...] = ()
    """Programs that it cannot work without."""
    about: str = ""
    ready: str = ""
    """What shows that it is up: `tcp:PORT`, `unix:PATH` or `file:PATH`."""
    start_seconds: int = 0
    stop_seconds: int = 3
    """After which it is killed."""


class Mount(Struct, frozen=True):
    """A small file system of its own."""

    path: str
    mb: int = 8
    inodes: int = 0
    """How many files it holds; as many as fit where it is 0."""


class Node(Struct, frozen=True):
    """A second machine, as far as the network goes. The box itself is `BOX_ADDRESS`."""

    name: str
    address: str = "10.77.0.2"


BOX_ADDRESS = "10.77.0.1"


class World(Struct, frozen=True):
    programs: tuple[Program, ...]
    files: Mapping[str, File] = {}
    folders: Mapping[str, int] = {}
    mounts: tuple[Mount, ...] = ()
    hostname: str = "box"
    hosts: Mapping[str, str] = {}
    nodes: tuple[Node, ...] = ()
    setup: tuple[str, ...] = ()
    """Lines of bash, run in the box before anything starts."""
    mb: int = 192
    """How much all of its files may take."""


class Truth(Struct, frozen=True):
    """What was the matter. Of names, any is right and the first is the best."""

    component: tuple[str, ...]
    category: tuple[str, ...]
    locus: str = ""
    """Found in the diagnosis' locus, as a regular expression."""
    evidence: str = ""
    """Found in what is quoted."""
