"""Lines of displays that nginx keeps open for hours, since somebody wanted fewer handshakes."""

import sys

from msgspec.structs import replace

from hermes_agent.incidents.drills import tiers, troves
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Program, Truth

DISPLAYS = '''"""What the displays of the hall do: each asks now and then, and leaves the line to
the other side. displays.py PORT"""

import select
import socket
import sys
import time

lines = []
while True:
    try:
        line = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=1)
        line.sendall(b"GET /live HTTP/1.1\\r\\nHost: hall\\r\\n\\r\\n")
        line.recv(4096)
        lines.append(line)
    except OSError as error:
        print("display:", error, flush=True)
        time.sleep(0.3)
    ready = select.select(lines, [], [], 0)[0] if lines else []
    for line in ready:
        try:
            gone = not line.recv(4096)
        except OSError:
            gone = True
        if gone:
            lines.remove(line)
            line.close()
    time.sleep(0.09)
'''

NGINX = "/etc/nginx/nginx.conf"


def _site(port: int, target: int) -> str:
    return f"""server {{
    listen 127.0.0.1:{port};
    client_max_body_size 4m;

    location / {{
        proxy_pass http://127.0.0.1:{target};
    }}
}}
"""


def _open(probe: Probe) -> int:
    found = (p.descriptors for p in probe.processes() if "nginx: worker" in p.command)
    return max(found, default=0)


IDLE = """import socket, sys
line = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 7)
line.sendall(b"GET /live HTTP/1.1\\r\\nHost: hall\\r\\n\\r\\n")
while line.recv(4096):
    pass
"""
"""Asks once, and waits until the other side closes."""


def _held(probe: Probe, port: int, most: int) -> str:
    """Whether lines stay open: there are many, or one that is idle is not closed."""
    if (now := _open(probe)) > most * 3 // 4:
        return f"nginx has {now} files open"
    closed = probe.run([sys.executable, "-ISc", IDLE, str(port)], timeout=12).code == 0
    return "" if closed else "nginx does not close a line that is idle"


def _displays(name: str, code: str, port: int) -> tiers.Part:
    return tiers.Part(
        Program(
            name=name, command=f"python3 {code} {port}", needs=("nginx",),
            about="the displays in the hall; they must not go dark",
        ),
        {code: File(DISPLAYS, age=tiers.MONTH)},
    )  # fmt: skip


def kept_for_hours(pick: Pick) -> Scene:
    (main, other, hall), (port, inner, other_port) = pick.services(3), pick.ports(3)
    home, beside = troves.house(pick, main, inner), troves.house(pick, other, other_port)
    kept, most, hours = troves.entries(home, pick), pick.size(90, 130), pick.size(2, 12)
    site, name = tiers.site_file(main), f"{hall}-displays"
    code = f"/srv/{name}/displays.py"
    web = tiers.nginx({main: _site(port, inner)}, [main], port)
    text = (
        web.files[NGINX]
        .text.replace("worker_processes 1;", f"worker_processes 1;\nworker_rlimit_nofile {most};")
        .replace("worker_connections 128;", "worker_connections 1024;")
    )
    text = text.replace(
        "proxy_read_timeout 2s;", "proxy_read_timeout 2s;\n    keepalive_timeout 2s;"
    )
    web = replace(web, files={**web.files, NGINX: File(text, age=tiers.MONTH)})
    world = tiers.joined(
        [troves.trove(home), troves.trove(beside), web, _displays(name, code, port)],
        files=kept,
        hostname=pick.host(),
    )

    def inject(box: Box) -> None:
        box.run(f"sed -i '/listen/a\\    keepalive_timeout {hours}h;' {site}")
        box.run("nginx -s reload")
        full = "tail -n 3 /var/log/nginx/error.log | grep -q 'Too many open files'"
        box.run(f"until {full}; do sleep 0.2; done", seconds=50)

    return Scene(
        world=world,
        check=troves.is_up(main, port),
        healthy=lambda probe: said(*troves.keeps(probe, port), _held(probe, port, most)),
        truth=Truth(
            ("nginx", name, main), ("descriptor-leak", "bad-config", "pool-exhausted"),
            rf"{site}|keepalive_timeout|{name}|displays\.py|worker_rlimit_nofile|{NGINX}",
            r"Too many open files|keepalive_timeout|displays\.py",
        ),
        inject=inject,
        fix=(f"sed -i '/keepalive_timeout/d' {site}",
             "nginx -t && nginx -s reload; sleep 2.5"),
        wrong={
            "nginx is only restarted": ["supervisorctl restart nginx; sleep 0.5"],
            "the service behind is restarted": [f"supervisorctl restart {main}"],
            "the limit is raised": [
                f"sed -i 's/^worker_rlimit_nofile .*/worker_rlimit_nofile 4096;/' {NGINX}",
                "nginx -s reload; sleep 0.5",
            ],
            "the displays are stopped": [f"supervisorctl stop {name}; sleep 0.3",
                                         "supervisorctl restart nginx"],
        },
        stays=(*kept, home.config, code),
        runs=(code,),
        harm=lambda probe: said(
            *troves.keeps(probe, other_port),
            "" if f"worker_rlimit_nofile {most};" in probe.text(NGINX) else "its limit was changed",
        ),
    )  # fmt: skip
