"""`drift.yaml` of a repository: what each part of it declares."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from hermes_agent.core.errors import UsageError
from hermes_drift.values import SCOPES

NAME = "drift.yaml"

Mode = Annotated[str, Meta(pattern="^[0-7]{3,4}$")]


class FilesScope(Struct, frozen=True, forbid_unknown_fields=True):
    """A folder, or one file, of the repository."""

    declared: str
    live: str
    owner: str = ""
    """User that must own the files; empty: not compared."""
    group: str = ""
    mode: dict[str, Mode] = {}
    """Modes by glob of the path below `declared`; the first match counts. Without a match only the
    executable bit is compared, which is all that Git knows."""
    extra: bool = True
    """Whether undeclared files beside declared ones are findings."""
    ignore: tuple[str, ...] = ()
    """Globs of paths below `live`."""
    terminal: str = ""


class Units(Struct, frozen=True, forbid_unknown_fields=True):
    """A folder of systemd unit files, with `NAME.d/*.conf` as drop-ins."""

    declared: str
    live: str = "/etc/systemd/system"
    root: str = ""
    """The root of a system that is not running: only files are compared."""
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    terminal: str = ""


class Compose(Struct, frozen=True, forbid_unknown_fields=True):
    declared: str
    project: str = ""
    """Default: the `name` in the file, else its folder."""
    context: str = ""
    """Docker's."""
    ignore: tuple[str, ...] = ()
    """Services."""
    terminal: str = ""


class Packages(Struct, frozen=True, forbid_unknown_fields=True):
    """A list of `name`, `name=version` or `name==version`; `!name` must not be installed."""

    declared: str
    manager: str = "dpkg"
    folder: str = ""
    """For pip: the virtual environment, or the folder with the packages."""
    ignore: tuple[str, ...] = ()
    terminal: str = ""


class Kubernetes(Struct, frozen=True, forbid_unknown_fields=True):
    """A folder of manifests, or one file."""

    declared: str
    namespace: str = "default"
    """For objects that name none."""
    context: str = ""
    kubeconfig: str = ""
    extra: bool = False
    """Whether undeclared objects of a declared kind and namespace are findings."""
    audit_log: str = ""
    """The API server's audit log, if the terminal can read it: it has the names of people."""
    ignore: tuple[str, ...] = ()
    """Globs of `Kind namespace/name field`."""
    terminal: str = ""


class AuditLogConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a machine logs who did what."""

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


def read(text: str) -> DriftConfig:
    try:
        declared = msgspec.convert(document(text, NAME) or {}, DriftConfig)
    except msgspec.ValidationError as error:
        raise UsageError(f"{NAME}: {error}", "see docs/guides/drift.md for its format") from None
    if declared.version != 1:
        raise UsageError(f"{NAME} has version {declared.version}", "this Hermes supports 1")
    if not any(getattr(declared, scope) for scope in SCOPES):
        raise UsageError(f"{NAME} declares nothing", f"it can declare {', '.join(SCOPES)}")
    return declared


def document(text: str, name: str) -> Any:
    """The one document of a YAML text."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "invalid syntax"
        raise UsageError(f"{name}{where}: {problem}", "the file must be valid YAML") from None
