"""Manifests against the policy: what is found, where, what is waived, and what cannot be read."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.core.errors import UsageError
from hermes_drift.manifests.check import CheckedManifests, check, manifest_files, read
from hermes_drift.manifests.documents import documents
from hermes_drift.manifests.objects import POD_AT
from hermes_drift.manifests.policy import SHIPPED, Policy, load
from hermes_drift.manifests.rules import BUILT_IN, image_tag

GOOD_CONTAINER = """
name: web
image: registry.example.com:5000/shop/web:1.4.2
resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 256Mi}}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true}
readinessProbe: {httpGet: {path: /ready, port: 8080}}
livenessProbe: {httpGet: {path: /live, port: 8080}}
"""
LABELS = {"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop"}


def manifest(kind: str = "Deployment", name: str = "web", **more: object) -> dict[str, object]:
    """A good one. `container`, `pod` and `metadata` add to its parts; `beside` are more keys of the
    pod's spec."""
    import yaml

    def part(key: str) -> dict[str, object]:
        given = more.get(key, {})
        assert isinstance(given, dict)
        return given

    container = {**yaml.safe_load(GOOD_CONTAINER), **part("container")}
    spec = {"securityContext": {"runAsNonRoot": True}, "containers": [container], **part("pod")}
    whole: dict[str, object] = {"metadata": {"labels": LABELS}, "spec": spec}
    for key in reversed(POD_AT[kind]):
        whole = {key: whole}
    about = {"name": name, "labels": LABELS, **part("metadata")}
    return {"apiVersion": "apps/v1", "kind": kind, **whole, "metadata": about}


def found(text: str | dict[str, object], policy: Policy | None = None) -> CheckedManifests:
    written = text if isinstance(text, str) else json.dumps(text)
    return check([("web.yaml", written)], policy or load())


def rules(checked: CheckedManifests) -> set[str]:
    return {finding.rule for finding in checked.findings}


def own(folder: Path, text: str) -> Policy:
    path = folder / "own.yaml"
    path.write_text(text)
    return load(path)


def test_containers_are_checked_in_workloads_of_every_kind() -> None:
    for kind in POD_AT:
        good = found(manifest(kind))
        assert (good.findings, good.objects, good.workloads) == ([], 1, 1), kind
        bad = manifest(kind, container={"securityContext": {"privileged": True}})
        assert "privileged" in rules(found(bad)), kind


@pytest.mark.parametrize(
    ("rule", "container"),
    [
        ("image-tag", {"image": "nginx"}),
        ("image-tag", {"image": "nginx:latest"}),
        ("image-tag", {"image": "registry:5000/nginx"}),
        ("image-tag", {"image": None}),
        ("requests", {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}),
        ("limits", {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}),
        ("run-as-non-root", {"securityContext": {"runAsNonRoot": False}}),
        ("run-as-non-root", {"securityContext": {"runAsUser": 0}}),
        ("run-as-non-root", {"securityContext": {"runAsNonRoot": "true"}}),
        ("capabilities", {"securityContext": {"capabilities": {"add": ["CAP_SYS_ADMIN"]}}}),
        ("read-only-root", {"securityContext": {}}),
        ("privilege-escalation", {"securityContext": {"allowPrivilegeEscalation": True}}),
        ("host-port", {"ports": [{"containerPort": 80, "hostPort": 80}]}),
        ("readiness-probe", {"readinessProbe": None}),
        ("liveness-probe", {"livenessProbe": None}),
        ("plain-secret", {"env": [{"name": "DB_PASSWORD", "value": "hunter22"}]}),
    ],
)
def test_what_a_container_lacks_is_found(rule: str, container: dict[str, object]) -> None:
    assert rule in rules(found(manifest(container=container)))


@pytest.mark.parametrize(
    ("rule", "pod"),
    [
        ("host-namespaces", {"hostNetwork": True}),
        ("host-namespaces", {"hostPID": True}),
        ("host-path", {"volumes": [{"name": "x", "hostPath": {"path": "/etc"}}]}),
        ("shape", {"containers": []}),
        ("run-as-non-root", {"securityContext": None}),
        ("requests", {"initContainers": [{"name": "i", "image": "a:1"}]}),
        ("privileged", {"initContainers": [{"securityContext": {"privileged": True}}]}),
        ("privileged", {"ephemeralContainers": [{"securityContext": {"privileged": True}}]}),
    ],
)
def test_what_a_pod_does_is_found(rule: str, pod: dict[str, object]) -> None:
    assert rule in rules(found(manifest(pod=pod)))


@pytest.mark.parametrize(
    "container",
    [
        {"image": "nginx@sha256:" + "a" * 64},
        {"image": "nginx:latest@sha256:" + "a" * 64},
        {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
        {"env": [{"name": "TOKEN_TTL", "value": "3600s"}, {"name": "API_KEY_FILE", "value": "/k"}]},
        {"env": [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}]},
    ],
)
def test_what_only_looks_wrong_is_left_alone(container: dict[str, object]) -> None:
    assert found(manifest(container=container)).findings == []


def test_the_container_has_the_last_word_on_root() -> None:
    pod = {"securityContext": {"runAsNonRoot": False}}
    safe = {"runAsNonRoot": True, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}
    assert found(manifest(pod=pod, container={"securityContext": safe})).findings == []
    numbered = {"securityContext": {"runAsUser": 1000}}
    assert found(manifest(pod=numbered)).findings == []


def test_a_job_needs_no_readiness_probe() -> None:
    bare = {"readinessProbe": None, "livenessProbe": None}
    assert found(manifest("CronJob", container=bare)).findings == []
    assert rules(found(manifest(container=bare))) == {"readiness-probe", "liveness-probe"}


def test_labels_are_asked_of_the_object_and_of_its_pods() -> None:
    bad = manifest(metadata={"labels": {}})
    assert [one.message for one in found(bad).findings] == [
        "the object lacks the labels app.kubernetes.io/name, app.kubernetes.io/part-of"
    ]


def test_a_finding_says_where_it_stands() -> None:
    text = "# first\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
    text += "    - name: web\n      image: nginx:latest\n"
    finding = next(one for one in found(text).findings if one.rule == "image-tag")
    assert (finding.path, finding.line, finding.column) == ("web.yaml", 9, 14)
    assert (finding.object, finding.container) == ("Pod p", "web")
    assert finding.why
    assert finding.fix


# documents


def test_anchors_merge_keys_and_lists_are_read_as_a_cluster_reads_them() -> None:
    text = """
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Pod
    metadata: &about {name: a, labels: {app.kubernetes.io/name: a, app.kubernetes.io/part-of: s}}
    spec: &spec
      securityContext: {runAsNonRoot: true}
      containers:
        - &one
          name: one
          image: a:1
          securityContext: {allowPrivilegeEscalation: no, readOnlyRootFilesystem: yes}
          resources: {limits: {cpu: 1, memory: 1Gi}}
  - apiVersion: v1
    kind: Pod
    metadata: *about
    spec:
      <<: *spec
      containers:
        - <<: *one
          image: a:latest
"""
    checked = found(text)
    assert checked.workloads == 2
    assert [one.rule for one in checked.findings] == ["image-tag"]


def test_a_broken_document_does_not_hide_the_others() -> None:
    bad = json.dumps(manifest(container={"image": "nginx"}))
    checked = found(f"a: [\n---\n{bad}\n---\n# empty\n---\n---\nb: {{{{ .Values.x }}}}: c\n")
    assert [(one.rule, one.line) for one in checked.findings if one.rule == "yaml"] == [
        ("yaml", 2),
        ("yaml", 8),
    ]
    assert "helm template" in next(one.fix for one in checked.findings if one.line == 8)
    assert "image-tag" in rules(checked)


def test_an_empty_stream_holds_nothing() -> None:
    for text in ("", "---\n", "# nothing\n", "---\n---\n...\n", "\ufeff---\n"):
        checked = found(text)
        assert (checked.findings, checked.objects, checked.unchecked) == ([], 0, []), text


def test_directives_belong_to_the_document_after_them() -> None:
    checked = found("%YAML 1.2\n---\n" + json.dumps(manifest()))
    assert (checked.findings, checked.objects) == ([], 1)


def test_what_is_no_manifest_is_counted_and_left() -> None:
    checked = found("replicas: 3\nimage: nginx:latest\n")
    (left,) = checked.unchecked
    assert (checked.findings, left.reason, left.line) == ([], "not a manifest", 1)


def test_a_name_that_is_given_twice_is_said() -> None:
    twice = found("apiVersion: v1\nkind: ConfigMap\nkind: ConfigMap\n")
    assert [(one.rule, one.line) for one in twice.findings] == [("yaml", 3)]


def test_aliases_that_unfold_without_end_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for number in range(1, 10):
        inner = ", ".join([f"*a{number - 1}"] * 10)
        lines.append(f"a{number}: &a{number} [{inner}]")
    checked = found("\n".join(lines))
    assert "expand" in checked.findings[0].message


@pytest.mark.parametrize("text", ["[" * 5_000, "a: *nowhere", "a: &a [*a]", "? [a]\n: b", "\x07"])
def test_hostile_yaml_is_a_finding(text: str) -> None:
    assert rules(found(text)) == {"yaml"}


def test_a_huge_stream_is_read_to_its_end() -> None:
    many = "\n---\n".join(json.dumps(manifest(name=f"web-{number}")) for number in range(300))
    checked = found(many + "\n---\n" + json.dumps(manifest(container={"image": "x"})))
    assert checked.workloads == 301
    assert [one.rule for one in checked.findings] == ["image-tag"]


# exceptions


def test_shipped_exceptions_are_used_and_shown() -> None:
    volume = {"volumes": [{"name": "x", "hostPath": {"path": "/var/lib/kubelet"}}]}
    driver = found(manifest("DaemonSet", "ebs-csi-node", pod=volume))
    assert driver.findings == []
    (one,) = driver.let_off
    assert one.finding.rule == "host-path"
    assert one.by.startswith(f"{SHIPPED}:")
    assert "storage" in one.reason
    assert rules(found(manifest("Deployment", "ebs-csi-node", pod=volume))) == {"host-path"}


@pytest.mark.parametrize(
    ("annotation", "left"),
    [
        ("host-path: it reads the clock of the node", set()),
        ("host-path, privileged: the node itself;", {"ignore"}),
        ("host-path", {"host-path", "ignore"}),
        ("hostpath: because", {"host-path", "ignore"}),
    ],
)
def test_an_annotation_lets_off_what_it_names_with_a_reason(
    annotation: str, left: set[str]
) -> None:
    bad = manifest(
        pod={"volumes": [{"name": "x", "hostPath": {"path": "/dev/rtc"}}]},
        metadata={"annotations": {"hermes/ignore": annotation}},
    )
    assert rules(found(bad)) == left


def test_an_own_policy_is_laid_over_the_shipped_one(tmp_path: Path) -> None:
    policy = own(
        tmp_path,
        """
rules:
  labels: {want: [team]}
  limits: {want: [cpu, memory]}
  read-only-root: {level: off}
  privileged: {ignorable: false}
  image-tag:
    except:
      - {image: "registry.example.com/*", reason: our registry knows no latest}
own:
  - id: own-registry
    about: container
    must: container.image.startsWith("registry.example.com/")
    message: images come from our registry
  - id: no-node-port
    kinds: [Service]
    must: manifest.spec.type != "NodePort"
    message: no node ports
""",
    )
    assert policy.rules["limits"].level == "error"
    image = {"image": "registry.example.com/web:latest", "securityContext": {"privileged": True}}
    bad = manifest(container=image, metadata={"annotations": {"hermes/ignore": "privileged: x"}})
    checked = found(bad, policy)
    assert rules(checked) == {"labels", "limits", "privileged", "privilege-escalation", "ignore"}
    assert [one.finding.rule for one in checked.let_off] == ["image-tag"]
    assert "own-registry" in rules(found(manifest(), policy))
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    assert rules(found({**service, "spec": {"type": "NodePort"}}, policy)) == {"no-node-port"}
    assert found({**service, "spec": {"type": "ClusterIP"}}, policy).findings == []
    assert "Key not found" in found({**service, "spec": {}}, policy).findings[0].message


def test_a_policy_can_begin_from_nothing(tmp_path: Path) -> None:
    policy = own(tmp_path, "extends: nothing\nrules: {image-tag: {level: warning}}\n")
    checked = found("apiVersion: v1\nkind: Pod\nspec: {containers: [{image: x}]}", policy)
    assert [(one.rule, one.level) for one in checked.findings] == [("image-tag", "warning")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: {labls: {}}", "labels"),
        ("rules: {labels: {level: fatal}}", "fatal"),
        ("rules: []", "mapping"),
        ("rules: {labels: {kinds: [Deploiment]}}", "Deployment"),
        ("except: [{rules: labels, name: x}]", "reason"),
        ("except: [{rules: labels, reason: x}]", "matches everything"),
        ("except: [{name: x, reason: x}]", "rules"),
        ("own: [{id: x, message: y}]", "must"),
        ("own: [{id: x, message: y, must: nmae == 'x'}]", "undeclared"),
        ("own: [{id: x, message: y, must: name}]", "must be a boolean"),
        ("own: [{id: labels, message: y, must: 'true'}]", "already"),
        ("a: [", "not YAML"),
    ],
)
def test_a_policy_that_is_wrong_says_where(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        own(tmp_path, text)
    assert said in str(caught.value)
    assert "own.yaml:" in str(caught.value)


def test_the_shipped_policy_has_a_reason_and_a_way_out_for_every_rule() -> None:
    policy = load()
    assert policy.rules.keys() == BUILT_IN.keys()
    assert [rule.id for rule in policy.rules.values() if not rule.why or not rule.fix] == []


# files


def test_files_of_a_folder_are_found_but_hidden_ones_are_not(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "deep/c.json", ".git/d.yaml", "e.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    names = [str(path.relative_to(tmp_path)) for path in manifest_files(tmp_path)]
    assert names == ["a.yaml", "b.yml", "deep/c.json"]
    (tmp_path / "b.yml").write_bytes(b"\xff\xfe\x00")
    unread = read(tmp_path / "b.yml")
    assert not isinstance(unread, str)
    assert "UTF-8" in unread.message


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("nginx", ""), ("nginx:1", "1"), ("r:5000/nginx", ""), ("r:5000/a/nginx:2", "2"),
        ("nginx@sha256:" + "0" * 64, None), ("nginx:1@sha256:" + "0" * 64, None),
        ("nginx@sha256:short", ""), ("", ""),
    ],
)  # fmt: skip
def test_the_tag_of_an_image_is_told_from_a_port(image: str, tag: str | None) -> None:
    assert image_tag(image) == tag


# anything at all

_KEYS = st.sampled_from(
    [
        "apiVersion", "kind", "metadata", "spec", "template", "containers", "initContainers",
        "items", "image", "securityContext", "volumes", "hostPath", "resources", "env", "<<",
        "labels", "annotations", "hermes/ignore", "runAsNonRoot", "privileged", "ports", "name",
    ]
)  # fmt: skip
_LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from(
    ["Deployment", "Pod", "CronJob", "List", "PodList", "v1", "nginx", "host-path: x", "", "yes"]
)  # fmt: skip
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=25,
)


@given(tree=_TREES, kind=st.sampled_from(sorted(POD_AT)))
@settings(max_examples=150, deadline=None)
def test_whatever_stands_in_a_manifest_is_checked_to_the_end(tree: object, kind: str) -> None:
    at = {"spec": tree}
    for key in reversed(POD_AT[kind]):
        at = {key: at}
    for text in (tree, {"apiVersion": "v1", "kind": kind, **at}):
        for one in found(json.dumps(text)).findings:
            assert one.line >= 1
            assert one.message


@given(text=st.text(max_size=200) | st.text("-{}[]:#&*!|>\n \t'\"a%<", max_size=60))
@settings(max_examples=150, deadline=None)
def test_whatever_is_piped_in_is_read_to_the_end(text: str) -> None:
    for document in documents(text):
        assert document.root is not None or all(one.line >= 1 for one in document.troubles)
    assert found(text).files == 1
