"""What the rules take for a look cannot write, whoever asked for it."""

from pathlib import Path

from hermes_agent.core import events as ev
from hermes_agent.core.settings.terminals import PlaceSettings
from tests.runtime.test_jobs import says
from tests.support.jobs import workplace
from tests.support.runtime_fixture import open_runtime, script
from tests.support.sshd import shared

MISTAKEN = """
version: 1
rules:
  - {id: touched, match: {program: touch}, then: allow, confine: read-only}
  - {id: through-env, match: {program: getent, via: env}, then: allow, confine: read-only}
  - {id: written, match: {access: write, path: "**"}, then: allow, confine: read-only}
"""


def mistake(folder: Path) -> None:
    """Rules that take a command for a look which is none."""
    rules = folder / "home" / "policies" / "mine.yaml"
    rules.parent.mkdir(parents=True)
    rules.write_text(MISTAKEN)


async def test_a_look_that_writes_is_refused_by_the_kernel_and_the_model_is_told(
    tmp_path: Path,
) -> None:
    mistake(tmp_path)
    given = {"command": "echo seen; touch made"}
    model = script(
        tmp_path, "model",
        {"calls": [{"tool": "terminal", "with": given}]},
        {"calls": [{"tool": "terminal", "with": {**given, "changes": True}}]},
        {"say": "done"},
    )  # fmt: skip
    async with open_runtime(tmp_path) as h:
        session = await h.open(model, policy="careful")
        journal = await h.say(session, "look")
        judged = [one for one in journal if isinstance(one, ev.CallJudged)]
        assert [(one.action, one.confinement) for one in judged] == [
            ("allow", "read-only"), ("ask", "none"),
        ]  # fmt: skip
        look, openly = [one for one in journal if isinstance(one, ev.CallFinished)]
        assert look.text.startswith("seen\n")
        assert "ran where it cannot write, signal or connect; set `changes` if it must" in look.text
        assert look.data["refused"] == "read-only"
        assert "the agent says it changes something" in openly.text
        assert list(h.work.iterdir()) == []


async def test_a_program_that_needs_a_service_is_judged_by_what_it_really_gets(
    tmp_path: Path,
) -> None:
    mistake(tmp_path)
    model = script(
        tmp_path, "model",
        {"calls": [{"tool": "terminal", "with": {"command": "getent passwd root | cut -d: -f1"}}]},
        {"calls": [{"tool": "terminal", "with": {"command": "env getent shadow root"}}]},
        {"say": "done"},
    )  # fmt: skip
    async with open_runtime(tmp_path) as h:
        session = await h.open(model, policy="careful")
        journal = await h.say(session, "look")
        judged = [one for one in journal if isinstance(one, ev.CallJudged)]
        assert {(one.action, one.confinement) for one in judged} == {("allow", "read-only")}
        look, misled = [one for one in journal if isinstance(one, ev.CallFinished)]
        assert look.text == "root"
        assert "hermes: getent was not run" in misled.text
        assert look.data["outside"] == [
            {"command": "getent passwd root", "refused": "", "front": "none"}
        ]
        [refused] = misled.data["outside"]
        assert refused["command"] == "getent shadow root"
        assert refused["refused"]


async def test_the_script_of_a_job_is_held_as_well(tmp_path: Path) -> None:
    mistake(tmp_path)
    async with workplace(tmp_path, says(tmp_path, "woken")) as place:
        job = await place.add(
            script="echo seen; touch made 2>&1", script_only=True, prompt="", policy="careful"
        )
        run = await place.by_hand(job)
        assert "Read-only file system" in run.error + run.output
        assert list(tmp_path.rglob("made")) == []


async def test_code_that_nobody_understands_runs_where_it_can_only_look(tmp_path: Path) -> None:
    code = "import os; print(len(os.listdir('/')) > 3, flush=True); open('made', 'w')"
    model = script(
        tmp_path, "model",
        {"calls": [{"tool": "terminal", "with": {"command": f'python3 -c "{code}" 2>&1'}}]},
        {"say": "done"},
    )  # fmt: skip
    async with open_runtime(tmp_path) as h:
        session = await h.open(model, policy="careful")
        journal = await h.say(session, "look")
        [judged] = [one for one in journal if isinstance(one, ev.CallJudged)]
        assert (judged.action, judged.confinement) == ("allow", "read-only")
        [look] = [one for one in journal if isinstance(one, ev.CallFinished)]
        assert look.text.startswith("True\nTraceback")
        assert "Read-only file system: 'made'" in look.text
        assert "set `changes` if it must" in look.text
        assert look.data["refused"] == "read-only"
        assert list(h.work.iterdir()) == []


MUST = """
version: 1
rules:
  - {id: must, match: {place: ssh}, then: confine}
"""


async def test_looks_on_a_far_machine_are_held_by_its_kernel(tmp_path: Path) -> None:
    mistake(tmp_path)
    (tmp_path / "home" / "policies" / "must.yaml").write_text(MUST)
    server = shared()
    far = server.folder()
    model = script(
        tmp_path, "model",
        {"calls": [{"tool": "terminal", "with": {"command": "echo seen; touch made"}}]},
        {"calls": [{"tool": "terminal", "with": {"command": "systemctl status ssh"}}]},
        {"say": "done"},
    )  # fmt: skip
    places: dict[str, PlaceSettings] = {"far": server.place(str(far))}
    async with open_runtime(tmp_path, terminals=places) as h:
        session = await h.open(model, policy="careful", terminals=("far",))
        journal = await h.say(session, "look")
        judged = [one for one in journal if isinstance(one, ev.CallJudged)]
        assert [(one.action, one.confinement, one.facts.unconfined) for one in judged] == [
            ("allow", "read-only", ""), ("ask", "none", ""),
        ]  # fmt: skip
        look, asked = [one for one in journal if isinstance(one, ev.CallFinished)]
        assert look.text.startswith("seen\n")
        assert look.data["refused"] == "read-only"
        assert "systemctl cannot run confined there" in asked.text
        assert list(far.iterdir()) == []
        await h.runtime.sessions.delete_session(await h.now(session))


async def test_a_build_on_a_far_machine_is_held_to_the_workspace_by_its_kernel(
    tmp_path: Path,
) -> None:
    server = shared()
    far = server.folder()
    (far / "Makefile").write_text("test:\n\techo built > made\n\techo x > ~/made\n")
    model = script(
        tmp_path, "model",
        {"calls": [{"tool": "terminal", "with": {"command": "make test"}}]},
        {"say": "done"},
    )  # fmt: skip
    places: dict[str, PlaceSettings] = {"far": server.place(str(far))}
    async with open_runtime(tmp_path, terminals=places) as h:
        session = await h.open(model, policy="operate", terminals=("far",))
        journal = await h.say(session, "build")
        [judged] = [one for one in journal if isinstance(one, ev.CallJudged)]
        assert (judged.action, judged.confinement) == ("allow", "workspace")
        assert (judged.facts.unconfined, judged.facts.unconfined_workspace) == ("", "")
        [build] = [one for one in journal if isinstance(one, ev.CallFinished)]
        assert "Read-only file system" in build.text
        assert "ran where it cannot write elsewhere; set `changes` if it must" in build.text
        assert build.data["refused"] == "workspace"
        assert (far / "made").read_text() == "built\n"
        assert not (server.home / "made").exists()
        await h.runtime.sessions.delete_session(await h.now(session))
