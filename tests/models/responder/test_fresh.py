"""What is fetched each time though it could be kept: over what commands printed once."""

import pytest

from hermes_agent.models.responder.rules import reach
from hermes_agent.models.responder.rules.fresh import each_time, paused
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from tests.models.responder.test_rules_reach import CONF, ENTRIES, case

URL = "http://127.0.0.1:6400/list"
LATE, QUICK = (f"200 after {seconds} s from 127.0.0.1:6400" for seconds in (2.1, 0.02))
SAID = "ERROR vault: deadline exceeded"


def fixed(settings: str, took: str = LATE, said: str = SAID) -> str:
    machine = case(said, settings, {probes.timed(URL): took})
    return " ".join(fix for idea in each_time(machine) for fix in idea.fix)


@pytest.mark.parametrize(
    ("settings", "right"),
    [
        (f'{{\n  "source": "{URL}",\n  "cache_ttl": 0,\n  "n": 1\n}}', '"cache_ttl": 600,'),
        (f"source: {URL}\n# usually 900\nmax_age: 0\n", "max_age: 900"),
        (f"SOURCE={URL}\n# five minutes are enough\nREFRESH_MS=0\n", "REFRESH_MS=300000"),
        (f"[rates]\nsource = {URL}\nrefresh = 0s ; two hours\n", "refresh = 600s"),
        (f'source = "{URL}"\ncache = false\n', "cache = true"),
    ],
)
def test_what_is_good_for_no_time_is_kept_for_a_while(settings: str, right: str) -> None:
    assert right in fixed(settings)


def test_what_costs_nothing_or_is_kept_already_is_left() -> None:
    settings = f"SOURCE={URL}\nCACHE_TTL={{}}\n"
    assert fixed(settings.format(0))
    assert not fixed(settings.format(30))
    assert not fixed(settings.format(0), QUICK)
    assert not fixed(settings.format(0), said="INFO all is well")
    assert not fixed(f"SOURCE={URL}\nCACHE_SIZE=0\n")


def test_what_a_script_goes_by_that_is_run_for_each_request_belongs_to_the_service() -> None:
    hook, conf = "/opt/scan/libexec/scan", "/etc/scan.conf"
    machine = case(
        SAID, f'{{"hook": "{hook}"}}',
        {probes.show(hook): f"#!/bin/bash\n. {conf}\ncurl -o list $MIRROR\n",
         probes.show(conf): f"MIRROR={URL}\nREFRESH_SECONDS=0\n", probes.timed(URL): LATE},
    )  # fmt: skip
    assert machine.helpers("till") == [hook]
    assert machine.configs("till") == [CONF, conf]
    (idea,) = each_time(machine)
    assert idea.fix[-1] == f"sed -i 's|REFRESH_SECONDS=0|REFRESH_SECONDS=600|' {conf}"
    without = Case(machine.brief, [x for x in machine.observed if x.command != probes.show(hook)])
    assert not list(each_time(without))


@pytest.mark.parametrize(
    ("settings", "right"),
    [
        ("pause_ms = 1800\n", "pause_ms = 0"),
        ("# normally 40\npause_ms: 1800\n", "pause_ms: 40"),
        ("[store]\ndelay = 2s\n", "delay = 0s"),
        ("pause_ms = 40\n", ""),
        ("timeout_ms = 1800\n", ""),
        ("retry_delay = 2s\n", ""),
    ],
)
def test_who_waits_on_purpose_waits_no_longer_than_it_should(settings: str, right: str) -> None:
    written = {probes.CHANGED: f"60 1794772900.0 root {CONF}"}
    fixes = [fix for idea in paused(case(SAID, settings, written)) for fix in idea.fix]
    assert right in " ".join(fixes) if right else not fixes
    assert not list(paused(case(SAID, settings, {})))


def test_a_former_line_beside_one_that_was_written_lately_is_put_back() -> None:
    conf, own = "/opt/till/conf/app.json", "/opt/vault/vault.conf"
    entries = ENTRIES.replace("--listen=127.0.0.1:6100", f"--listen=127.0.0.1:6100 {own}")
    seen = {
        probes.PROGRAMS: entries, probes.timed("http://127.0.0.1:6100/"): LATE,
        probes.show(own): "#slots = 8\nslots = 1\n", probes.copies(own): "==> lines <==\n2 x\n",
        probes.CHANGED: f"60 1794772900.0 root {own}", probes.copies(conf): "",
    }  # fmt: skip
    machine = case(SAID, '{"backend": "http://127.0.0.1:6100/"}', seen)
    fixes = [fix for idea in reach.slow(machine) for fix in idea.fix]
    [edit] = [fix for fix in fixes if fix.startswith("sed ")]
    assert "slots = 1[[:space:]]*$|\\1slots = 8|" in edit
