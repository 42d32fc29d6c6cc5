"""What every box has in common: its supervisor, its accounts, and the small scripts beside it."""

from hermes_agent.incidents.drills.world import BOX_ADDRESS, File, Program, World

INIT = ["/opt/bin/supervisord", "-n", "-c", "/etc/supervisor/supervisord.conf"]
LOGS = "/var/log/supervisor"
SOCKET = "/run/supervisor.sock"

_SUPERVISOR = """\
[unix_http_server]
file=/run/supervisor.sock
chmod=0700

[supervisord]
logfile=/var/log/supervisor/supervisord.log
logfile_maxbytes=1MB
logfile_backups=1
pidfile=/run/supervisord.pid
nodaemon=true

[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface

[supervisorctl]
serverurl=unix:///run/supervisor.sock

[include]
files = /etc/supervisor/conf.d/*.conf
"""

_RUN = """\
#!{python} -IS
import sys
sys.path.insert(0, "/opt/lib")
from supervisor.{name} import main
main()
"""

_AS_APP = """\
#!/bin/sh
# Runs a program as the user `app`, who has no privileges.
exec unshare --user --map-user=1000 --map-group=1000 -- "$@"
"""

_ON_NODE = """\
#!/bin/sh
# Runs a program in the network of another node: on-node NAME PROGRAM...
node=$1; shift
exec nsenter --net=/run/netns/"$node" -- "$@"
"""


def files(world: World, python: str) -> dict[str, File]:
    """By their paths; `python` is the interpreter that programs of the box get."""
    hosts = {"localhost": "127.0.0.1", world.hostname: "127.0.1.1", **world.hosts}
    found = {
        "/etc/passwd": File(
            "root:x:0:0:root:/root:/bin/bash\n"
            "app:x:1000:1000:services:/home/app:/bin/sh\n"
            "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
        ),
        "/etc/group": File("root:x:0:\napp:x:1000:\nnogroup:x:65534:\n"),
        "/etc/hostname": File(f"{world.hostname}\n"),
        "/etc/hosts": File("".join(f"{address}\t{name}\n" for name, address in hosts.items())),
        "/etc/resolv.conf": File("# no name server: /etc/hosts has all names\n"),
        "/etc/nsswitch.conf": File("passwd: files\ngroup: files\nhosts: files dns\n"),
        "/etc/supervisor/supervisord.conf": File(_SUPERVISOR),
        "/opt/bin/python3": File(link=python),
        "/opt/bin/as-app": File(_AS_APP, mode=0o755),
        "/opt/bin/on-node": File(_ON_NODE, mode=0o755),
        "/root/.bashrc": File("unset HISTFILE\n"),
    }
    for name in ("supervisord", "supervisorctl"):
        text = _RUN.format(python=python, name=name)
        found[f"/opt/bin/{name}"] = File(text, mode=0o755)
    for program in world.programs:
        found[f"/etc/supervisor/conf.d/{program.name}.conf"] = File(entry(program))
    return found


def entry(program: Program) -> str:
    """The supervisor's entry for a program."""
    words = []
    if program.node:
        words.append(f"/opt/bin/on-node {program.node}")
    if program.user == "app":
        words.append("/opt/bin/as-app")
    if program.limits:
        words.append("prlimit " + " ".join(f"--{k}={v}" for k, v in program.limits.items()))
    command = " ".join([*words, program.command])
    lines = [
        f"[program:{program.name}]",
        f"command={command.replace('%', '%%')}",
        f"directory={program.directory}",
        f"autostart={str(program.autostart).lower()}",
        f"autorestart={str(program.autorestart).lower()}",
        f"startsecs={program.start_seconds}",
        "startretries=3",
        f"stopwaitsecs={program.stop_seconds}",
        "stopasgroup=true",
        "killasgroup=true",
        f"stdout_logfile={LOGS}/{program.name}.log",
        "stdout_logfile_maxbytes=1MB",
        "redirect_stderr=true",
    ]
    if program.environment:
        pairs = ",".join(f'{name}="{value}"' for name, value in program.environment.items())
        lines.append(f"environment={pairs.replace('%', '%%')}")
    return "\n".join(lines) + "\n"


def setup(world: World) -> list[str]:
    """The wires between the box and its nodes."""
    lines = []
    if world.nodes:
        lines += [
            "mkdir -p /run/netns",
            "ip link add br0 type bridge",
            f"ip addr add {BOX_ADDRESS}/24 dev br0",
            "ip link set br0 up",
        ]
    for number, node in enumerate(world.nodes):
        port = f"veth{number}"
        lines += [
            f"ip netns add {node.name}",
            f"ip link add {port} type veth peer name eth0 netns {node.name}",
            f"ip link set {port} master br0 up",
            f"on-node {node.name} ip addr add {node.address}/24 dev eth0",
            f"on-node {node.name} ip link set eth0 up",
            f"on-node {node.name} ip link set lo up",
            f"on-node {node.name} sh -c 'echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start'",
        ]
    return lines
