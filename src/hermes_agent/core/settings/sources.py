"""Settings of what the agent can look at in production: metrics, logs, clusters, databases."""

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct

from hermes_agent.core.text.addresses import host_of

SourceKind = Literal[
    "prometheus", "alertmanager", "loki", "opensearch", "kubernetes", "containers", "postgresql",
    "mysql", "redis", "github", "gitlab", "gitea", "argocd",
]  # fmt: skip
SecretName = Annotated[str, Meta(
    pattern=r"^(secret:[A-Za-z_]\w*)?$", description="`secret:` and the name of a secret"
)]  # fmt: skip

SECRET_REFERENCE = re.compile(r"secret:([A-Za-z_]\w*)")


class SourceSettings(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    kind: SourceKind
    """What it is. VictoriaMetrics and Thanos are `prometheus`, Elasticsearch is `opensearch`; Flux
    is seen through `kubernetes`."""
    url: str = ""
    """Its address: `https://…`, `postgresql://HOST/DATABASE`, `redis://HOST`, or `unix://…` for
    containers. A kubeconfig has the address of `kubernetes`."""
    user: str = ""
    """The user name for databases and basic authentication."""
    password: SecretName = ""
    """`secret:NAME` of its password."""
    token: SecretName = ""
    """`secret:NAME` of its bearer token."""
    headers: dict[str, str] = {}
    """More HTTP headers; `secret:NAME` anywhere in a value is replaced by a secret."""
    ca_file: str = ""
    """Certificates to trust besides the system's."""
    kubeconfig: str = ""
    """The kubeconfig of `kubernetes`; empty means KUBECONFIG, then ~/.kube/config, then the pod's
    own account."""
    context: str = ""
    """The context in the kubeconfig."""
    index: str = ""
    """The index or pattern in which `opensearch` looks for logs."""
    repositories: tuple[str, ...] = ()
    """The repositories of a Git host, as `owner/name`, that "what changed" looks at."""
    timeout_seconds: Annotated[float, Meta(gt=0)] = 15.0
    """How long to wait for an answer."""
    enabled: bool = True
    """False turns the source off."""

    @property
    def destination(self) -> str:
        """The host that it connects to, or the socket as `unix:///path`."""
        return self.url if self.url.startswith("unix:") else host_of(self.url)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets it uses."""
        values = (self.password, self.token, *self.headers.values())
        return tuple(name for value in values for name in SECRET_REFERENCE.findall(value))
