"""`hermes manifests` as a person and a build machine run it."""

import json
from pathlib import Path

import pytest

from tests.support.cli import Hermes

BAD = """\
apiVersion: v1
kind: Pod
metadata: {name: "we,b:1%"}
spec:
  containers:
    - {name: web, image: nginx}
"""
DRIVER = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: calico-node, namespace: kube-system}
spec: {template: {spec: {hostNetwork: true, containers: [{name: node, image: "calico:3.1"}]}}}
"""


@pytest.fixture
def hermes(tmp_path: Path) -> Hermes:
    return Hermes(tmp_path)


def test_findings_are_said_with_their_place_and_the_way_out(hermes: Hermes) -> None:
    (hermes.work / "bad.yaml").write_text(BAD)
    done = hermes.run("manifests", "check", "bad.yaml")
    assert done.returncode == 1
    assert "bad.yaml:6:26: error: Pod we,b:1%, container web: the image nginx" in done.stdout
    assert done.stdout.count("fix: use a version tag") == 1
    told = json.loads(hermes.run("manifests", "check", "bad.yaml", "--json").stdout)
    assert told["ok"] is False
    image = next(one for one in told["findings"] if one["rule"] == "image-tag")
    assert (image["line"], image["column"], image["container"]) == (6, 26, "web")


def test_a_pull_request_gets_annotations(hermes: Hermes) -> None:
    done = hermes.run("manifests", "check", "--format", "github", "-", input=BAD)
    assert done.returncode == 1
    line = next(one for one in done.stdout.splitlines() if "image-tag" in one)
    assert line.startswith("::error file=-,line=6,col=26,title=image-tag%3A Pod we%2Cb%3A1%25::")
    assert "%0Afix: " in line


def test_what_is_let_off_is_shown_and_counts_as_clean(hermes: Hermes) -> None:
    (hermes.work / "deploy").mkdir()
    (hermes.work / "deploy" / "calico.yaml").write_text(DRIVER)
    told = hermes.good("manifests", "check", "deploy", "--strict")
    assert "waived:" in told
    assert "hostNetwork is true [host-namespaces]" in told
    assert "these components belong to the cluster itself" in told


def test_warnings_fail_only_where_that_is_asked_for(hermes: Hermes) -> None:
    (hermes.home).mkdir()
    rules = "extends: nothing\nrules: {image-tag: {level: warning}}\n"
    (hermes.home / "manifests.yaml").write_text(rules)
    assert hermes.run("manifests", "check", "-", input=BAD).returncode == 0
    assert hermes.run("manifests", "check", "--strict", "-", input=BAD).returncode == 1
    assert [row["rule"] for row in hermes.json("manifests", "rules")] == ["image-tag"]


@pytest.mark.parametrize(
    "words",
    [
        ["check"],
        ["check", "nowhere.yaml"],
        ["check", "."],
        ["check", "-", "--policy", "nowhere.yaml"],
        ["check", "-", "--format", "xml"],
    ],
)
def test_a_wrong_request_is_told_from_a_finding(hermes: Hermes, words: list[str]) -> None:
    done = hermes.run("manifests", *words)
    assert done.returncode == 2
    assert "hint: " in done.stderr


def test_an_empty_pipe_is_no_success(hermes: Hermes) -> None:
    done = hermes.run("manifests", "check", "-", input="\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "standard input is empty" in done.stderr


def test_the_rules_in_force_are_listed(hermes: Hermes) -> None:
    told = hermes.good("manifests")
    assert "run-as-non-root" in told
    assert "policy.yaml" in told
