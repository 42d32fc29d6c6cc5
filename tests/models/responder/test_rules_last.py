"""What is left to try where no rule is sure: what was written last, and who may be in the way."""

from hermes_agent.models.responder.brief import Brief, BriefCheck
from hermes_agent.models.responder.rules.added import added, emptied, rewritten
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.rules.last import holding, meddling, suspended
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen
from tests.models.responder.machine import WELL, Machine, brief, converse

PROGRAMS = """\
==> /etc/supervisor/conf.d/api.conf <==
[program:api]
command=python3 /opt/api/bin/api.py /opt/api/etc/api.toml
stdout_logfile=/var/log/api.log

==> /etc/supervisor/conf.d/nginx.conf <==
[program:nginx]
command=nginx
"""
STATUS = """\
api                              RUNNING   pid 7, uptime 0:01:10
nginx                            RUNNING   pid 8, uptime 0:01:10
"""
PROCESSES = """\
    PID    PPID USER     STAT  NI %CPU   RSS ELAPSED COMMAND
      1       0 root     S      0  0.2 25544      80 supervisord -n
      7       1 root     Sl     0  0.1 23328      70 python3 /opt/api/bin/api.py
      8       1 root     Sl     0  0.1 23252      70 nginx: master process
     40       1 ops      S      0  0.3  9000      30 bash /home/ops/compare.sh
     41      40 ops      S      0  0.3  9000      29 python3 compare.py
"""
CONNECTIONS = """\
State Recv-Q Send-Q Local Address:Port Peer Address:Port Process
ESTAB 0      0          127.0.0.1:4001   127.0.0.1:8080 users:(("python3",pid=41,fd=3))
"""


def case(service: str = "api", **seen: str) -> Case:
    shown = {
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000", probes.STATUS: STATUS,
        probes.PROGRAMS: PROGRAMS, probes.PROCESSES: PROCESSES,
        probes.show("/opt/api/etc/api.toml"): 'listen = "127.0.0.1:8080"\n', **seen,
    }  # fmt: skip
    check = BriefCheck("c", "curl -fs http://127.0.0.1:8080/", "", 22, False)
    return Case(Brief("inc-1", service=service, check=check), [Seen(*one) for one in shown.items()])


def changed(*rows: tuple[float, str]) -> str:
    return "".join(f"62 {1794772000 + at} root {path}\n" for at, path in rows)


def acted(found: list[Idea]) -> Idea:
    return next(idea for idea in found if idea.fix)


def test_what_was_added_last_to_a_folder_of_drop_ins_is_moved_aside() -> None:
    site = "/etc/nginx/sites-enabled/status.conf"
    machine = case(**{
        probes.CHANGED: changed((90, site), (5, "/etc/nginx/sites-enabled/api.conf")),
        probes.show(site): "server {\n listen 8080;\n}\n",
        probes.copies(site): "==> lines <==\n4 x\n",
    })  # fmt: skip
    idea = acted(list(added(machine)))
    assert idea.component == "nginx"
    assert idea.fix[0].startswith(f"mv -T --backup=numbered {site} ")
    assert f" {site}; " in idea.undo
    assert idea.finish


def test_what_was_set_up_together_was_not_added() -> None:
    sites = [f"/etc/nginx/sites-enabled/{name}.conf" for name in "abcde"]
    machine = case(**{probes.CHANGED: changed(*((90.01, site) for site in sites))})
    assert not list(added(machine))


def test_what_all_share_is_put_back_where_it_was_changed_last() -> None:
    path = "/etc/company/proxy.conf"
    copies = f"==> lines <==\n20 {path}\n==> {path}.orig <==\n1c1\n< proxy = a\n---\n> proxy = b\n"
    machine = case(**{probes.CHANGED: changed((90, path)), probes.copies(path): copies})
    idea = acted(list(rewritten(machine)))
    assert f"cp {path}.orig {path}" in idea.fix
    assert idea.fix[-1] == "supervisorctl restart api"


def test_a_stranger_is_halted_and_ended_only_if_that_helps() -> None:
    machine = case(**{probes.CLIENTS: CONNECTIONS, probes.OPEN_FILES: "x"})
    idea = acted(list(suspended(machine)))
    assert idea.fix == ("kill -STOP 40 41",)
    assert idea.undo == "kill -CONT 40 41"
    assert idea.finish[0] == "kill 40 41"


async def test_what_is_tried_for_a_moment_is_made_to_last_or_undone() -> None:
    stranger = "     40       1 ops      S      0  0.3  9000      30 bash /home/ops/compare.sh\n"
    outputs = {
        **WELL,
        "for i in 1 2 3 4 5 6; do ss": CONNECTIONS.replace("pid=41", "pid=40"),
        "find /proc/[0-9]*/fd -lname '/*'": "x",
        "ps -eo": WELL["ps -eo"] + stranger,
        "kill": "",
    }
    helps = Machine(outputs, mends=lambda command: command.startswith("kill -STOP"))
    await converse(helps, brief())
    assert "kill 40" in helps.commands
    useless = Machine(outputs)
    await converse(useless, brief())
    assert "kill -CONT 40" in useless.commands
    assert "kill 40" not in useless.commands


def test_nobody_is_halted_for_a_service_that_does_not_run() -> None:
    down = STATUS.replace("RUNNING   pid 7", "FATAL          ")
    machine = case(
        **{probes.CLIENTS: CONNECTIONS, probes.OPEN_FILES: "x", probes.STATUS: down},
    )
    assert not list(suspended(machine))


def test_who_holds_the_file_that_a_service_waits_for_is_ended() -> None:
    said = "2026-11-15T20:03:10Z ERROR /var/opt/api/write is locked by somebody"
    seen = {probes.tail("/var/log/api.log"): said}
    held = "/proc/41/fd/9 /var/opt/api/write\n/proc/7/fd/4 /var/opt/api/write\n"
    (idea,) = holding(case(**seen, **{probes.OPEN_FILES: held}))
    assert idea.fix == ("kill 40 41",)
    other = held.replace("write\n/proc/7", "read\n/proc/7")
    assert not list(holding(case(**seen, **{probes.OPEN_FILES: other})))


def test_what_was_emptied_is_filled_from_what_is_kept_by_its_name() -> None:
    token, copy = "/opt/api/etc/access.token", "/var/backups/api/access.token"
    seen = {
        probes.show("/opt/api/etc/api.toml"): f'token = "{token}"\n',
        probes.CHANGED: f"0 1794772900.5 root {token}\n",
        probes.kept("access.token"): f"0 1 root {token}\n17 1794000000.0 root {copy}\n",
    }
    (idea,) = emptied(case(**seen))
    assert f"cat {copy} > {token}" in idea.fix
    full = {**seen, probes.CHANGED: f"17 1794772900.5 root {token}\n"}
    assert not list(emptied(case(**full)))


def test_a_script_that_changes_what_a_service_complains_of_is_ended() -> None:
    said = "2026-11-15T20:03:10Z ERROR store /var/opt/api/notes/x.part: No such file or directory"
    script = "/home/ops/compare.sh"
    seen = {probes.tail("/var/log/api.log"): said}
    loop = "while true; do mv /var/opt/api/notes /var/opt/api/old; sleep 2; done\n"
    (idea,) = meddling(case(**seen, **{probes.show(script): loop}))
    assert idea.fix == ("kill 40",)
    reads = loop.replace("mv", "ls")
    assert not list(meddling(case(**seen, **{probes.show(script): reads})))
