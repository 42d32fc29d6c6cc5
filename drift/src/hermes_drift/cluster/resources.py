"""The kinds of objects that an API server has: what requests call them, and which have no
namespace."""

import re
from collections.abc import Mapping
from typing import NamedTuple

_VERSION = re.compile(r"v\d\w*")


class ApiKind(NamedTuple):
    plural: str
    """Such as `clusterpolicies`: what requests and the audit log call it."""
    group: str
    kind: str
    namespaced: bool

    @property
    def resource(self) -> str:
        """Unambiguous for kubectl."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def is_admission_policy(self) -> bool:
        """Whether people write it to decide what the cluster admits. Webhooks come from controllers
        as well."""
        written = "Policy" in self.kind or self.group.endswith(".gatekeeper.sh")
        return written and self.group in ADMISSION_GROUPS


ADMISSION_GROUPS = (
    "admissionregistration.k8s.io", "kyverno.io", "policies.kyverno.io", "policies.kubewarden.io",
    "templates.gatekeeper.sh", "constraints.gatekeeper.sh", "mutations.gatekeeper.sh",
    "config.gatekeeper.sh", "externaldata.gatekeeper.sh",
)  # fmt: skip
"""API groups of what decides which objects the cluster admits."""


def group_of(api_version: object) -> str:
    """`apps` of `apps/v1`; empty for the core group."""
    return str(api_version or "").rpartition("/")[0]


def kinds_in(text: str) -> Mapping[tuple[str, str], ApiKind]:
    """What `kubectl api-resources --no-headers` prints, by group and kind. Short names may be
    absent, so the columns count from the right."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 4 or words[-2] not in ("true", "false"):
            continue
        version, namespaced, kind = words[-3:]
        if "/" in version or _VERSION.fullmatch(version):
            one = ApiKind(words[0], group_of(version), kind, namespaced == "true")
            found[one.group, kind] = one
    return found
