"""Facts of services, from what init systems, /proc and configuration files say."""

import asyncio
import sys
from collections.abc import Mapping

import pytest

from hermes_agent.core.command_results import CommandOutcome
from hermes_agent.incidents.response.facts import ServiceFacts, service_facts
from hermes_agent.learning.skills.template import SERVICE_FACTS
from tests.support.local_commands import local_runner

PROCESSES = """\
#@stat
1 0
8 1
9 8
12 1
#@args
/proc/8/cmdline:/opt/shop/bin/shop
/proc/8/cmdline:--config=/etc/shop/shop.conf
/proc/12/cmdline:/opt/store/bin/store
#@listen
77 1F90
78 1538
#@open
/proc/9/fd socket:[77]
/proc/8/fd /var/log/shop/shop.log
/proc/12/fd socket:[78]
"""
SUPERVISOR = """\
#@supervisor
shop      RUNNING   pid 8, uptime 0:01:10
web:store EXITED    Nov 15 08:03 PM
#@program
/etc/supervisor/conf.d/shop.conf:[program:shop]
/etc/supervisor/conf.d/shop.conf:command=/opt/shop/bin/shop --config=/etc/shop/shop.conf
/etc/supervisor/conf.d/all.conf:[program:store]
/etc/supervisor/conf.d/all.conf:stdout_logfile=/var/log/store.out
"""
SYSTEMD = """\
#@unit
/etc/systemd/system/shop.service:ExecStart=/opt/shop/bin/shop --config=/etc/shop/shop.conf
/lib/systemd/system/store.service:ExecStart=/opt/store/bin/store
#@main
Id=shop.service
LoadState=loaded
MainPID=8

Id=store.service
LoadState=loaded
MainPID=0

Id=nosuch.service
LoadState=not-found
MainPID=0
"""
SYSV = """\
#@script
/etc/init.d/shop
/etc/init.d/shop:PIDFILE=/var/run/web/shop.pid
/etc/init.d/shop:DAEMON=/opt/shop/bin/shop
#@pidfile
/run/web/shop.pid:8
/run/store.pid:4711
"""
RUNIT = "#@runit\nrun: shop: (pid 8) 45s; run: log: (pid 7) 45s\ndown: store: 3s\n"
CONTAINER = "#@container\nshop running docker\n"
TEXTS = {
    "/etc/shop/shop.conf": "port = 8080\nstore = http://127.0.0.1:5432/\ndata = /srv/shop/data\n"
}
THERE = ["/etc/shop/shop.conf", "/srv/shop/data/", "/var/log/store.out"]


def machine(survey: str, texts: Mapping[str, str] = TEXTS) -> object:
    async def run(command: str, timeout: float | None) -> CommandOutcome:  # noqa: ASYNC109
        if "#@stat" in command:
            return CommandOutcome(0, survey + PROCESSES)
        if command.startswith("grep -Ihs"):
            return CommandOutcome(
                0, "".join(text for path, text in texts.items() if path in command)
            )
        return CommandOutcome(0, "\n".join(one for one in THERE if one.rstrip("/") in command))

    return run


async def facts(survey: str, name: str = "shop") -> ServiceFacts:
    return (await service_facts([name, "store"], machine(survey)))[name]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("survey", "init", "restart", "pid"),
    [
        (SUPERVISOR, "supervisord", "supervisorctl restart shop", "$(supervisorctl pid shop)"),
        (SYSTEMD, "systemd", "systemctl restart shop", "$(systemctl show -p MainPID --value shop)"),
        (SYSV, "sysv", "/etc/init.d/shop restart", "$(cat /run/web/shop.pid)"),
        (RUNIT, "runit", "sv restart shop", "$(cat /etc/service/shop/supervise/pid)"),
        ("", "process", "", "8"),
    ],
)
async def test_how_a_service_runs_is_known(survey: str, init: str, restart: str, pid: str) -> None:
    found = await facts(survey)
    assert (found.init, found.restart, found.pid, found.find_pid) == (init, restart, 8, pid)
    assert (found.ports, found.logs) == ((8080,), ("/var/log/shop/shop.log",))
    assert found.values["recent"].startswith(("tail -qn 200", "{ tail -qn 200"))


async def test_a_container_is_restarted_by_its_engine() -> None:
    async def run(command: str, timeout: float | None) -> CommandOutcome:  # noqa: ASYNC109
        return CommandOutcome(0, CONTAINER if "#@stat" in command else "")

    found = (await service_facts(["shop"], run))["shop"]
    assert (found.init, found.restart) == ("container", "docker restart shop")
    assert "docker logs --tail 200 shop" in found.recent


async def test_configuration_tells_of_data_and_of_what_a_service_needs() -> None:
    up = SUPERVISOR.replace("EXITED    Nov 15 08:03 PM", "RUNNING   pid 12, uptime 0:01:10")
    found = await facts(up)
    assert found.configs == ("/etc/shop/shop.conf",)
    assert found.data == ("/srv/shop/data",)
    assert found.needs == ("store",)


async def test_a_program_of_a_group_is_restarted_by_its_whole_name() -> None:
    found = await facts(SUPERVISOR, "store")
    assert (found.restart, found.pid) == ("supervisorctl restart web:store", 0)
    assert found.logs == ("/var/log/store.out",)


async def test_where_it_is_down_its_port_is_that_of_its_configuration() -> None:
    found = await facts(SYSTEMD.replace("MainPID=8", "MainPID=0"))
    assert (found.pid, found.ports) == (0, (8080,))


async def test_a_pid_file_of_a_process_that_is_gone_is_no_process() -> None:
    assert (await facts(SYSV.replace(":8", ":99").replace("DAEMON", "X"), "store")).pid == 12


async def test_names_that_a_shell_would_read_are_not_looked_up() -> None:
    assert await service_facts(["x; rm -rf /", "$(id)", ""], machine("")) == {}  # type: ignore[arg-type]


def test_every_placeholder_has_a_value_for_a_service_that_nobody_knows() -> None:
    values = ServiceFacts("x").values
    assert set(values) == set(SERVICE_FACTS)
    assert (values["restart"], values["logs"], values["pid"]) == ("false", "/dev/null", "0")


async def test_a_process_of_this_machine_is_found() -> None:
    program = "import time; time.sleep(600)"
    words = f'exec -a own-name {sys.executable} -c "{program}"'
    made = await asyncio.create_subprocess_exec("bash", "-c", words)
    try:
        found = await service_facts(["own-name"], local_runner())
    finally:
        made.kill()
        await made.wait()
    assert (found["own-name"].init, found["own-name"].pid) == ("process", made.pid)
