"""How scripts that make certificates are called, and what follows from links and keys."""

from hermes_agent.models.responder.brief import Brief, BriefCheck
from hermes_agent.models.responder.rules import issuing
from hermes_agent.models.responder.rules.certificate import certificate
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.rules.issuing import TOOLS, Wanted, arguments
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

WANTED = Wanted("a.test", "/etc/tls/a.pem", "/etc/tls/a.key")
STATUS = "web                              RUNNING   pid 8, uptime 0:01:10\n"
PROGRAMS = """\
==> /etc/supervisor/conf.d/web.conf <==
[program:web]
command=/srv/web/run --cert=/etc/tls/a.pem --key=/etc/tls/a.key
stdout_logfile=/var/log/web.out
"""
ENDED = "notBefore=Aug 14 10:00:00 2026 GMT\nnotAfter=Nov 14 10:00:00 2026 GMT\n"
LASTS = "notBefore=Nov 14 10:00:00 2026 GMT\nnotAfter=Feb 14 10:00:00 2027 GMT\n"
WHOSE = "subject=CN = a.test\nissuer=CN = root\nserial=1\n"


def case(certificates: str, **seen: str) -> Case:
    shown = {
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.STATUS: STATUS,
        probes.PROGRAMS: PROGRAMS,
        probes.CERTIFICATES: certificates,
        probes.JOBS: "",
        **seen,
    }
    check = BriefCheck("c", "curl https://a.test", "certificate has expired", 60, False)
    brief = Brief("inc-1", service="web", check=check)
    return Case(brief, [Seen(command, text) for command, text in shown.items()])


def best(machine: Case) -> Idea:
    return max((one for one in certificate(machine) if one.fix), key=lambda idea: idea.score)


def test_a_script_is_given_what_its_use_names() -> None:
    assert arguments("# usage: issue HOST FOLDER\n", "issue", WANTED) == "a.test /etc/tls"
    assert arguments("echo 'usage: $0 <name> <cert> <key>'", "i.sh", WANTED) == (
        "a.test /etc/tls/a.pem /etc/tls/a.key"
    )
    assert arguments("# issue --host NAME [--force]", "issue", WANTED) == "--host a.test"


def test_a_script_is_given_what_its_variables_name() -> None:
    assert arguments('domain="$1"\nout_dir=$2\nopenssl', "x", WANTED) == "a.test /etc/tls"
    assert arguments('p.add_argument("host")', "x.py", WANTED) == "a.test"
    assert arguments('thing="$1"\nother="$2"', "x", WANTED) == ""


def test_a_script_is_called_as_it_was_before() -> None:
    tool = "==> /opt/ca/issue <==\n#!/bin/sh\nopenssl x509 -subj /CN=$1 -days $3 > $2\n"
    told = "/opt/ca/README:4:    /opt/ca/issue a.test /etc/tls/a.pem 30\n"
    machine = case("", **{TOOLS: tool, probes.mentions("issue"): told})
    found, wants = issuing.calls(machine, WANTED)
    assert found == ["/opt/ca/issue a.test /etc/tls/a.pem 30"]
    assert not wants


def test_a_link_is_led_to_the_new_one_and_what_it_led_to_stays() -> None:
    machine = case(
        f"==> /etc/tls/a.pem <==\nlink=../old/a1.pem\n{WHOSE}{ENDED}public=aa\n"
        "==> /etc/tls/a.key <==\nlink=../old/a1.key\nkey=aa\n"
        f"==> /etc/old/a2.pem <==\n{WHOSE}{LASTS}public=bb\n==> /etc/old/a2.key <==\nkey=bb\n"
    )
    found = best(machine)
    assert found.fix[:2] == (
        "ln -sfn /etc/old/a2.pem /etc/tls/a.pem", "ln -sfn /etc/old/a2.key /etc/tls/a.key",
    )  # fmt: skip
    assert found.undo.startswith("ln -sfn ../old/a1.pem /etc/tls/a.pem")


def test_one_that_signed_itself_does_not_take_the_place_of_one_that_did_not() -> None:
    own = WHOSE.replace("CN = root", "CN = a.test")
    machine = case(
        f"==> /etc/tls/a.pem <==\n{WHOSE}{ENDED}public=aa\n"
        f"==> /root/own.pem <==\n{own}{LASTS}public=bb\n==> /root/own.key <==\nkey=bb\n"
    )
    assert not [idea for idea in certificate(machine) if idea.fix]


def test_a_certificate_gets_the_key_that_belongs_to_it() -> None:
    said = 'nginx: [emerg] SSL_CTX_use_PrivateKey("/etc/tls/a.key") failed: key values mismatch\n'
    machine = case(
        f"==> /etc/tls/a.pem <==\n{WHOSE}{LASTS}public=bb\n==> /etc/tls/a.key <==\nkey=aa\n"
        "==> /root/a.new.key <==\nkey=bb\n",
        **{probes.tail("/var/log/web.out"): said},
    )
    assert "cp /root/a.new.key /etc/tls/a.key" in best(machine).fix


def test_what_only_speaks_of_certificates_makes_none() -> None:
    wanted = Wanted("a.test", "/etc/tls/a.pem")

    def made(text: str) -> list[str]:
        seen = {TOOLS: f"\n==> /srv/pki/issue <==\n{text}\n", probes.mentions("issue"): ""}
        return issuing.calls(case("", **seen), wanted)[0]

    assert made("#!/bin/sh\n# issue NAME\nopenssl x509 -req -in $1.csr") == [
        "/srv/pki/issue a.test"
    ]
    assert made("#!/bin/sh\n# issue NAME: notes what is wrong with an x509 thing\nmail $1") == []


def test_who_asks_may_tell_that_a_certificate_has_run_out() -> None:
    ended = f"==> /etc/tls/a.pem <==\n{WHOSE}{ENDED}public=1\n"
    said = "[error] 8#8: upstream SSL certificate verify error while handshaking to 127.0.0.1:7443"
    front = "\n==> /etc/supervisor/conf.d/front.conf <==\n[program:front]\ncommand=/srv/front\n"
    heard = 'LISTEN 0 64 127.0.0.1:7443 0.0.0.0:* users:(("run",pid=8,fd=3))\n'
    listed = "PID PPID USER STAT NI %CPU RSS ELAPSED COMMAND\n8 1 app S 0 0.1 900 99 /srv/web/run\n"
    seen = {
        probes.PROGRAMS: PROGRAMS + front, probes.LISTENERS: heard, probes.PROCESSES: listed,
        probes.STATUS: f"{STATUS}front  RUNNING  pid 9, uptime 1:10\n", TOOLS: "",
    }  # fmt: skip

    def score(line: str) -> float:
        logs = f"==> /var/log/front.log <==\n{line}\n"
        check = BriefCheck("c", "curl http://127.0.0.1:80/", "502", 22, False)
        shown = {**seen, probes.LOGS: logs, probes.CERTIFICATES: ended, probes.JOBS: "",
                 probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000"}  # fmt: skip
        machine = Case(Brief("inc-1", service="front", check=check), [
            Seen(command, text) for command, text in shown.items()
        ])  # fmt: skip
        return max(idea.score for idea in certificate(machine) if idea.component == "web")

    assert score(said) > score("[error] nothing of the kind")
