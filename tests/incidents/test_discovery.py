"""What is found on a machine, and the checks that are proposed for it."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes_agent.incidents.monitoring.discovery import PROBES, discovered
from hermes_agent.incidents.monitoring.scheduler import CheckOutcome
from hermes_agent.incidents.monitoring.wording import ProposedCheck
from tests.support.patience import PATIENCE
from tests.support.systemd import manager

UNIT = """[Service]
ExecStart={run}
[Install]
WantedBy=default.target
"""


async def found(said: Mapping[str, str], http: str = "") -> dict[str, ProposedCheck]:
    """The proposals for these outputs; `http`: the address that answers a GET, with 401."""

    async def get(command: str) -> CheckOutcome:
        answers = bool(http) and http in command
        return CheckOutcome(answers, "", 0 if answers else 7, "401\n" if answers else "000\n")

    return {one.name: one for one in await discovered({**dict.fromkeys(PROBES, ""), **said}, get)}


def asked(command: str, **environ: str) -> str:
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE, env=environ
    )
    return done.stdout


@pytest.mark.root
async def test_enabled_services_that_run_or_failed_and_timers_are_proposed(tmp_path: Path) -> None:
    with manager(tmp_path / "m") as systemd:
        units = {"shop": "sleep infinity", "broken": "false", "idle": "sleep infinity"}
        for name, run in units.items():
            text = UNIT.format(run=f"{shutil.which(run.split()[0])} {run.partition(' ')[2]}")
            (systemd.units / f"{name}.service").write_text(text)
        timer = "[Timer]\nOnActiveSec=1h\nUnit=idle.service\n[Install]\nWantedBy=timers.target\n"
        (systemd.units / "night.timer").write_text(timer)
        systemd.ask("daemon-reload")
        systemd.ask("enable", "shop", "broken")
        systemd.ask("start", "shop", "broken", "night.timer")
        outputs = {
            name: asked(PROBES[name], **systemd.environ) for name in ("enabled", "units", "timers")
        }
    checks = await found(outputs)
    assert set(checks) == {"service-shop", "service-broken", "failed-units", "timer-night"}
    assert checks["service-shop"].run == "systemctl is-active shop.service"
    assert checks["service-shop"].severity == "P1"


async def test_what_printed_nothing_proposes_nothing() -> None:
    assert await found({}) == {}


SAID: list[tuple[str, str, dict[str, str]]] = [
    ("docker", "redis\tUp 3 hours (healthy)\n", {
        "container-redis": "docker ps --all --filter 'name=^/redis$' --format '{{.Status}}'",
    }),
    ("podman", "web.1\tUp 2 seconds\n", {
        "container-web-1": "podman ps --all --filter 'name=^web.1$' --format '{{.Status}}'",
    }),
    ("ports", (
        "LISTEN 0 128 0.0.0.0:22 0.0.0.0:*\nLISTEN 0 128 [::]:22 [::]:*\n"
        "LISTEN 0 5 127.0.0.1:41234 0.0.0.0:*\n"
    ), {"port-22": "ss -Hltn 'sport = :22' | grep ."}),
    ("ports", "LISTEN 0 511 *:8080 *:*\n", {
        "http-8080": "curl -skS -o /dev/null --max-time 5 -w '%{http_code}\\n'"
        " http://127.0.0.1:8080/",
    }),
    ("disks", (
        "Type IUse% Filesystem Mounted on\ntmpfs 1% tmpfs /run\noverlay 4% overlay /\n"
        "vfat - /dev/sda1 /boot/efi\nxfs 2% /dev/sdb1 /srv/my data\nxfs 2% /dev/sdb1 /var/bound/x\n"
    ), {
        "disk-root": "df --output=pcent,avail,target / "
        "| awk '{print} NR==2 {ok = $1+0 < 90} END {exit !ok}'",
        "inodes-root": "df --output=ipcent,target / "
        "| awk '{print} NR==2 {ok = $1+0 < 90} END {exit !ok}'",
        "disk-boot-efi": "df --output=pcent,avail,target /boot/efi "
        "| awk '{print} NR==2 {ok = $1+0 < 90} END {exit !ok}'",
        "disk-srv-my-data": "df --output=pcent,avail,target '/srv/my data' "
        "| awk '{print} NR==2 {ok = $1+0 < 90} END {exit !ok}'",
        "inodes-srv-my-data": "df --output=ipcent,target '/srv/my data' "
        "| awk '{print} NR==2 {ok = $1+0 < 90} END {exit !ok}'",
    }),
    ("certificates", (
        "/etc/letsencrypt/live/shop.example/fullchain.pem\n    ssl_certificate /etc/tls/a.pem\n"
        "ssl_certificate $chosen\n"
    ), {
        "certificate-shop-example": "openssl x509 -noout -subject -enddate -checkend 1209600"
        " -in /etc/letsencrypt/live/shop.example/fullchain.pem",
        "certificate-tls-a-pem": "openssl x509 -noout -subject -enddate -checkend 1209600"
        " -in /etc/tls/a.pem",
    }),
    ("cron", "# none\nMAILTO=root\n17 * * * * root run-parts /etc/cron.hourly\n", {
        "cron": "pgrep -x 'cron|crond'",
    }),
    ("cluster", "shop web-1 1/1 Running 0 3d\n#@answers\n", {
        "kubernetes-crashloopbackoff": "kubectl get pods -A --no-headers --request-timeout=10s",
    }),
    ("cluster", "The connection to the server localhost:8080 was refused\n", {}),
]  # fmt: skip


@pytest.mark.parametrize(("probe", "text", "proposed"), SAID)
async def test_each_thing_that_runs_has_its_check(
    probe: str, text: str, proposed: dict[str, str]
) -> None:
    checks = await found({probe: text}, http="http://127.0.0.1:8080/")
    assert {name: one.run for name, one in checks.items()} == proposed
