"""The gate's past: the audit log, what other rules would have said, why; answers that last."""

import json
import shutil
from pathlib import Path
from typing import Any

import apsw
import yaml

from tests.support.cli import Hermes, wait_until
from tests.support.policies import file_of

TWO = """
turns:
  - replies:
      - calls: [{tool: terminal, with: {command: "echo one > made.txt"}}]
      - calls: [{tool: terminal, with: {command: "ls"}}]
      - say: done
  - replies:
      - calls: [{tool: terminal, with: {command: "echo two > made.txt"}}]
      - say: done again
"""
NO_LS = file_of("- {id: no-ls, match: {program: ls}, then: deny, reason: no looking}")


def worked(hermes: Hermes, **environ: str) -> str:
    hermes.script.write_text(TWO)
    return str(json.loads(hermes.good("ask", "go", "--json", **environ))["session"])


def question(hermes: Hermes) -> dict[str, Any]:
    (found,) = wait_until(lambda: hermes.json("approvals"), "a question")
    return dict(found)


def test_what_was_judged_and_run_is_in_the_log_and_the_log_is_whole(hermes: Hermes) -> None:
    session = worked(hermes)
    told = hermes.good("audit")
    assert "echo one > made.txt" in told
    assert f"{session}-5-0  terminal done" in told
    entries = hermes.json("audit", "--session", session)
    assert [one["kind"] for one in entries][:3] == ["call_judged", "call_intended", "call_finished"]
    head = hermes.good("audit", "head").strip()
    assert hermes.json("audit", "verify", "--head", head)["troubles"] == []
    lines = hermes.good("audit", "export").splitlines()
    assert json.loads(lines[-1])["hash"] == head.partition(":")[2]


def test_a_log_that_was_changed_is_found_out(hermes: Hermes) -> None:
    worked(hermes)
    hermes.good("down")
    db = apsw.Connection(str(hermes.home / "state.db"))
    db.execute("update audit set details = replace(details, 'allow', 'deny') where number = 1")
    db.close()
    done = hermes.run("audit", "verify")
    assert done.returncode == 1
    assert "entry 1 was changed" in done.stdout
    assert hermes.run("audit", "verify", "--head", "x").returncode == 2


def test_changed_rules_are_tried_on_the_past(hermes: Hermes, tmp_path: Path) -> None:
    worked(hermes)
    changed = tmp_path / "strict.yaml"
    changed.write_text(NO_LS)
    same = hermes.json("policy", "simulate")
    assert same["judged"] == 2
    assert same["differences"] == []
    (one,) = hermes.json("policy", "simulate", str(changed))["differences"]
    assert (one["was"], one["would_be"], one["rule"]) == ("allow", "deny", "strict/no-ls")
    told = hermes.good("policy", "simulate", str(changed))
    assert "2 past effects, 1 would be decided differently" in told
    assert hermes.json("policy", "simulate", "--profile", "observe")["differences"] != []
    assert not (hermes.home / "policies").exists(), "nothing is put in force"
    assert hermes.run("policy", "simulate", "nowhere.yaml").returncode == 2


def test_a_past_effect_is_judged_with_its_paths_as_they_led_then(hermes: Hermes) -> None:
    (hermes.work / "real").mkdir()
    (hermes.work / "link").symlink_to("real")
    hermes.script.write_text(
        "turns: [{replies: [{calls: [{tool: write_file, with: {path: link/f, content: x}}]}, "
        "{say: done}]}]"
    )
    hermes.ask("go")
    shutil.rmtree(hermes.work / "real")
    folder = hermes.home / "policies"
    folder.mkdir()
    (folder / "mine.yaml").write_text(
        file_of("- {id: r, match: {path: '**/real/**'}, then: deny, reason: not there}")
    )
    (one,) = hermes.json("policy", "simulate")["differences"]
    assert one["rule"] == "mine/r"


def test_why_tells_what_decided_then_and_now(hermes: Hermes) -> None:
    session = worked(hermes)
    hermes.good("policy", "add", str(_file(hermes, "strict.yaml", NO_LS)))
    effect = next(
        one["effect"]
        for one in hermes.json("audit", "--session", session)
        if one["kind"] == "call_judged" and '"ls"' in one["call"]
    )
    told = hermes.good("policy", "why", effect)
    assert "then: allow" in told
    assert "now:  deny" in told
    assert hermes.json("policy", "why", effect)["now"]["rule"] == "strict/no-ls"
    assert hermes.run("policy", "why", "nothing-1-1").returncode == 1


def _file(hermes: Hermes, name: str, text: str) -> Path:
    path = hermes.work / name
    path.write_text(text)
    return path


def test_only_a_file_that_passes_is_put_in_force(hermes: Hermes) -> None:
    broken = _file(hermes, "broken.yaml", "version: 1\nrules: [{id: a, thn: deny}]\n")
    failing = _file(hermes, "failing.yaml", NO_LS + "tests:\n  - {run: ls, expect: allow}\n")
    for path, said in ((broken, "broken.yaml:2"), (failing, "failed tests: 1")):
        done = hermes.run("policy", "add", str(path))
        assert done.returncode != 0
        assert said in done.stderr
    assert not list((hermes.home / "policies").glob("*")) if hermes.home.exists() else True
    hermes.good("policy", "add", str(_file(hermes, "strict.yaml", NO_LS)))
    assert hermes.json("policy", "explain", "ls")["verdict"] == "deny"


def test_an_answer_for_good_adds_the_rule_that_was_shown(hermes: Hermes) -> None:
    hermes.script.write_text(TWO)
    hermes.send("go", policy="careful", interactive=True)
    asked = question(hermes)
    shown = hermes.good("approvals", "show", asked["id"])
    assert "+ - id: " in shown
    hermes.good("approvals", "answer", asked["id"], "always", "--as", "ann")
    adopted = yaml.safe_load((hermes.home / "policies" / "approved.yaml").read_text())
    assert [rule["then"] for rule in adopted["rules"]] == ["allow"]
    wait_until(lambda: hermes.json("sessions", "list")[0]["state"] == "idle", "the end")
    assert (hermes.work / "made.txt").read_text() == "one\n"
    answered = [one for one in hermes.json("audit") if one["kind"] == "question_answered"]
    assert (answered[0]["answer"], answered[0]["by"]) == ("always", "ann")
    session = hermes.json("sessions", "list")[0]["id"]
    hermes.good("ask", "again", "--session", session)  # nobody is there, and nobody is asked
    assert (hermes.work / "made.txt").read_text() == "two\n"


def test_a_broken_policy_file_denies_everything_and_says_where(hermes: Hermes) -> None:
    (hermes.home / "policies").mkdir(parents=True)
    (hermes.home / "policies" / "mine.yaml").write_text("version: 1\nrules: [{id: a, thn: deny}]\n")
    hermes.script.write_text(TWO)
    session = hermes.ask("go")
    told = hermes.json("sessions", "show", session)["messages"]
    refused = [one["text"] for one in told if one["role"] == "tool"]
    assert all("mine.yaml:2" in text for text in refused)
    assert not (hermes.work / "made.txt").exists()
    done = hermes.run("doctor")
    assert "every effect is denied" in done.stdout
