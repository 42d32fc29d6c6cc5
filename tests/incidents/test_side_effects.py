"""What commands do to the systems, as it is read from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.incidents.response.side_effects import did


@pytest.mark.parametrize(
    "command",
    [
        "df -h; df -i; free -m",
        "supervisorctl status",
        "systemctl status web --no-pager | head",
        "ps aux --sort=-%mem | head -20",
        "for p in /proc/[0-9]*; do readlink $p/exe 2>/dev/null; done | sort | uniq -c",
        "tail -n 50 /var/log/web.log 2>&1",
        "curl -sS -m 2 http://127.0.0.1:8080/healthz",
        "psql -c 'select pid, state from pg_stat_activity'",
        "nginx -t",
        "kill -0 12",
        "ip addr; ip route; ss -ltnp",
        "openssl x509 -in /etc/ssl/web.crt -noout -dates",
        "grep -c error /var/log/*.log > /tmp/count; cat /tmp/count",
        "date; getent hosts db",
        "ls -l /srv && stat /srv/app",
        "awk '{print $1}' /etc/passwd",
        "service web status",
        "tar -tf /var/backups/web.tgz; tar -xOf /var/backups/web.tgz -- web.conf | diff - web.conf",
        "xzcat old.conf.xz; bzcat older.conf.bz2",
    ],
)
def test_looking_changes_nothing(command: str) -> None:
    assert did("terminal", {"command": command}) == "looked"


@pytest.mark.parametrize(
    "command",
    [
        "supervisorctl restart web",
        "systemctl reload nginx",
        "kill 12",
        "truncate -s 0 /var/log/web.log",
        "rm -f /var/cache/web/*",
        "sed -i s/a/b/ /etc/web.conf",
        "echo x > /etc/web.conf",
        "df -h && pkill -9 -f leaky",
        "psql -c 'select pg_terminate_backend(12)'",
        "psql -c 'update t set a = 1'",
        "ip link set eth0 up",
        "nginx -t && nginx -s reload",
        "date -s '2026-01-01'",
        "chmod 640 /srv/app/key",
        "ln -sfn /srv/releases/3 /srv/current",
        "bash -c 'rm -rf /srv/x'",
        "service web restart",
        "rm -f /tmp/web.lock",
        "curl -X POST http://127.0.0.1/reload",
        "tar xzf FOO.tgz",
        "tar -czf /var/backups/web.tgz /etc",
    ],
)
def test_what_changes_something_is_called_a_change(command: str) -> None:
    assert did("terminal", {"command": command}) == "changed"


@pytest.mark.parametrize("command", ["python3 -c 'print(1)'", "./repair.sh", "$X", "frobnicate"])
def test_what_nobody_can_read_is_neither(command: str) -> None:
    assert did("terminal", {"command": command}) == "unclear"


def test_tools_are_known_by_what_they_are_for() -> None:
    assert did("write_file", {"path": "a"}) == "changed"
    assert did("patch", {"path": "a"}) == "changed"
    assert did("read_file", {"path": "a"}) == "looked"
    assert did("process", {"action": "list"}) == "looked"
    assert did("process", {"action": "stop"}) == "changed"
    assert did("somebodys_server_tool", {}) == "unclear"


PUT = "curl -fsS -X PUT -d hello http://127.0.0.1:8080/items/probe"


@pytest.mark.parametrize("command", [PUT, f"sleep 1; {PUT}", f"df -h\n{PUT} | head -1", f"({PUT})"])
def test_who_runs_the_check_by_hand_looks(command: str) -> None:
    assert did("terminal", {"command": command}) == "changed"
    assert did("terminal", {"command": command}, [PUT]) == "looked"


@pytest.mark.parametrize("command", [f"{PUT}/drop", f"{PUT}; rm -rf /srv", f"x{PUT}"])
def test_what_is_more_than_the_check_is_what_it_is(command: str) -> None:
    assert did("terminal", {"command": command}, [PUT]) != "looked"


@given(st.text(max_size=200))
def test_any_text_is_one_of_the_three(command: str) -> None:
    assert did("terminal", {"command": command}) in {"looked", "changed", "unclear"}
