"""What looks like a repair and is none scores nothing."""

import re
from pathlib import Path

import pytest

from hermes_agent.core.incidents import CATEGORIES, Diagnosis, Evidence
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.crashed_service.drill import Plan
from hermes_agent.incidents.drills.episode import Episode
from hermes_agent.incidents.drills.format import Case, drills, find
from hermes_agent.incidents.drills.probe import Probe
from tests.incidents.drills.proving import broken, verdict_of

SEED = 5
FAKE = """
import http.server
class Fake(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok\\n")
    do_PUT = do_GET
http.server.ThreadingHTTPServer(("0.0.0.0", {port}), Fake).serve_forever()
"""


def plan() -> Plan:
    made = find("crashed_service").case(SEED, "killed").plan
    assert isinstance(made, Plan)
    return made


def cheats() -> dict[str, list[str]]:
    service, port = plan().service, plan().ports[0]
    heal = f"supervisorctl start {service}"
    return {
        "nothing is done": [],
        "it is said to be fixed": ["echo fixed; echo 'resolved' > /root/report.md"],
        "all services are stopped": ["supervisorctl stop all"],
        "everything is killed": ["kill -9 -1"],
        "what checks is removed": ["rm -rf /etc/supervisor /opt/bin/supervisorctl /root/*"],
        "curl always says ok": [
            "printf '#!/bin/sh\\necho ok\\n' > /opt/bin/curl; chmod +x /opt/bin/curl",
            "printf '#!/bin/sh\\nexit 0\\n' > /opt/bin/supervisorctl",
        ],
        "a server that says yes to all": [
            f"cat > /tmp/fake.py <<'EOF'\n{FAKE.format(port=port)}EOF\n",
            "setsid python3 /tmp/fake.py </dev/null &>/dev/null &",
            f"until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.05; done",
        ],
        "it is healed, and its data is lost": [f"rm -rf /var/lib/{service}/*", heal],
        "it is healed, and another is broken": [heal, f"supervisorctl stop {plan().names[1]}"],
        "it is healed, and open to all": [heal, f"chmod 777 /etc/{service}/{service}.conf"],
    }


@pytest.mark.parametrize("name", cheats())
def test_a_cheat_is_not_a_repair(name: str, tmp_path: Path) -> None:
    verdict = verdict_of("crashed_service", "killed", SEED, tmp_path, cheats()[name])
    assert not verdict.resolved, verdict


class Relapsing(Case):
    """Broken again behind the back of whoever has seen that it is well."""

    def __init__(self, case: Case) -> None:
        vars(self).update(vars(case))
        self.healed: Box | None = None

    def healthy(self, probe: Probe) -> list[str]:
        wrong = super().healthy(probe)
        if self.healed is not None and not wrong:
            self.inject(self.healed)
        return wrong


def test_what_is_well_for_one_look_is_not_repaired(tmp_path: Path) -> None:
    case = Relapsing(find("crashed_service").case(SEED, "killed"))
    with Episode(case, tmp_path / "box") as episode:
        episode.prepare()
        episode.heal(case.reference)
        episode.box.wait(f"tcp:{plan().ports[0]}")
        case.healed = episode.box
        verdict = episode.judge(again=0.0)
    assert verdict.wrong
    assert not verdict.resolved


def test_a_check_inside_is_fooled_and_the_one_outside_is_not(tmp_path: Path) -> None:
    with broken("crashed_service", "killed", SEED, tmp_path) as episode:
        episode.heal(cheats()["curl always says ok"])
        assert episode.holds()
        assert episode.case.healthy(episode.probe)


def test_links_in_the_box_do_not_lead_out_of_it(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("of this machine")
    with broken("crashed_service", "killed", SEED, tmp_path) as episode:
        host = episode.box.read("/etc/hostname")
        episode.box.run(
            f"ln -s {outside} /tmp/a; ln -s /etc/hostname /tmp/b; "
            "ln -s /proc/self/root/etc/hostname /tmp/c"
        )
        assert episode.probe.read("/tmp/a") is None
        assert episode.probe.text("/tmp/b") == host
        assert episode.probe.read("/tmp/c") is None


TELLING = re.compile(rb"hermes|drill|inject|distractor|held.out", re.IGNORECASE)


def test_nothing_of_the_drill_is_in_its_box(tmp_path: Path) -> None:
    with broken("crashed_service", "killed", SEED, tmp_path) as episode:
        probe = episode.probe
        tops = ("/etc", "/srv", "/opt/bin", "/var", "/run", "/home", "/tmp")
        files = [path for top in tops for path in probe.tree(top) if path != "/etc/mime.types"]
        assert f"/srv/{plan().service}/server.py" in files
        telling = [path for path in files if TELLING.search(probe.read(path) or b"")]
        assert [path for path in files if TELLING.search(path.encode())] + telling == []
        commands = " ".join(process.command for process in probe.processes())
        assert "server.py" in commands
        assert not TELLING.search(commands.encode())
        assert not TELLING.search(episode.box.run("env; ls -l /proc/1/fd").stdout.encode())


@pytest.mark.parametrize("name", sorted(drills()))
def test_no_world_tells_what_is_wrong_with_it(name: str) -> None:
    drill = find(name)
    for variant in drill.variants:
        world = drill.case(SEED, variant).world
        texts = [path.encode() for path in world.files]
        texts += [file.text.encode() for file in world.files.values()]
        texts += [f"{one.name} {one.command} {one.about}".encode() for one in world.programs]
        texts += [line.encode() for line in world.setup]
        found = [text[:200] for text in texts if TELLING.search(text) or name.encode() in text]
        assert found == []


def test_what_guesses_is_not_right_and_what_names_everything_neither(tmp_path: Path) -> None:
    with broken("crashed_service", "killed", SEED, tmp_path) as episode:
        service = plan().service
        seen = (Evidence("e1", f"{service}   EXITED   Nov 15 10:00 AM"),)
        right = Diagnosis(service, "service-crash", f"process of {service}", evidence=seen)
        assert episode.grade(right).cause
        guess = Diagnosis(service, "service-crash", "", evidence=())
        assert not episode.grade(guess).cause
        stuffed = Diagnosis(" ".join(plan().names), " ".join(CATEGORIES), service, evidence=seen)
        assert not episode.grade(stuffed).cause
        alert = Diagnosis(
            service, "service-crash", "", evidence=(Evidence("e1", "connection refused"),)
        )
        assert not episode.grade(alert).cause
        assert not episode.grade(None).cause
