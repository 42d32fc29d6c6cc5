"""`hermes policy`: what is in force, whether it is in order, and why."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.cli import Hermes
from tests.support.policies import file_of

NO_RM = file_of("- {id: no-rm, match: {program: rm}, then: deny, reason: rm is not used here}")


def write(hermes: Hermes, name: str, text: str) -> Path:
    folder = hermes.home / "policies"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


def test_the_rules_in_force_are_listed_with_the_users_first(hermes: Hermes) -> None:
    path = write(hermes, "mine", NO_RM)
    told = hermes.good("policy", "list", "--profile", "careful")
    assert str(path) in told
    assert told.index("mine/no-rm") < told.index("careful/")
    listed = hermes.json("policy", "list", "--profile", "careful")
    assert listed["profile"] == "careful"
    assert listed["rules"][0]["rule"] == "mine/no-rm"
    assert listed["files"][0]["rules"] == 1
    assert {"careful", "observe", "operate", "sandbox"} <= listed["profiles"].keys()


def test_the_profile_of_the_settings_is_listed_unless_another_is_named(hermes: Hermes) -> None:
    assert hermes.json("policy")["profile"] == "sandbox"
    assert hermes.json("policy", "list", "--profile", "observe")["profile"] == "observe"
    done = hermes.run("policy", "list", "--profile", "obsrve")
    assert done.returncode == 2
    assert "observe" in done.stderr


def test_all_that_is_wrong_is_told_with_its_place(hermes: Hermes) -> None:
    one = write(hermes, "one", file_of("- {id: a, match: {progam: rm}, then: deny}"))
    two = write(hermes, "two", "version: 1\nrules: [\n")
    done = hermes.run("policy", "check")
    assert done.returncode == 1
    assert f"{one}:3:21: match has no key 'progam'\n  hint: did you mean 'program'?" in done.stdout
    assert f"{two}:3:1: this is not YAML" in done.stdout
    told = json.loads(hermes.run("policy", "check", "--json").stdout)
    assert [(row["path"], row["line"]) for row in told["problems"]] == [
        (str(one), 3),
        (str(two), 3),
    ]


def test_a_broken_file_is_told_where_somebody_starts(hermes: Hermes) -> None:
    write(hermes, "two", "version: 1\nrules: [\n")
    for words in (("ask", "hello"), ("chat",), ("up",), ("status",)):
        done = hermes.run(*words, input="hello\n")
        told = done.stdout + done.stderr
        assert done.returncode == 0, told
        assert "every effect is denied: " in told, words
        assert "two.yaml:3:1: this is not YAML" in told


def test_a_file_that_is_not_in_force_can_be_checked(hermes: Hermes, tmp_path: Path) -> None:
    draft = tmp_path / "draft.yaml"
    draft.write_text(NO_RM)
    assert "checked: 1, all valid" in hermes.good("policy", "check", str(draft))
    assert hermes.run("policy", "check", str(tmp_path / "none.yaml")).returncode == 1


def test_a_failing_test_is_shown_with_what_was_expected_and_what_came(
    hermes: Hermes, tmp_path: Path
) -> None:
    draft = tmp_path / "draft.yaml"
    draft.write_text(
        f"{NO_RM}tests:\n  - {{run: rm a, expect: ask}}\n  - {{run: ls, expect: allow}}\n"
    )
    done = hermes.run("policy", "test", str(draft))
    assert done.returncode == 1
    assert (
        f"{draft}:5: rm a\n  expected ask\n  got deny by draft/no-rm: rm is not used" in done.stdout
    )
    assert "tests: 2, failed: 1" in done.stdout
    told = json.loads(hermes.run("policy", "test", str(draft), "--json").stdout)
    assert [row["passed"] for row in told["tests"]] == [False, True]


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        (["rm -rf /"], "deny"),
        (["rm -rf build"], "ask"),
        (["ls"], "allow"),
        (["--tool", "read_file", "--input", '{"path": "a"}'], "allow"),
        (["--tool", "read_file", "--input", '{"path": "server.key"}'], "ask"),
        (["--tool", "somebodys_tool"], "allow"),
    ],
)
def test_a_verdict_is_explained(hermes: Hermes, words: list[str], verdict: str) -> None:
    told = hermes.json("policy", "explain", *words, "--profile", "careful")
    assert told["verdict"] == verdict
    assert told["acts"][0]["kind"] == "call"
    assert hermes.good("policy", "explain", *words, "--profile", "careful").startswith(verdict)


def test_an_explanation_says_where_a_command_would_run_here(hermes: Hermes, tmp_path: Path) -> None:
    told = hermes.json("policy", "explain", "ls | wc -l", "--profile", "careful")
    assert (told["verdict"], told["confinement"]) == ("allow", "read-only")
    bare = tmp_path / "bin"  # a machine without bubblewrap
    bare.mkdir()
    (bare / "bash").symlink_to(shutil.which("bash") or "")
    for confine, verdict in (("preferred", "allow"), ("required", "ask")):
        hermes.good("config", "set", "terminal.confine", confine)
        done = hermes.run(
            "policy", "explain", "ls", "--profile", "careful", "--json", PATH=str(bare)
        )
        told = json.loads(done.stdout)
        assert (told["verdict"], told["confinement"]) == (verdict, "none")
    told = hermes.run("doctor", PATH=str(bare), HERMES_POLICY="careful").stdout
    assert "bubblewrap is not installed" in told


def test_an_explanation_says_what_holds_programs_outside(hermes: Hermes) -> None:
    command = "kubectl get pods; ls | xargs docker inspect; sudo systemctl status x; dmesg | tail"
    told = hermes.json("policy", "explain", command, "--profile", "careful")
    fronts = {"dmesg": "none", "docker": "engine", "kubectl": "kubernetes", "systemctl": "none"}
    assert told["fronts"] == fronts
    text = hermes.good("policy", "explain", command, "--profile", "careful")
    assert "limited there: docker by engine, kubectl by kubernetes" in text


def test_an_explanation_names_the_acts_the_rules_and_a_rule_that_would_allow_it(
    hermes: Hermes,
) -> None:
    write(hermes, "mine", file_of("- {id: hmm, match: {program: rm}, then: ask, reason: really}"))
    told = hermes.good("policy", "explain", "rm x", "--profile", "careful")
    assert "program: rm x" in told
    assert "> ask     mine/hmm" in told
    assert "    ask     careful/deleting" in told
    assert "a rule that would allow it:" in told


def test_a_broken_file_is_the_explanation(hermes: Hermes) -> None:
    path = write(hermes, "mine", "version: 1\nrules: 3\n")
    told = hermes.json("policy", "explain", "ls")
    assert told["verdict"] == "deny"
    assert f"{path}:2:8" in told["reason"]
    done = hermes.run("policy", "list")
    assert done.returncode == 1
    assert f"{path}:2:8" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["ls", "--tool", "read_file"],
        ["--tool", "x", "--input", "{"],
        ["--tool", "x", "--input", "[1]"],
        ["  "],
    ],
)
def test_a_question_that_makes_no_sense_is_refused(hermes: Hermes, words: list[str]) -> None:
    done = hermes.run("policy", "explain", *words)
    assert done.returncode == 2
    assert "hint:" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["kubectl", "get", "po"], 'put it in quotes: "kubectl get po"'),
        (["ls", "--terminal", "prod"], "available: local, sandbox"),
        (["ls", "--place", "docker"], "container"),
        (["--tool", "read_fil", "--input", "{}"], "read_file"),
    ],
)
def test_a_name_that_there_is_not_is_refused_with_the_list(
    hermes: Hermes, words: list[str], told: str
) -> None:
    done = hermes.run("policy", "explain", *words)
    assert done.returncode == 2
    assert told in done.stderr


def test_the_kind_of_a_terminal_is_looked_up(hermes: Hermes) -> None:
    write(hermes, "mine", file_of("- {id: no, match: {place: sandbox}, then: deny}"))
    assert hermes.json("policy", "explain", "ls", "--terminal", "sandbox")["verdict"] == "deny"
    assert hermes.json("policy", "explain", "ls", "--terminal", "local")["verdict"] == "allow"


def test_secrets_that_would_be_given_are_named(hermes: Hermes) -> None:
    write(hermes, "mine", file_of("- {id: x, match: {program: ls}, then: allow, secrets: TOKEN}"))
    assert "it would get these secrets: TOKEN" in hermes.good("policy", "explain", "ls")


def test_a_file_that_does_not_go_with_the_others_is_neither_in_order_nor_added(
    hermes: Hermes, tmp_path: Path
) -> None:
    draft = tmp_path / "draft.yaml"
    draft.write_text("version: 1\nprofile: mine\nextends: carefull\n")
    for action in ("check", "test", "add"):
        done = hermes.run("policy", action, str(draft))
        assert done.returncode == 1
        assert f"{draft}:3:10: it extends 'carefull'" in done.stdout + done.stderr
        assert "did you mean 'careful'?" in done.stdout + done.stderr
    taken = tmp_path / "always.yaml"
    taken.write_text(NO_RM)
    assert "Hermes has one" in hermes.run("policy", "add", str(taken)).stderr
    assert not (hermes.home / "policies").exists()


def test_a_file_whose_name_is_none_of_a_policy_is_not_added(hermes: Hermes, tmp_path: Path) -> None:
    draft = tmp_path / "draft.txt"
    draft.write_text(NO_RM)
    done = hermes.run("policy", "add", str(draft))
    assert done.returncode == 2
    assert "NAME.yaml" in done.stderr
