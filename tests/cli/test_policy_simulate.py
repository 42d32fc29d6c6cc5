"""The gate's past: the audit log, what other rules would have said, why; answers that last."""

import json
import shutil
from pathlib import Path
from typing import Any

import apsw
import yaml

from tests.support.cli import House, wait_until
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


def worked(house: House, **environ: str) -> str:
    house.script.write_text(TWO)
    return str(json.loads(house.good("ask", "go", "--json", **environ))["session"])


def question(house: House) -> dict[str, Any]:
    (found,) = wait_until(lambda: house.json("approvals"), "a question")
    return dict(found)


def test_what_was_judged_and_run_is_in_the_log_and_the_log_is_whole(house: House) -> None:
    session = worked(house)
    told = house.good("audit")
    assert "echo one > made.txt" in told
    assert f"{session}-5-0  terminal done" in told
    entries = house.json("audit", "--session", session)
    assert [one["kind"] for one in entries][:3] == ["call_judged", "call_intended", "call_finished"]
    head = house.good("audit", "head").strip()
    assert house.json("audit", "verify", "--head", head)["troubles"] == []
    lines = house.good("audit", "export").splitlines()
    assert json.loads(lines[-1])["hash"] == head.partition(":")[2]


def test_a_log_that_was_changed_is_found_out(house: House) -> None:
    worked(house)
    house.good("down")
    db = apsw.Connection(str(house.home / "state.db"))
    db.execute("update audit set details = replace(details, 'allow', 'deny') where number = 1")
    db.close()
    done = house.run("audit", "verify")
    assert done.returncode == 1
    assert "entry 1 was changed" in done.stdout
    assert house.run("audit", "verify", "--head", "x").returncode == 2


def test_changed_rules_are_tried_on_the_past(house: House, tmp_path: Path) -> None:
    worked(house)
    changed = tmp_path / "strict.yaml"
    changed.write_text(NO_LS)
    same = house.json("policy", "simulate")
    assert same["judged"] == 2
    assert same["differences"] == []
    (one,) = house.json("policy", "simulate", str(changed))["differences"]
    assert (one["was"], one["would_be"], one["rule"]) == ("allow", "deny", "strict/no-ls")
    told = house.good("policy", "simulate", str(changed))
    assert "2 effects judged again, 1 would differ" in told
    assert house.json("policy", "simulate", "--profile", "observe")["differences"] != []
    assert not (house.home / "policies").exists(), "nothing is put in force"
    assert house.run("policy", "simulate", "nowhere.yaml").returncode == 2


def test_a_past_effect_is_judged_with_its_paths_as_they_led_then(house: House) -> None:
    (house.work / "real").mkdir()
    (house.work / "link").symlink_to("real")
    house.script.write_text(
        "turns: [{replies: [{calls: [{tool: write_file, with: {path: link/f, content: x}}]}, "
        "{say: done}]}]"
    )
    house.ask("go")
    shutil.rmtree(house.work / "real")
    folder = house.home / "policies"
    folder.mkdir()
    (folder / "mine.yaml").write_text(
        file_of("- {id: r, match: {path: '**/real/**'}, then: deny, reason: not there}")
    )
    (one,) = house.json("policy", "simulate")["differences"]
    assert one["rule"] == "mine/r"


def test_why_tells_what_decided_then_and_now(house: House) -> None:
    session = worked(house)
    house.good("policy", "add", str(_file(house, "strict.yaml", NO_LS)))
    effect = next(
        one["effect"]
        for one in house.json("audit", "--session", session)
        if one["kind"] == "call_judged" and '"ls"' in one["call"]
    )
    told = house.good("policy", "why", effect)
    assert "then: allow" in told
    assert "now:  deny" in told
    assert house.json("policy", "why", effect)["now"]["rule"] == "strict/no-ls"
    assert house.run("policy", "why", "nothing-1-1").returncode == 1


def _file(house: House, name: str, text: str) -> Path:
    path = house.work / name
    path.write_text(text)
    return path


def test_only_a_file_that_passes_is_put_in_force(house: House) -> None:
    broken = _file(house, "broken.yaml", "version: 1\nrules: [{id: a, thn: deny}]\n")
    failing = _file(house, "failing.yaml", NO_LS + "tests:\n  - {run: ls, expect: allow}\n")
    for path, said in ((broken, "broken.yaml:2"), (failing, "1 of its tests fail")):
        done = house.run("policy", "add", str(path))
        assert done.returncode != 0
        assert said in done.stderr
    assert not list((house.home / "policies").glob("*")) if house.home.exists() else True
    house.good("policy", "add", str(_file(house, "strict.yaml", NO_LS)))
    assert house.json("policy", "explain", "ls")["verdict"] == "deny"


def test_an_answer_for_good_adds_the_rule_that_was_shown(house: House) -> None:
    house.script.write_text(TWO)
    house.send("go", policy="careful", interactive=True)
    asked = question(house)
    shown = house.good("approvals")
    assert "+ - id: " in shown
    house.good("approvals", "answer", asked["id"], "always", "--as", "ann")
    adopted = yaml.safe_load((house.home / "policies" / "approved.yaml").read_text())
    assert [rule["then"] for rule in adopted["rules"]] == ["allow"]
    wait_until(lambda: house.json("sessions", "list")[0]["state"] == "idle", "the end")
    assert (house.work / "made.txt").read_text() == "one\n"
    answered = [one for one in house.json("audit") if one["kind"] == "question_answered"]
    assert (answered[0]["answer"], answered[0]["by"]) == ("always", "ann")
    session = house.json("sessions", "list")[0]["id"]
    house.good("ask", "again", "--session", session)  # nobody is there, and nobody is asked
    assert (house.work / "made.txt").read_text() == "two\n"


def test_a_broken_policy_file_denies_everything_and_says_where(house: House) -> None:
    (house.home / "policies").mkdir(parents=True)
    (house.home / "policies" / "mine.yaml").write_text("version: 1\nrules: [{id: a, thn: deny}]\n")
    house.script.write_text(TWO)
    session = house.ask("go")
    told = house.json("sessions", "show", session)["messages"]
    refused = [one["text"] for one in told if one["role"] == "tool"]
    assert all("mine.yaml:2" in text for text in refused)
    assert not (house.work / "made.txt").exists()
    done = house.run("doctor")
    assert "every effect is denied" in done.stdout
