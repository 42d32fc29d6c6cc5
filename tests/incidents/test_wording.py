"""Checks in plain words, and the commands that they mean."""

import subprocess
from functools import partial
from pathlib import Path

import pytest

from hermes_agent.incidents.monitoring.wording import reading

SAID = {
    "the shop answers on https://shop.example within 2 seconds": (
        "shop-answers", "curl -fsS -o /dev/null --max-time 2 https://shop.example",
    ),
    "http://10.0.0.7:8080/up answers within 500 ms": (
        "10-0-0-7-8080-answers", "curl -fsS -o /dev/null --max-time 0.5 http://10.0.0.7:8080/up",
    ),
    "my web shop at http://127.0.0.1:8080 is up": (
        "web-shop-answers", "curl -fsS -o /dev/null --max-time 5 http://127.0.0.1:8080",
    ),
    "https://shop.example works in under 0.5 seconds": (
        "shop-example-answers", "curl -fsS -o /dev/null --max-time 0.5 https://shop.example",
    ),
    "disk / stays below 85%": (
        "disk-root",
        "df --output=pcent,avail,target / | awk '{print} NR==2 {ok = $1+0 < 85} END {exit !ok}'",
    ),
    "tell me when the disk is over 90%": (
        "disk-root",
        "df --output=pcent,avail,target / | awk '{print} NR==2 {ok = $1+0 < 90} END {exit !ok}'",
    ),
    "Check that the disk usage of /srv stays under 80%": (
        "disk-srv",
        "df --output=pcent,avail,target /srv | awk '{print} NR==2 {ok = $1+0 < 80} END {exit !ok}'",
    ),
    "inodes of /srv stay below 70%": (
        "inodes-srv",
        "df --output=ipcent,target /srv | awk '{print} NR==2 {ok = $1+0 < 70} END {exit !ok}'",
    ),
    "The certificate of shop.example:443 is valid for 14 days.": (
        "certificate-shop-example-443",
        ("openssl s_client -connect shop.example:443 -servername shop.example </dev/null"
        " | openssl x509 -noout -subject -enddate -checkend 1209600"),
    ),
    "the certificate of https://shop.example:8443/a/ is valid for 14 days": (
        "certificate-shop-example-8443",
        ("openssl s_client -connect shop.example:8443 -servername shop.example </dev/null"
        " | openssl x509 -noout -subject -enddate -checkend 1209600"),
    ),
    "the certificate of localhost:8443 must be valid for 14 days": (
        "certificate-localhost-8443",
        ("openssl s_client -connect localhost:8443 -servername localhost </dev/null"
        " | openssl x509 -noout -subject -enddate -checkend 1209600"),
    ),
    "certificate in /etc/a b.pem is valid for 2 weeks": None,
    "container redis is up": (
        "container-redis", "docker ps --all --filter 'name=^/redis$' --format '{{.Status}}'",
    ),
    "port 5432 answers": ("port-5432", "ss -Hltn 'sport = :5432' | grep ."),
    "port 5432 on db.example answers": ("port-5432-db-example", "nc -z -w 5 db.example 5432"),
    "the backup in /var/backups is younger than 26 hours": (
        "backup-var-backups", "find /var/backups -type f -mmin -1560 -print -quit | grep .",
    ),
    "no pod in namespace shop is crash looping": (
        "shop-crashloopbackoff", "kubectl get pods -n shop --no-headers --request-timeout=10s",
    ),
    "no pod is crash-looping": (
        "kubernetes-crashloopbackoff", "kubectl get pods -A --no-headers --request-timeout=10s",
    ),
    "the queue table has fewer than 1000 rows": (
        "rows-queue", "psql -XtA -c 'select count(*) < 1000, count(*) from queue'",
    ),
    "table jobs in /srv/app.db has less than 5 rows": (
        "rows-jobs", "sqlite3 -readonly /srv/app.db 'select count(*) < 5, count(*) from jobs'",
    ),
    "nginx is running": ("nginx", "pgrep -x nginx"),
    "the process nginx is running": ("process-nginx", "pgrep -x nginx"),
    "postgres accepts connections on port 15432": (
        "port-15432", "ss -Hltn 'sport = :15432' | grep .",
    ),
    "the frobnicator hums": None,
    "the shop answers on https://shop.example within 2 fortnights": None,
}  # fmt: skip


@pytest.mark.parametrize("words", SAID)
def test_plain_words_mean_a_command_or_nothing(words: str) -> None:
    found, meant = reading(words), SAID[words]
    assert (found and (found.proposed.name, found.proposed.run)) == meant


@pytest.mark.parametrize(
    ("words", "every"),
    [
        ("check that port 5432 answers every minute", 60),
        ("make sure nginx is running, every 30 seconds", 30),
        ("port 5432 answers once an hour", 3_600),
        ("port 5432 answers", 0),
    ],
)
def test_words_may_say_how_often(words: str, every: int) -> None:
    found = reading(words)
    assert found is not None
    assert found.proposed.every == every
    assert found.proposed.about in words
    assert "every" not in found.proposed.about


def test_a_time_that_is_none_is_for_a_model() -> None:
    assert reading("port 5432 answers every full moon") is None


def test_words_cannot_smuggle_in_a_command() -> None:
    for words in ("disk /$(reboot) stays below 85%", "the shop answers on http://a/;reboot"):
        found = reading(words)
        assert found is not None
        assert "'/$(reboot)'" in found.proposed.run or "'http://a/;reboot'" in found.proposed.run


def test_a_script_that_an_interpreter_runs_is_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "sync.sh").write_text("echo up; read -r _")
    found = reading("the process sync.sh is running")
    assert found is not None
    check = partial(subprocess.run, ["bash", "-c", found.proposed.run], capture_output=True)
    assert check().returncode == 1  # its own command line does not count
    words = ["bash", str(tmp_path / "sync.sh")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as script:
        assert script.stdout is not None
        script.stdout.readline()
        assert check().returncode == 0
        script.communicate()
