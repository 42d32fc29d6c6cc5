"""How grave a finding is, before patterns count."""

import re
from collections.abc import Callable, Mapping

from hermes_drift.matching import fits_any
from hermes_drift.values import DriftFinding, Scope, Weight

Weighed = tuple[Weight, str]
LOOK: Weighed = ("look", "it is not as declared")

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
          "ValidatingWebhookConfiguration ", "MutatingWebhookConfiguration ", "PodSecurityPolicy ",
          "ServiceAccount ")  # fmt: skip


def weigh(finding: DriftFinding) -> Weighed:
    return RULES[finding.scope](finding)


def _files(one: DriftFinding) -> Weighed:
    if one.field == "mode":
        return _mode(one)
    if fits_any(GUARDED, one.object):
        return "dangerous", "it decides who may do what, or what runs as root"
    if one.field in ("owner", "group") and fits_any(PRIVATE, one.object):
        return "dangerous", "it may hold secrets, and belongs to somebody else"
    return LOOK


def _mode(one: DriftFinding) -> Weighed:
    live, declared = int(one.live, 8), int(one.declared, 8)
    more = live & ~declared
    if more & 0o6000:
        return "dangerous", "it runs with the rights of its owner, whoever starts it"
    if more & 0o002:
        return "dangerous", "everybody may write to it"
    if more & 0o077 and fits_any(PRIVATE, one.object):
        return "dangerous", "it may hold secrets, and more may read it than is declared"
    if more & 0o020 and fits_any(GUARDED, one.object):
        return "dangerous", "more may write to it than is declared"
    return LOOK


def _units(one: DriftFinding) -> Weighed:
    named = one.live.partition(" sets ")[2] if one.field.startswith("drop-in ") else one.field
    for name in named.split(", "):
        if RUNS.match(name):
            return "dangerous", "another program is run"
        if RIGHTS.match(name):
            return "dangerous", "it runs with other rights than are declared"
    if LOADED.search(one.live) or (one.field.startswith("drop-in") and LOADED.search(one.diff)):
        return "dangerous", "other code is loaded into the program"
    if one.field == "mode":
        return _mode(one)
    return LOOK


def _image(one: DriftFinding) -> Weighed:
    if _repository(one.declared) != _repository(one.live):
        return "dangerous", "the image comes from elsewhere"
    return "look", "another version of the image runs"


def _repository(image: str) -> str:
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return head + slash + last.partition(":")[0]


def _compose(one: DriftFinding) -> Weighed:
    if one.field == "image":
        return _image(one)
    if one.field in ("privileged", "cap_add", "network_mode") or "docker.sock" in one.live:
        return "dangerous", "the container has more rights on the machine than are declared"
    if one.field.startswith("environment.") and LOADED.search(one.field):
        return "dangerous", "other code is loaded into the program"
    return LOOK


def _packages(one: DriftFinding) -> Weighed:
    if one.field == "extra":
        return "dangerous", "it is declared that it must not be there"
    return LOOK


def _kubernetes(one: DriftFinding) -> Weighed:
    if one.object.startswith(RULING):
        return "dangerous", "it decides who may do what in the cluster"
    if one.field.endswith(".image"):
        return _image(one)
    if POD_RIGHTS.search(one.field) or POD_RIGHTS.search(one.live):
        return "dangerous", "the pods have other rights than are declared"
    if one.declared == "not there" and re.search(r"ontainers\[name=[^\]]+\]$", one.field):
        return "dangerous", "a container that is not declared runs beside those that are"
    if LOADED.search(one.field):
        return "dangerous", "other code is loaded into the program"
    return LOOK


RULES: Mapping[Scope, Callable[[DriftFinding], Weighed]] = {
    "files": _files,
    "units": _units,
    "compose": _compose,
    "packages": _packages,
    "kubernetes": _kubernetes,
}
