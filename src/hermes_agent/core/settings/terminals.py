"""The kinds of terminals as data: what `terminals:` in the settings may say of each."""

from typing import Annotated

from msgspec import Meta, Struct

Megabytes = Annotated[int, Meta(ge=16)]


class _Place(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    pass


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    memory_mb: Megabytes = 2048
    """Memory that all commands of a session may use together."""
    processes: Annotated[int, Meta(ge=8)] = 512
    """Processes of a session at the same time."""
    cpus: Annotated[float, Meta(gt=0)] = 2.0
    """Processor cores."""
    seconds: Annotated[float, Meta(gt=0)] | None = None
    """The longest that a command in the foreground may run, whatever the model asks for."""


class LocalPlace(_Place, frozen=True, tag="local"):
    """This machine, as the user who runs Hermes."""


class SandboxPlace(_Place, frozen=True, tag="sandbox"):
    """This machine, confined by the operating system: only the workspace can be written."""

    network: bool = False
    """Whether commands reach the network."""
    write: tuple[str, ...] = ()
    """Folders beside the workspace that may be written."""
    hide: tuple[str, ...] = ()
    """Files and folders that are not there for commands, beside secrets and the home of Hermes."""
    limits: Limits = Limits()


class SshPlace(_Place, frozen=True, tag="ssh"):
    """A machine reached by SSH."""

    host: str
    """Its name or address, or a Host of the SSH config."""
    user: str = ""
    """Who to log in as; else what the SSH config says."""
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    key: str = ""
    """A private key file; else what the SSH config and the agent offer."""
    known_hosts: str = ""
    """A file of known host keys; else ~/.ssh/known_hosts. An unknown host is refused."""
    config: str = ""
    """An SSH config file; else ~/.ssh/config."""
    workspace: str = "~"
    """The folder to work in."""


class ContainerPlace(_Place, frozen=True, tag="container"):
    """A container of Docker, Podman or any engine with Docker's API."""

    image: str
    """What the container is made of; it must have bash 5."""
    engine: str = ""
    """The engine's socket, such as unix:///run/podman/podman.sock; else DOCKER_HOST and the usual
    places."""
    network: str = "none"
    """The engine's network; none cuts the container off."""
    user: str = "1000:1000"
    """Who commands run as."""
    mount: bool = False
    """Whether the session's workspace is the container's; else it has a volume of its own."""
    limits: Limits = Limits()
    workspace: str = "/workspace"


class KubernetesPlace(_Place, frozen=True, tag="kubernetes"):
    """A pod: one that is there, or one made for the session."""

    image: str = ""
    """Make a pod of this image for each session."""
    pod: str = ""
    """Or go into this pod."""
    container: str = ""
    namespace: str = "default"
    context: str = ""
    """The context in the kubeconfig; else the current one."""
    kubeconfig: str = ""
    network: bool = False
    """Whether commands reach the network; else a NetworkPolicy is laid on a pod made here, which
    binds where the cluster's network enforces such policies."""
    manifest: dict[str, object] = {}
    """Fields of the pod's spec that are laid over the default ones."""
    limits: Limits = Limits()
    workspace: str = "/workspace"


class ApptainerPlace(_Place, frozen=True, tag="apptainer"):
    """An instance of Apptainer (or Singularity)."""

    image: str
    """A SIF file."""
    program: str = "apptainer"
    network: bool = False
    options: tuple[str, ...] = ()
    """More options for `instance start` and `exec`."""
    workspace: str = "/workspace"


class ModalPlace(_Place, frozen=True, tag="modal"):
    """A sandbox at Modal."""

    app: str = "hermes"
    image: str = ""
    """The id of an image (im-…); else Debian with bash."""
    network: bool = False
    limits: Limits = Limits()
    workspace: str = "/workspace"


class E2bPlace(_Place, frozen=True, tag="e2b"):
    """A sandbox at E2B."""

    template: str = "base"
    network: bool = False
    workspace: str = "/home/user"


class DaytonaPlace(_Place, frozen=True, tag="daytona"):
    """A sandbox at Daytona."""

    snapshot: str = ""
    """What it is made of; else Daytona's default."""
    network: bool = False
    limits: Limits = Limits()
    workspace: str = "/home/daytona"


class NamespaceSettings(_Place, frozen=True, tag="box"):
    """A box that a drill made: what runs there is its own machine. It is never written down in
    the settings; `drill-ID` names it while it lives."""

    folder: str
    """Where it says which process is its first."""
    workspace: str = "/root"


PlaceSettings = (
    LocalPlace | SandboxPlace | SshPlace | ContainerPlace | KubernetesPlace | ApptainerPlace
    | ModalPlace | E2bPlace | DaytonaPlace | NamespaceSettings
)  # fmt: skip
