"""Settings of each kind of terminal, for `terminals:` in `config.yaml`."""

from typing import Annotated

from msgspec import Meta, Struct

Megabytes = Annotated[int, Meta(ge=16)]


class _Place(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    pass


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    memory_mb: Megabytes = 2048
    """Megabytes that all commands of a session may use together."""
    processes: Annotated[int, Meta(ge=8)] = 512
    """Processes that a session may have at once."""
    cpus: Annotated[float, Meta(gt=0)] = 2.0
    """Processor cores."""
    seconds: Annotated[float, Meta(gt=0)] | None = None
    """The longest a foreground command may run, whatever the model asks for."""


class LocalPlace(_Place, frozen=True, tag="local"):
    """This machine, as the user who runs Hermes."""


class SandboxPlace(_Place, frozen=True, tag="sandbox"):
    """This machine, confined by the operating system: only the workspace can be written."""

    network: bool = False
    """Whether commands can use the network."""
    write: tuple[str, ...] = ()
    """Writable folders besides the workspace."""
    hide: tuple[str, ...] = ()
    """Files and folders hidden from commands, besides secrets and the home of Hermes."""
    limits: Limits = Limits()


class SshPlace(_Place, frozen=True, tag="ssh"):
    """A machine reached by SSH."""

    host: str
    """A name or address, or a Host of the SSH config."""
    user: str = ""
    """The user to log in as; defaults to what the SSH config says."""
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    key: str = ""
    """A private key file; defaults to what the SSH config and the agent offer."""
    known_hosts: str = ""
    """A known_hosts file; defaults to ~/.ssh/known_hosts. An unknown host is refused."""
    config: str = ""
    """An SSH config file; defaults to ~/.ssh/config."""
    workspace: str = "~"
    """The folder to work in."""


class ContainerPlace(_Place, frozen=True, tag="container"):
    """A container of Docker, Podman or any engine with Docker's API."""

    image: str
    """The image; it must have bash 5."""
    engine: str = ""
    """The engine's socket, such as unix:///run/podman/podman.sock; defaults to DOCKER_HOST and the
    usual paths."""
    network: str = "none"
    """The engine's network; `none` isolates the container."""
    user: str = "1000:1000"
    """The user that commands run as."""
    mount: bool = False
    """Whether to mount the session's workspace; otherwise the container has its own volume."""
    limits: Limits = Limits()
    workspace: str = "/workspace"


class KubernetesPlace(_Place, frozen=True, tag="kubernetes"):
    """A pod: an existing one, or one created for the session."""

    image: str = ""
    """Create a pod with this image for each session."""
    pod: str = ""
    """Or use this existing pod."""
    container: str = ""
    namespace: str = "default"
    context: str = ""
    """The context in the kubeconfig; defaults to the current one."""
    kubeconfig: str = ""
    network: bool = False
    """Whether commands can use the network. If not, a created pod gets a NetworkPolicy, which only
    works if the cluster's network enforces such policies."""
    manifest: dict[str, object] = {}
    """Fields to merge into the pod's spec."""
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
    """The id of an image (im-…); defaults to Debian with bash."""
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
    """The snapshot to start from; defaults to Daytona's own."""
    network: bool = False
    limits: Limits = Limits()
    workspace: str = "/home/daytona"


class NamespaceSettings(_Place, frozen=True, tag="box"):
    """A drill's machine, made of namespaces. Never written to `config.yaml`; `drill-ID` names it
    while it exists."""

    folder: str
    """The folder that records its first process."""
    workspace: str = "/root"


PlaceSettings = (
    LocalPlace | SandboxPlace | SshPlace | ContainerPlace | KubernetesPlace | ApptainerPlace
    | ModalPlace | E2bPlace | DaytonaPlace | NamespaceSettings
)  # fmt: skip
