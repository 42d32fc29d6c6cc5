"""The table of kinds, and where paths of this machine lead."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.core.errors import UsageError
from hermes_agent.core.places import ContainerPlace, KubernetesPlace, LocalPlace, SshPlace
from hermes_agent.core.settings import TerminalSettings
from hermes_agent.terminals import globs
from hermes_agent.terminals.far import FarTerminal
from hermes_agent.terminals.kinds import KINDS, check, kind_of, lasts, open_terminal
from hermes_agent.terminals.local import LocalTerminal


def test_the_table_imports_no_library_of_any_kind() -> None:
    program = (
        "import sys; from hermes_agent.terminals import kinds;"
        "print([m for k in kinds.KINDS.values() for m in (*k.libraries, k.module)"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_every_kind_names_what_it_is_and_a_module_that_is_there() -> None:
    folder = Path(globs.__file__).parent
    for kind in KINDS.values():
        assert kind.summary
        assert kind.name == "local" or (folder / f"{kind.module.rpartition('.')[2]}.py").exists()
        assert bool(kind.extra) == bool(kind.libraries)
    assert [kind.name for kind in KINDS.values() if not kind.confined] == ["local", "ssh"]


def test_a_place_is_of_one_kind_and_lasts_when_it_was_there_before() -> None:
    assert kind_of(SshPlace("h")).name == "ssh"
    assert lasts(SshPlace("h"))
    assert lasts(KubernetesPlace(pod="p"))
    assert not lasts(KubernetesPlace(image="i"))
    assert not lasts(ContainerPlace("i"))


async def test_a_terminal_is_opened_by_what_the_settings_say(tmp_path: Path) -> None:
    for place, kind in ((LocalPlace(), LocalTerminal), (SshPlace("h"), FarTerminal)):
        terminal = open_terminal(
            place, session="s", workspace=str(tmp_path), folder=tmp_path / "spool",
            settings=TerminalSettings(), environ=os.environ,
        )  # fmt: skip
        assert type(terminal) is kind


async def test_whether_a_kind_can_be_used_is_said() -> None:
    assert await check("local", None, os.environ) == ""
    assert "bash is not installed" in await check("local", None, {"PATH": "/nowhere"})
    with pytest.raises(UsageError, match="there are: local"):
        await check("dokcer", None, os.environ)


NAMES = st.text(alphabet=["a", "b", ".", "-", "[", "]", "!", "^", "*", "?", " ", "é"], max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(NAMES.filter(lambda name: name.strip(".") != ""), max_size=6), NAMES)
def test_globs_fit_what_bash_fits(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], pattern: str
) -> None:
    top = tmp_path_factory.mktemp("globs")
    for name in names:
        (top / name).touch()
    whole = f"{top}/{pattern}"
    show = 'IFS=; shopt -s nullglob; found=($1); printf "%s\\0" "${found[@]}"'
    done = subprocess.run(["bash", "-c", show, "-", whole], capture_output=True, check=True)
    expected = {os.fsdecode(one) for one in done.stdout.split(b"\0")}
    # A word without a sign that bash takes for one stays, whether it is there or not.
    assert set(globs.matches(whole)) == {one for one in expected if os.path.lexists(one)}
