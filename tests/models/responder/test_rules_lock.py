"""Rules for marks that were left behind, and turn people away."""

from hermes_agent.models.responder.brief import Brief, BriefCheck
from hermes_agent.models.responder.rules import lock
from hermes_agent.models.responder.rules.ideas import ACT, Idea
from hermes_agent.models.responder.rules.taken import HOST
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

MARK, THEIRS = "/srv/a/updating", "/srv/b/updating"
PROGRAMS = """\
==> /etc/supervisor/conf.d/nginx.conf <==
[program:nginx]
command=nginx -c /etc/nginx/nginx.conf
"""
PROCESSES = """\
    PID    PPID USER     STAT  NI %CPU   RSS ELAPSED COMMAND
      1       0 root     S      0  0.2 25544     800 supervisord -n
     20       1 root     S      0  0.1 23252     600 nginx: master process nginx
     44       1 root     S      0  0.1 23252     600 /bin/bash /srv/a/bin/update
"""
SITE = (
    "==> /etc/nginx/sites-enabled/{0} <==\nserver {{\n  listen {1};\n  if (-f {2}) {{\n  }}\n}}\n"
)


def left(text: str) -> Idea | None:
    """What is believed of a mark that says so, once all was looked at."""
    seen = {
        probes.STATUS: "nginx    RUNNING   pid 20, uptime 0:10:00\n",
        probes.PROGRAMS: PROGRAMS, probes.PROCESSES: PROCESSES,
        probes.SITES: SITE.format("a", 7001, MARK) + SITE.format("b", 7002, THEIRS),
    }  # fmt: skip
    check = BriefCheck(command="curl -sS http://127.0.0.1:7001/up", output="HTTP 503", exit=1)
    answers = {
        probes.show(MARK): text, probes.holders(MARK): "", lock.users(MARK): "",
        probes.rows(MARK): f"-rw-r--r-- 1 root root 9 2026-11-15 19:03:12.0 +0000 {MARK}\n",
    }  # fmt: skip
    for _ in range(4):
        case = Case(
            Brief("inc-1", service="a", check=check), [Seen(one, out) for one, out in seen.items()]
        )
        found = list(lock.marked(case))
        wants = [one for idea in found for one in idea.wants]
        assert not any(THEIRS in one for one in wants)  # it is of another site
        seen |= {one: answers[one] for one in wants}
    return next(iter(found), None)


def test_a_mark_of_a_process_that_is_gone_no_longer_turns_people_away() -> None:
    idea = left("31415 update 2026-11-15 19:03\n")
    assert idea is not None
    assert idea.score >= ACT
    assert idea.fix[0].startswith(f"mv -T --backup=numbered {MARK} ")
    assert not any("restart" in one for one in idea.fix)


def test_a_mark_of_one_at_work_stays_and_so_does_one_that_nobody_signed() -> None:
    assert left("44 update 2026-11-15 19:03\n") is None
    for text in ("we are at work\n", "back at 14:30\n", "20261115\n", "2026-11-15 by ann\n",
                 "pid 31415: do not remove until it is over\n"):  # fmt: skip
        unsigned = left(text)
        assert unsigned is not None
        assert unsigned.score < ACT


GUARD = "/var/local/a/occupied"


def guarded(text: str, host: str = "web-2") -> Idea | None:
    """What is believed of a file that the last words of what does not come up name."""
    log = "/var/log/supervisor/a.log"
    seen = {
        probes.STATUS: "a    FATAL    Exited too quickly\n", probes.PROCESSES: PROCESSES,
        probes.PROGRAMS: f"==> /a.conf <==\n[program:a]\ncommand=/app/ad\nstdout_logfile={log}\n",
        probes.tail(log): f"{GUARD} says that somebody is here already, leaving\n",
    }  # fmt: skip
    answers = {
        probes.show(GUARD): text, probes.holders(GUARD): "", lock.users(GUARD): "",
        probes.rows(GUARD): f"-rw-r--r-- 1 root root 9 2026-11-15 19:03:12.0 +0000 {GUARD}\n",
        HOST: f"{host}\n",
    }  # fmt: skip
    for _ in range(4):
        case = Case(Brief("inc-1", service="a"), [Seen(one, out) for one, out in seen.items()])
        found = [one for one in lock.locked(case) if one.locus == GUARD]
        seen |= {one: answers[one] for idea in found for one in idea.wants}
    return next((one for one in found if one.fix), None)


def test_a_file_that_says_whose_it_is_goes_when_that_process_is_gone_whatever_it_is_called() -> (
    None
):
    idea = guarded('{"host": "web-2", "process": 31415}')
    assert idea is not None
    assert idea.fix[0].startswith(f"mv -T --backup=numbered {GUARD} ")
    assert guarded('{"count": 31415}') is None
    assert guarded('{"process": 31415, "orders": "' + "x" * 900 + '"}') is None


def test_a_lock_of_another_machine_stays() -> None:
    assert guarded('{"host": "web-1", "process": 31415}') is None
    assert guarded("pid 31415, web-1:80\n") is None
