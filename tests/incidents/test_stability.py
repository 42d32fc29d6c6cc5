"""Whether a remedy lasts, seen on processes and files that are really there."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check
from hermes_agent.incidents.response.facts import ServiceFacts
from hermes_agent.incidents.response.stability import Sample, StabilityWatch, _spinning, not_lasting
from tests.support.local_commands import local_runner

GROWS = "import time\nk = []\nwhile True: k.append(bytearray(2_000_000)); time.sleep(0.02)"
OPENS = "import time\nk = []\nwhile len(k) < 900: k.append(open('/dev/null')); time.sleep(0.01)"
FLOODS = (
    "import sys, time\nwhile True: open(sys.argv[1], 'a').write('x' * 60_000); time.sleep(0.01)"
)
TOUCHES = "import os, sys, time\nwhile True: os.utime(sys.argv[1], (1, time.time() + 5))"
RESTS = "import time\ntime.sleep(600)"
ALONE = {"df -P": "true "}
"""File systems are everybody's: other tests write there, too."""


@contextmanager
def running(program: str, *arguments: str) -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", program, *arguments]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


async def hurried(seconds: float) -> None:
    await asyncio.sleep(seconds / 10)


def watched(pid: int | str = 0, *, check: str = "true", **more: Any) -> StabilityWatch:
    facts = ServiceFacts("web", find_pid=str(pid), **more.pop("facts", {}))
    given = {
        "checks": [WatchedCheck("web", Check(check))], "facts": {"web": facts},
        "category": "service-crash", "quotes": (), "run": local_runner(ALONE),
        "ask": local_runner(), "sleep": hurried,
    }  # fmt: skip
    return StabilityWatch(**{**given, **more})


async def test_a_process_that_takes_more_and_more_memory_is_not_mended() -> None:
    with running(GROWS) as pid:
        (told,) = await not_lasting(watched(pid))
    assert told.startswith("the checks pass, but: web uses more and more under load")
    assert "kB of memory" in told


async def test_a_process_that_opens_more_and_more_files_is_not_mended() -> None:
    with running(OPENS) as pid:
        (told,) = await not_lasting(watched(pid))
    assert "open files" in told


async def test_a_log_that_was_emptied_and_grows_again_is_not_mended(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    log.touch()
    with running(FLOODS, str(log)):
        found = await not_lasting(watched(category="log-flood", facts={"logs": (str(log),)}))
    assert any(f"{log} grows too fast" in told for told in found)


def test_a_process_that_still_spins_is_not_mended() -> None:
    used = {0.0: 0.0, 1.0: 100.0, 2.0: 200.0}
    samples = [Sample({}, {7: (1, ran, 0.0)}, {}, {}, {}, {}, at) for at, ran in used.items()]
    assert list(_spinning("web", [7], samples)) == ["web: process 7 still uses 100% of a processor"]


async def test_what_restarts_again_and_again_is_not_mended(tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.write_text("100")
    again = f"echo $(( $(cat {count}) + 1 )) > {count}"
    (told,) = await not_lasting(watched(f"$(cat {count})", check=again))
    assert "keeps restarting" in told


async def test_a_check_that_fails_meanwhile_is_named(tmp_path: Path) -> None:
    once = f"test ! -e {tmp_path}/seen && touch {tmp_path}/seen"
    (told,) = await not_lasting(watched(check=once))
    assert told.startswith("web: FAILS")


async def test_what_rests_is_mended() -> None:
    with running(RESTS) as pid:
        assert await not_lasting(watched(pid, category="service-crash")) == []


async def test_what_was_quoted_and_is_said_again_and_again_is_not_mended(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    say = f"date '+%s%N ERROR store refused us' | sed 's/^/10:/' >> {log}"
    quotes = ["10:1794931200000000000 ERROR store refused us"]
    log.write_text("10:1794931200000000001 ERROR store refused us\n")
    facts = {"recent": f"cat {log}"}
    (told,) = await not_lasting(watched(check=say, facts=facts, quotes=quotes))
    assert "the logs still report" in told


def job(folder: Path, line: str) -> tuple[Path, StabilityWatch]:
    """A product, and a check of its age; a crontab with this line."""
    product = folder / "spool" / "report.csv"
    product.parent.mkdir()
    product.touch()
    (folder / "cron.d").mkdir()
    (folder / "cron.d" / "report").write_text(f"{line} root make-report > {product}\n")
    check = f'test -n "$(find {product} -mmin -2)"'
    return product, watched(
        check=check, run=local_runner({**ALONE, "/etc/cron.d": f"{folder}/cron.d"})
    )


async def test_what_a_job_should_make_must_be_made_anew_by_itself(tmp_path: Path) -> None:
    product, given = job(tmp_path, "* * * * *")
    (told,) = await not_lasting(replace(given, patience=4.0))
    assert f"{product} was not recreated" in told


async def test_what_a_job_makes_anew_by_itself_is_mended(tmp_path: Path) -> None:
    product, given = job(tmp_path, "*/2 * * * *")
    with running(TOUCHES, str(product)):
        assert await not_lasting(given) == []


async def test_a_job_of_the_night_is_not_waited_for(tmp_path: Path) -> None:
    _, given = job(tmp_path, "15 3 * * *")
    assert await not_lasting(given) == []
