"""How a browser starts, dies and ends."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.settings.root import BrowserSettings
from hermes_agent.tools.browser.devtools.pipe import PipeWire
from tests.support.pages import Session, Site, ref, session, site
from tests.support.patience import PATIENCE
from tests.support.source import ROOT


@pytest.fixture
async def served() -> AsyncIterator[Site]:
    async with site() as made:
        yield made


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Session]:
    async with session(tmp_path) as made:
        yield made


def pipe(here: Session) -> PipeWire:
    wire = here.browser.wire
    assert isinstance(wire, PipeWire)
    return wire


def group(leader: int) -> list[int]:
    """The processes of a group that are not just waiting to be buried."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                after = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(after[2]) == leader and after[0] not in "ZX":
                found.append(int(folder.name))
    return found


def kill_below(leader: int) -> None:
    """Kill all of a group but its leader; some may end by themselves, or with the others."""
    for process in group(leader):
        if process != leader:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.02)


async def test_closing_ends_every_process_and_removes_the_profile(
    served: Site, here: Session
) -> None:
    await here.open(served.add("/", "<h1>Hi</h1>"))
    wire = pipe(here)
    assert group(wire.pid)
    assert wire.profile.is_dir()
    await here.look("close")
    await until(lambda: not group(wire.pid))
    assert not wire.profile.exists()
    with pytest.raises(ToolError, match="no page is open"):
        await here.look("snapshot")


async def test_a_browser_that_was_killed_is_noticed_and_the_next_open_starts_another(
    served: Site, here: Session
) -> None:
    url = served.add("/", "<button>B</button>")
    page = await here.open(url)
    first = pipe(here)
    kill_below(first.pid)
    await until(lambda: not here.browser.alive)
    with pytest.raises(ToolError, match="the browser crashed or was stopped") as gone:
        await here.act("click", ref(page, 'button "B"'))
    assert gone.value.retry == "changed"
    assert 'button "B"' in (await here.open(url)).text
    assert pipe(here).pid != first.pid
    await until(lambda: not first.profile.exists())


async def test_a_browser_that_dies_under_a_call_ends_that_call(served: Site, here: Session) -> None:
    page = await here.open(served.add("/", "<button onclick='for(;;);'>B</button>"))
    click = asyncio.create_task(here.act("click", ref(page, 'button "B"')))
    leader = pipe(here).pid
    await asyncio.sleep(0)
    kill_below(leader)
    with pytest.raises(ToolError, match="the browser crashed"):
        await click


async def test_a_page_that_crashes_is_said_so_and_opened_again(served: Site, here: Session) -> None:
    url = served.add("/", "<button>B</button>")
    await here.open(url)
    tab = here.browser.current
    assert tab is not None
    crash = asyncio.create_task(here.browser.ask(tab.session, "Page.crash", {}))
    await until(lambda: tab.crashed)
    await asyncio.gather(crash, return_exceptions=True)
    with pytest.raises(ToolError, match="the page crashed"):
        await here.look("snapshot")
    with pytest.raises(ToolError, match="the page crashed"):
        await here.act("press", text="a")
    assert 'button "B"' in (await here.open(url)).text
    assert here.browser.alive


OWNER = """
import asyncio, sys
from pathlib import Path
from tests.support.pages import session

async def main():
    async with session(Path(sys.argv[1])) as here:
        await here.open(sys.argv[2])
        print(here.browser.wire.pid, here.browser.wire.profile, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_browser_ends_and_its_profile_goes_when_its_owner_is_killed(
    served: Site, tmp_path: Path
) -> None:
    url = served.add("/", "<h1>Hi</h1>")
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, str(tmp_path), url,
        stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert owner.stdout is not None
    leader, profile = (await owner.stdout.readline()).decode().split()
    assert group(int(leader))
    owner.kill()
    await owner.wait()
    await until(lambda: not group(int(leader)))
    await until(lambda: not Path(profile).exists())


async def test_a_browser_that_does_not_start_is_said_so(tmp_path: Path) -> None:
    for program, said in (
        ("/nowhere/chromium", "no browser at '/nowhere/chromium'"),
        (str(shutil.which("false")), "the browser does not start: it exited without a message"),
        (str(shutil.which("ls")), "the browser does not start: Try "),
    ):
        settings = BrowserSettings(program=program)
        async with session(tmp_path, settings=settings) as here:
            with pytest.raises(ToolError, match=said):
                await here.open("http://127.0.0.1/")


@asynccontextmanager
async def elsewhere(folder: Path) -> AsyncIterator[str]:
    """A Chromium that somebody else started; gives the address of its DevTools."""
    process = await asyncio.create_subprocess_exec(
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank",
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE):
            while not (found := re.search(rb"ws://\S+", await process.stderr.readline())):
                pass
        yield found.group().decode()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


async def test_a_browser_that_runs_elsewhere_is_used_and_left_running(
    served: Site, tmp_path: Path
) -> None:
    url = served.add("/", "<button onclick='this.textContent=`yes`'>B</button>")
    served.add("/file", "<p>private</p>")
    async with elsewhere(tmp_path / "profile") as socket:
        port = socket.split("/")[2]
        for address in (socket, f"http://{port}", f"http://{port}/json/version"):
            settings = BrowserSettings(address=address)
            async with session(tmp_path, settings=settings) as here:
                page = await here.open(url)
                clicked = await here.act("click", ref(page, 'button "B"'))
                assert 'button "yes"' in clicked.text
                with pytest.raises(ToolError, match="addresses are refused"):
                    await here.open("http://127.0.0.2/")


async def test_an_address_where_no_browser_is_is_said_so(tmp_path: Path) -> None:
    for address in ("http://127.0.0.1:1", "ws://127.0.0.1:1/x", "nonsense"):
        settings = BrowserSettings(address=address)
        async with session(tmp_path, settings=settings) as here:
            with pytest.raises(ToolError, match="no browser at") as refused:
                await here.open("http://127.0.0.1/")
            assert refused.value.retry == "never"
