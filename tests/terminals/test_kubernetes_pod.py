"""What a cluster is asked for, and trouble before there is one. No cluster is needed here."""

import re
from pathlib import Path

import pytest
import yaml

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.settings.terminals import KubernetesPlace, Limits
from hermes_agent.terminals.kubernetes import transport
from hermes_agent.terminals.kubernetes.pod import isolation_of, laid_over, name_of, pod_of


def test_a_pod_can_do_little() -> None:
    pod = pod_of(KubernetesPlace(image="i", limits=Limits(memory_mb=64, cpus=0.5)), "s")
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["resources"]["limits"] == {"cpu": "0.5", "memory": "64Mi"}
    assert container["resources"]["requests"] == {"cpu": "0.1", "memory": "64Mi"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)


def test_the_policy_is_of_this_pod_only_and_lets_nothing_through() -> None:
    pod, policy = pod_of(KubernetesPlace(image="i"), "s"), isolation_of("s")
    assert policy["spec"]["podSelector"]["matchLabels"] == pod["metadata"]["labels"]
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & set(policy["spec"])
    assert isolation_of("t")["spec"]["podSelector"] != policy["spec"]["podSelector"]


def test_fields_of_the_manifest_are_laid_over_by_name() -> None:
    manifest: dict[str, object] = {
        "nodeSelector": {"disk": "fast"},
        "enableServiceLinks": None,
        "securityContext": {"runAsUser": 2000},
        "containers": [
            {"name": "hermes", "env": [{"name": "A", "value": "b"}]},
            {"name": "helper", "image": "h"},
        ],
    }
    spec = pod_of(KubernetesPlace(image="i", manifest=manifest), "s")["spec"]
    assert spec["nodeSelector"] == {"disk": "fast"}
    assert "enableServiceLinks" not in spec
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["runAsGroup"]) == (
        2000,
        1000,
    )
    assert [container["name"] for container in spec["containers"]] == ["hermes", "helper"]
    assert [each["name"] for each in spec["containers"][0]["env"]] == ["HOME", "A"]
    assert spec["containers"][0]["image"] == "i"
    assert laid_over([1, 2], [3]) == [3]


@pytest.mark.parametrize("session", ["abc", "A b/ü", "-x", "x-", "y" * 200, ""])
def test_every_session_has_a_name_that_clusters_take(session: str) -> None:
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name_of(session))
    assert name_of(session) != name_of(session + "z")


async def test_without_a_config_the_way_to_one_is_named(tmp_path: Path) -> None:
    found = await transport.check(None, {"HOME": str(tmp_path)})
    assert found.startswith(f"no kubeconfig at '{tmp_path}/.kube/config'")
    assert "KUBECONFIG" in found


async def test_either_a_pod_or_an_image_must_be_named(tmp_path: Path) -> None:
    for place in (KubernetesPlace(), KubernetesPlace(image="i", pod="p")):
        assert "either `image` or `pod`" in await transport.check(place, {})
        with pytest.raises(UsageError, match="either"):
            transport.transport(place, session="s", workspace="", folder=tmp_path, environ={})


async def test_a_context_that_is_not_in_the_config_is_named(tmp_path: Path) -> None:
    place = KubernetesPlace(image="i", context="elsewhere", kubeconfig=config(tmp_path, 1))
    assert "elsewhere" in await transport.check(place, {})


async def test_a_config_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("{")
    place = KubernetesPlace(image="i", kubeconfig=str(tmp_path / "config"))
    assert f"'{tmp_path}/config' cannot be used" in await transport.check(place, {})


async def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path) -> None:
    place = KubernetesPlace(image="i", kubeconfig=config(tmp_path, 1))
    assert "https://127.0.0.1:1 cannot be reached" in await transport.check(place, {})
    pod = transport.transport(place, session="s", workspace="", folder=tmp_path, environ={})
    with pytest.raises(HermesError, match="cannot be reached"):
        await pod.ready()
    with pytest.raises(ConnectionError):
        await pod.call(["true"])
    await pod.close()


def config(folder: Path, port: int) -> str:
    described = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (folder / "config").write_text(yaml.safe_dump(described))
    return str(folder / "config")
