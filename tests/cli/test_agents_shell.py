"""Commands of ours that change something, called from the agent's own shell."""

import json
import sys
from pathlib import Path

import pytest

from hermes_agent.cli.commands import COMMANDS
from hermes_agent.core.protocols import ShellCommand
from tests.support.cli import Hermes
from tests.support.terminals import LocalPlace

CHANGES = "config set policy operate"
HIDING = {
    "plainly": "HERMES_HOME={home} {python} -m hermes_agent {words}",
    "without an environment": "env -i HOME={other} {python} -m hermes_agent {words}",
    "without parents": "mkfifo end; (env -i HERMES_HOME={home} setsid -f bash -c "
    "'{python} -m hermes_agent {words} 2>&1' >end &); cat end; false",
    "by a copy of the entry point": "cp {entry} copy.py; env -i HERMES_HOME={home} "
    "{python} copy.py {words}",
    "in the background": "HERMES_HOME={home} {python} -m hermes_agent {words} & wait $!",
    "by the library": "env -i {python} -c 'from pathlib import Path; "
    "from hermes_agent.host.config import set_setting; "
    'set_setting(Path("{home}/config.yaml"), "policy", "operate", print)\'',
    "as a runtime": "env -i HERMES_HOME={home} {python} -m hermes_agent serve",
    "without a limit": "ulimit -x unlimited 2>/dev/null; "
    "HERMES_HOME={home} {python} -m hermes_agent {words}",
}


@pytest.mark.parametrize("way", HIDING)
async def test_the_agent_cannot_change_hermes_however_it_hides(way: str, tmp_path: Path) -> None:
    entry = tmp_path / "entry.py"
    entry.write_text("import sys\nfrom hermes_agent.cli.main import main\nsys.exit(main())\n")
    home, other = tmp_path / "home", tmp_path / "other"
    text = HIDING[way].format(
        home=home, other=other, python=sys.executable, entry=entry, words=CHANGES
    )
    place = LocalPlace(tmp_path)
    try:
        done = await place.open().run(ShellCommand("c1", text))
        assert done.code != 0
        assert "command of the agent may not" in done.stdout + done.stderr
        assert not home.exists()
        assert not other.exists()
    finally:
        await place.destroy()


async def test_every_command_but_a_look_is_refused_before_it_runs(tmp_path: Path) -> None:
    """Without the arguments that a command needs: what it does with them does not matter."""
    allowed = {
        "chat",
        "completion",
        "cost",
        "doctor",
        "drift",
        "help",
        "incidents",
        "logs",
        "manifests",
        "mcp",
        "model",
        "policy",
        "config",
        "search",
        "sources",
        "status",
        "task",
        "terminals",
    }
    program = tmp_path / "all.py"
    program.write_text(
        "import contextlib, io, sys\nfrom hermes_agent.cli.main import main\n"
        "for name in sys.argv[1:]:\n"
        "    with contextlib.redirect_stderr(io.StringIO()) as told:\n"
        "        main([name, *(['x'] if name in ('ask', 'interrupt', 'search') else [])])\n"
        "    print(name, 'agent may not' in told.getvalue(), 'required' in told.getvalue())\n"
    )
    names = [one.name for one in COMMANDS if one.name not in allowed]
    place = LocalPlace(tmp_path)
    try:
        text = f"HERMES_HOME={tmp_path}/home {sys.executable} {program} {' '.join(names)}"
        done = await place.open().run(ShellCommand("c1", text))
        told = [line.split() for line in done.stdout.splitlines()]
        assert [row[0] for row in told] == names
        assert [row for row in told if "True" not in row[1:]] == []
        looks = f"HERMES_HOME={tmp_path}/home {sys.executable} -m hermes_agent config get policy"
        assert (await place.open().run(ShellCommand("c2", looks))).code == 0
        assert not (tmp_path / "home").exists()
    finally:
        await place.destroy()


LOOKS = {
    "hermes status": "running",
    "hermes task list": "job-1",
    "hermes incidents; hermes watch list; hermes cost; hermes search seen": "no budget",
    "hermes doctor --json": '"name": "jobs"',
    "hermes manifests rules | head -3": "Requirements",
    "hermes drift list; true": "no audits yet",
}
REFUSED = (
    "hermes sessions list",
    "hermes task remove job-1 --yes",
    "hermes drift accept x.1 --why y",
)


@pytest.mark.parametrize("profile", ["careful", "observe", "operate", "sandbox"])
def test_the_agent_can_look_at_what_hermes_knows_and_change_none_of_it(
    hermes: Hermes, profile: str
) -> None:
    folder = str(Path(sys.executable).parent)
    hermes.environ |= {"PATH": f"{folder}:{hermes.environ['PATH']}", "HERMES_POLICY": profile}
    calls = [{"tool": "terminal", "with": {"command": each}} for each in (*LOOKS, *REFUSED)]
    hermes.script.write_text(json.dumps({"turns": [{"replies": [{"calls": calls}, {"say": "x"}]}]}))
    hermes.good("task", "add", "--every", "1d", "look", "--name", "first")
    session = hermes.ask("go")
    results = [
        row["event"]
        for row in hermes.api.journal(session)
        if row["event"]["kind"] == "call_finished"
    ]
    for result, (command, shown) in zip(results, LOOKS.items(), strict=False):
        assert shown in result["text"], (command, result["text"])
    for result in results[len(LOOKS) :]:
        assert not result["ok"], result["text"]
    assert [row["state"] for row in hermes.json("task", "list")] == ["active"]
