"""`drift.yaml` of a repository: which part of it is declared for what."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from hermes_agent.core.errors import UsageError

NAME = "drift.yaml"

Mode = Annotated[str, Meta(pattern="^[0-7]{3,4}$")]


class FilesScope(Struct, frozen=True, forbid_unknown_fields=True):
    """A folder, or one file, of the repository."""

    declared: str
    live: str
    owner: str = ""
    """User that the files must belong to; not looked at where it is empty."""
    group: str = ""
    mode: dict[str, Mode] = {}
    """Glob of a path below `declared`, and its mode, the first that fits. Of what fits none, only
    the executable bit is compared: it is all that Git knows."""
    extra: bool = True
    """Whether files count that lie live beside declared ones."""
    ignore: tuple[str, ...] = ()
    """Globs of paths below `live` that are nobody's business."""
    terminal: str = ""


class Units(Struct, frozen=True, forbid_unknown_fields=True):
    """A folder of systemd unit files, with `NAME.d/*.conf` as drop-ins."""

    declared: str
    live: str = "/etc/systemd/system"
    root: str = ""
    """The root of a system that does not run: files are looked at, the manager is not."""
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    terminal: str = ""


class Compose(Struct, frozen=True, forbid_unknown_fields=True):
    declared: str
    project: str = ""
    """Its name; where it is empty, the `name` in the file, else its folder."""
    context: str = ""
    """Of docker."""
    ignore: tuple[str, ...] = ()
    """Services."""
    terminal: str = ""


class Packages(Struct, frozen=True, forbid_unknown_fields=True):
    """A list: `name`, `name=version` or `name==version` in a line; `!name` must not be there."""

    declared: str
    manager: str = "dpkg"
    folder: str = ""
    """Of pip: the virtual environment, or the folder with the packages."""
    ignore: tuple[str, ...] = ()
    terminal: str = ""


class Kubernetes(Struct, frozen=True, forbid_unknown_fields=True):
    """A folder of manifests, or one file."""

    declared: str
    namespace: str = "default"
    """Of what names none."""
    context: str = ""
    kubeconfig: str = ""
    extra: bool = False
    """Whether objects count that are of a declared kind and namespace and are not declared."""
    audit_log: str = ""
    """The API server's audit log, where the terminal can read it: it knows people by name."""
    ignore: tuple[str, ...] = ()
    """Globs of `Kind namespace/name field`."""
    terminal: str = ""


class AuditLogConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a machine writes who did what."""

    audit: tuple[str, ...] = ("/var/log/audit/audit.log",)
    auth: tuple[str, ...] = ("/var/log/auth.log", "/var/log/secure")
    dpkg: tuple[str, ...] = ("/var/log/dpkg.log",)
    apt: tuple[str, ...] = ("/var/log/apt/history.log",)


class DriftConfig(Struct, frozen=True, forbid_unknown_fields=True):
    version: int = 1
    files: tuple[FilesScope, ...] = ()
    units: tuple[Units, ...] = ()
    compose: tuple[Compose, ...] = ()
    packages: tuple[Packages, ...] = ()
    kubernetes: tuple[Kubernetes, ...] = ()
    logs: AuditLogConfig = AuditLogConfig()

    @property
    def is_empty(self) -> bool:
        return not (self.files or self.units or self.compose or self.packages or self.kubernetes)


def read(text: str) -> DriftConfig:
    told = document(text, NAME)
    try:
        declared = msgspec.convert(told or {}, DriftConfig)
    except msgspec.ValidationError as error:
        raise UsageError(f"{NAME}: {error}", "docs/guides/drift.md shows what it may say") from None
    if declared.version != 1:
        raise UsageError(f"{NAME} is of version {declared.version}", "this Hermes knows version 1")
    if declared.is_empty:
        raise UsageError(
            f"{NAME} declares nothing", "it takes files, units, compose, packages, kubernetes"
        )
    return declared


def document(text: str, name: str) -> Any:
    """The one document of a YAML text."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise UsageError(f"{name}{where}: {problem}", "it must be YAML") from None
