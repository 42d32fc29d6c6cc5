"""Services of one make, of which one is not as the others are; over what commands printed once."""

import subprocess
from pathlib import Path

from hermes_agent.models.responder.brief import Brief, BriefService
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.rules.twins import Odd, edit, twins
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

APPS = "/home/deploy/apps"
PROGRAMS = "".join(
    f"==> /etc/supervisor/conf.d/{one}.conf <==\n[program:{one}]\n"
    f"command={APPS}/{one}/bin/start\ndirectory={APPS}/{one}\n\n"
    for one in ("shop", "cart")
)


def script(name: str) -> str:
    run = f"exec python3 {APPS}/{name}/main.py"
    return f"#!/bin/bash\nset -a\n. {APPS}/{name}/.env\nset +a\n{run}\n"


def found(
    mine: str, env: str = "PORT=1\n", changed: str = "bin/start", copy: str = ""
) -> list[Idea]:
    own = f"{APPS}/shop/bin/start"
    shown = {
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.STATUS: "shop RUNNING   pid 7, uptime 0:01:10\ncart RUNNING   pid 8, uptime 0:01\n",
        probes.PROGRAMS: PROGRAMS,
        probes.CHANGED: f"90 1794772900.0 root {APPS}/shop/{changed}\n",
        probes.show(own): mine, probes.show(f"{APPS}/cart/bin/start"): script("cart"),
        probes.show(f"{APPS}/shop/.env"): env, probes.show(f"{APPS}/cart/.env"): "PORT=2\n",
        probes.copies(own): "==> lines <==\n5\n",
        probes.copies(f"{APPS}/shop/.env"): "==> lines <==\n5\n",
    }  # fmt: skip
    brief = Brief("inc-1", "shop", None, (BriefService("shop"), BriefService("cart")))
    case = Case(brief, [Seen(command, text) for command, text in shown.items()])
    return [idea for idea in twins(case) if idea.fix]


def test_a_line_that_its_twin_has_is_tried_and_undone_where_it_does_not_help() -> None:
    (idea,) = found(script("shop").replace("set -a\n", ""))
    assert "2s/^/set -a\\n/" in idea.fix[1]
    assert idea.finish
    assert "supervisorctl restart shop" in idea.undo
    (idea,) = found(script("shop"), "PORT=1\nREAD_ONLY=1\n", ".env")
    assert "# READ_ONLY=1" in idea.fix[1]


def test_what_is_each_ones_own_or_was_not_changed_stays() -> None:
    assert not found(script("shop"))
    assert not found(script("shop"), "PORT=1\nDATABASE=/data/x.db\n", ".env")
    assert not found(script("shop").replace("set -a\n", ""), changed="other")
    assert not found(script("shop"), "PORT=1\nALLOW_FROM=10.0.0.0/8\n", ".env")


def test_what_keeps_others_out_is_not_taken_over_from_a_twin() -> None:
    guarded = script("shop").replace("main.py", "main.py --require-auth")
    assert not found(guarded)
    assert found(guarded.replace("--require-auth", "--read-only"))
    assert not found(script("shop"), "PORT=1\nDEBUG=0\n", ".env")


def test_a_line_is_put_in_as_it_stands_with_what_is_before_it(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("a:\n  b|c: 1\n  d: 2\n")
    for one in (Odd(2, "", "  x: \\t/&|"), Odd(3, "  b|c: 1", "  b|c: 3"), Odd(4, "  d: 2", "")):
        subprocess.run(["sed", "-i", edit(one), str(file)], check=True, timeout=30)
    assert file.read_text() == "a:\n  x: \\t/&|\n  b|c: 3\n#   d: 2\n"
