"""How serious a finding is, before patterns count."""

import re
from collections.abc import Callable, Mapping

from hermes_drift.cluster.resources import ADMISSION_GROUPS
from hermes_drift.matching import fits_any
from hermes_drift.values import DriftFinding, Scope, Weight

Weighed = tuple[Weight, str]
LOOK: Weighed = ("look", "it differs from what is declared")

GUARDED = (
    "**/sudoers", "**/sudoers.d/**", "**/cron*/**", "**/crontab", "**/crontabs/**", "**/pam.d/**",
    "**/sshd_config", "**/sshd_config.d/**", "**/authorized_keys*", "**/etc/passwd",
    "**/etc/shadow", "**/etc/group", "**/ld.so.preload", "**/ld.so.conf*", "**/profile.d/**",
    "**/rc.local", "**/polkit-1/**", "**/etc/hosts.allow", "**/nsswitch.conf", "**/udev/rules.d/**",
    "**/apt/sources*", "**/modprobe.d/**", "**/security/**", "**/init.d/**",
)  # fmt: skip
"""Files that decide who may do what, or what runs as root."""
PRIVATE = (
    "**.key", "**_key", "**.pem", "**/id_*", "**/.ssh/**", "**shadow*", "**.env", "**secret*",
    "**credential*", "**password*", "**/private/**",
)  # fmt: skip

RUNS = re.compile(r"^Service\.(Exec\w+|RootDirectory|RootImage)$")
RIGHTS = re.compile(
    r"^Service\.(User|Group|SupplementaryGroups|DynamicUser|NoNewPrivileges|Protect\w+|Private\w+|"
    r"Restrict\w+|CapabilityBoundingSet|AmbientCapabilities|SystemCallFilter|SecureBits|"
    r"MemoryDenyWriteExecute|ReadWritePaths|ReadOnlyPaths|InaccessiblePaths|BindPaths)$"
)
LOADED = re.compile(r"LD_PRELOAD|LD_LIBRARY_PATH|LD_AUDIT|PYTHONPATH|NODE_OPTIONS|BASH_ENV")

POD_RIGHTS = re.compile(
    r"(securityContext|hostNetwork|hostPID|hostIPC|hostPath|serviceAccount(Name)?\b|"
    r"automountServiceAccountToken|allowPrivilegeEscalation|privileged|capabilities|runAs\w+)"
)
RULING = ("Role ", "ClusterRole ", "RoleBinding ", "ClusterRoleBinding ", "NetworkPolicy ",
          "PodSecurityPolicy ", "ServiceAccount ")  # fmt: skip


def weigh(finding: DriftFinding) -> Weighed:
    return RULES[finding.scope](finding)


def _files(one: DriftFinding) -> Weighed:
    if one.field == "mode":
        return _mode(one)
    if fits_any(GUARDED, one.object):
        return "dangerous", "it controls access, or what runs as root"
    if one.field in ("owner", "group") and fits_any(PRIVATE, one.object):
        return "dangerous", "it may contain secrets, and its owner has changed"
    return LOOK


def _mode(one: DriftFinding) -> Weighed:
    live, declared = int(one.live, 8), int(one.declared, 8)
    more = live & ~declared
    if more & 0o6000:
        return "dangerous", "setuid or setgid: it runs with its owner's rights"
    if more & 0o002:
        return "dangerous", "every user can write to it"
    if more & 0o077 and fits_any(PRIVATE, one.object):
        return "dangerous", "it may contain secrets, and more users can read it than declared"
    if more & 0o020 and fits_any(GUARDED, one.object):
        return "dangerous", "more users can write to it than declared"
    return LOOK


def _units(one: DriftFinding) -> Weighed:
    named = one.live.partition(" sets ")[2] if one.field.startswith("drop-in ") else one.field
    for name in named.split(", "):
        if RUNS.match(name):
            return "dangerous", "it runs a different program"
        if RIGHTS.match(name):
            return "dangerous", "it runs with different rights than declared"
    if LOADED.search(one.live) or (one.field.startswith("drop-in") and LOADED.search(one.diff)):
        return "dangerous", "undeclared code is loaded into the program"
    if one.field == "mode":
        return _mode(one)
    return LOOK


def _image(one: DriftFinding) -> Weighed:
    if _repository(one.declared) != _repository(one.live):
        return "dangerous", "the image comes from a different repository"
    return "look", "a different version of the image is running"


def _repository(image: str) -> str:
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return head + slash + last.partition(":")[0]


def _compose(one: DriftFinding) -> Weighed:
    if one.field == "image":
        return _image(one)
    if one.field in ("privileged", "cap_add", "network_mode") or "docker.sock" in one.live:
        return "dangerous", "the container has more rights on the machine than declared"
    if one.field.startswith("environment.") and LOADED.search(one.field):
        return "dangerous", "undeclared code is loaded into the program"
    return LOOK


def _packages(one: DriftFinding) -> Weighed:
    if one.field == "extra":
        return "dangerous", "it is declared as not installed"
    return LOOK


def _kubernetes(one: DriftFinding) -> Weighed:
    if one.group in ADMISSION_GROUPS:
        return "dangerous", "it decides what the cluster admits"
    if one.object.startswith(RULING):
        return "dangerous", "it controls access in the cluster"
    if one.field.endswith(".image"):
        return _image(one)
    if POD_RIGHTS.search(one.field) or POD_RIGHTS.search(one.live):
        return "dangerous", "the pods have different rights than declared"
    if one.declared == "not present" and re.search(r"ontainers\[name=[^\]]+\]$", one.field):
        return "dangerous", "the pod has an undeclared container"
    if LOADED.search(one.field):
        return "dangerous", "undeclared code is loaded into the program"
    return LOOK


RULES: Mapping[Scope, Callable[[DriftFinding], Weighed]] = {
    "files": _files,
    "units": _units,
    "compose": _compose,
    "packages": _packages,
    "kubernetes": _kubernetes,
}
