"""What autoscalers set on their own, within the limits that they have been given."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hermes_drift.cluster.fields import ABSENT, Path, amount

KINDS = (
    ("autoscaling", "HorizontalPodAutoscaler"), ("keda.sh", "ScaledObject"),
    ("autoscaling.k8s.io", "VerticalPodAutoscaler"),
)  # fmt: skip
"""Group and kind."""


class Scaling(NamedTuple):
    """An autoscaler that targets a field, and whether the live value is one that it may set."""

    kind: str
    text: str
    within: bool


def scaling_of(
    scalers: Sequence[Mapping[str, Any]], kind: str, name: str, path: Path, live: Any
) -> Scaling | None:
    """Of several autoscalers of a field, the one that allows the live value."""
    found = []
    for scaler in scalers:
        spec = scaler.get("spec") or {}
        target = spec.get("scaleTargetRef") or spec.get("targetRef") or {}
        if (target.get("kind", "Deployment"), target.get("name")) != (kind, name):
            continue
        limits = list(_limits(scaler["kind"], spec, path, live))
        if limits:
            least, most = limits[0][1:]
            between = f"between {_said(least, 'any')} and {_said(most, 'any')}"
            within = all(_within(*one) for one in limits)
            named = f"{scaler['kind']} {scaler['metadata']['name']}"
            verb = "keeps" if within else "would keep"
            found.append(Scaling(scaler["kind"], f"{named} {verb} it {between}", within))
    return max(found, key=lambda one: one.within, default=None)


def _limits(
    kind: str, spec: Mapping[str, Any], path: Path, live: Any
) -> Iterator[tuple[Any, Any, Any]]:
    """Live values with the least and the most that the autoscaler sets; None is no limit."""
    if kind == "VerticalPodAutoscaler":
        yield from _resources(spec, path, live)
    elif path == ("spec", "replicas"):
        if kind == "ScaledObject":
            least = min(spec.get("minReplicaCount", 0), spec.get("idleReplicaCount", 10**9))
            yield live, least, spec.get("maxReplicaCount", 100)
        else:
            yield live, spec.get("minReplicas", 1), spec.get("maxReplicas", 0)


def _resources(spec: Mapping[str, Any], path: Path, live: Any) -> Iterator[tuple[Any, Any, Any]]:
    if "resources" not in path or not path[path.index("resources") - 1].startswith("[name="):
        return
    if (spec.get("updatePolicy") or {}).get("updateMode") == "Off":
        return
    start = path.index("resources")
    container = path[start - 1].removeprefix("[name=").removesuffix("]")
    policies = {
        one.get("containerName", "*"): one
        for one in (spec.get("resourcePolicy") or {}).get("containerPolicies") or ()
    }
    policy = policies.get(container, policies.get("*", {}))
    kinds = ("requests",) if policy.get("controlledValues") == "RequestsOnly" else (
        "requests", "limits"
    )  # fmt: skip
    for inner, value in _leaves(live, path[start + 1 :]):
        known = len(inner) == 2 and inner[0] in kinds
        if not known or inner[1] not in policy.get("controlledResources", ("cpu", "memory")):
            yield ABSENT, None, None  # it never sets this
        elif policy.get("mode") != "Off":
            least, most = ((policy.get(name) or {}).get(inner[1])
                           for name in ("minAllowed", "maxAllowed"))  # fmt: skip
            yield value, least, most


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    else:
        yield path, value


def _within(live: Any, least: Any, most: Any) -> bool:
    number, low, high = amount(live), amount(least), amount(most)
    return (
        number is not None
        and (low is None or low <= number)
        and (high is None or number <= high)
    )  # fmt: skip


def _said(limit: Any, none: str) -> str:
    return none if limit is None else str(limit)
