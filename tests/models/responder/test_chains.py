"""Certificates that follow one another in a file: one in between that ended, and one that lacks."""

import subprocess
from pathlib import Path

from hermes_agent.models.responder.brief import Brief, BriefCheck, BriefService
from hermes_agent.models.responder.rules import chains
from hermes_agent.models.responder.rules.ideas import ACT, Idea, kept_as, ranked
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen
from tests.support.patience import PATIENCE

OWN, NEW = "/etc/nginx/tls/shop.pem", "/etc/pki/between-2026.pem"
ENTRY = """\
==> /etc/supervisor/conf.d/nginx.conf <==
[program:nginx]
command=/usr/sbin/nginx -g 'daemon off;'
"""
ENDS = "notAfter=Jan  1 00:00:00 2027 GMT"
LEAF = f"subject=CN = shop.example\nissuer=CN = Between G2\n{ENDS}\npublic=01"
BETWEEN = "subject=CN = Between G2\nissuer=CN = Root\nnotAfter={0} GMT\npublic={1}"
ENDED, LASTS = "Nov 14 00:00:00 2026", "Nov 14 00:00:00 2031"


def found(said: str, files: dict[str, str]) -> list[Idea]:
    seen = {
        probes.STATUS: "nginx   RUNNING   pid 7, uptime 0:10",
        probes.PROGRAMS: ENTRY,
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.show("/etc/nginx/nginx.conf"): f"http {{ ssl_certificate {OWN}; }}\n",
        chains.CHAINS: "".join(f"\n==> {place} <==\n{text}\n" for place, text in files.items()),
    }
    check = BriefCheck("https", "curl https://shop.example/", f"curl: (60) {said}", 60)
    brief = Brief("inc-1", service="nginx", check=check, services=(BriefService("nginx"),))
    return ranked(chains.chains(Case(brief, [Seen(*one) for one in seen.items()])))


def test_one_in_between_that_ended_is_replaced_by_one_for_the_same_key() -> None:
    files = {
        f"{OWN}#1": LEAF,
        f"{OWN}#2": BETWEEN.format(ENDED, "02"),
        f"{NEW}#1": BETWEEN.format(LASTS, "02"),
    }
    (idea,) = found("SSL certificate problem: certificate has expired", files)
    assert idea.score >= ACT
    assert NEW in idea.fix[1]
    other = {**files, f"{NEW}#1": BETWEEN.format(LASTS, "03")}
    (idea,) = found("SSL certificate problem: certificate has expired", other)
    assert idea.fix == ()


def test_one_that_is_there_anew_already_is_left_alone() -> None:
    files = {
        f"{OWN}#1": LEAF,
        f"{OWN}#2": BETWEEN.format(ENDED, "02"),
        f"{OWN}#3": BETWEEN.format(LASTS, "02"),
    }
    assert found("SSL certificate problem: certificate has expired", files) == []


def test_a_file_that_does_not_go_on_gets_the_next_one() -> None:
    files = {f"{OWN}#1": LEAF, f"{NEW}#1": BETWEEN.format(LASTS, "02")}
    (idea,) = found("SSL certificate problem: unable to get local issuer certificate", files)
    assert idea.score >= ACT
    assert f">> {OWN}" in idea.fix[1]
    assert found("SSL certificate problem: certificate has expired", files) == []


def test_nothing_comes_from_homes_and_whom_it_trusts_is_for_people_to_say() -> None:
    lacking = "SSL certificate problem: unable to get local issuer certificate"
    files = {f"{OWN}#1": LEAF, "/home/eve/x.pem#1": BETWEEN.format(LASTS, "02")}
    assert not any(idea.fix for idea in found(lacking, files))
    ended = {
        f"{OWN}#1": LEAF, f"{OWN}#2": BETWEEN.format(ENDED, "02"),
        "/home/eve/x.pem#1": BETWEEN.format(LASTS, "02"),
    }  # fmt: skip
    assert not any(idea.fix for idea in found("certificate has expired", ended))
    root = f"subject=CN = Root\nissuer=CN = Root\n{ENDS}\npublic=04"
    trusted = {f"{OWN}#1": root, f"{OWN}#2": LEAF, f"{NEW}#1": BETWEEN.format(LASTS, "02")}
    assert not any(idea.fix for idea in found(lacking, trusted))


def test_all_else_in_the_file_stays(tmp_path: Path) -> None:
    block = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"
    own, new, kept = tmp_path / "own.pem", tmp_path / "new.pem", tmp_path / "kept.pem"
    key = "-----BEGIN PRIVATE KEY-----\nk\n-----END PRIVATE KEY-----\n"
    kept.write_text(block.format("a") + key + block.format("b") + block.format("c"))
    new.write_text(block.format("x") + block.format("y"))
    command = chains.replaced(chains.Part(str(own), 2, ""), chains.Part(str(new), 2, ""))
    command = command.replace(kept_as(str(own)), str(kept))
    own.write_text("what could not be kept")
    assert subprocess.run(["bash", "-c", command], check=False, timeout=PATIENCE).returncode
    assert own.read_text() == "what could not be kept"
    own.write_text(kept.read_text())
    subprocess.run(["bash", "-c", command], check=True, timeout=PATIENCE)
    assert own.read_text() == block.format("a") + key + block.format("y") + block.format("c")
