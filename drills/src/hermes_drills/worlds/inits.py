"""What boxes have for an init system: supervisord, a stand-in for systemd, or plain scripts."""

import shlex
from collections.abc import Callable, Mapping

from hermes_drills.services import source
from hermes_drills.types import File, Init, Service, World

SUPERVISOR_SOCKET = "/run/supervisor.sock"
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
import os, signal, sys
sys.path.insert(0, "/opt/lib")
from supervisor.{name} import main

def mask(how):
    signal.pthread_sigmask(how, [signal.SIGTERM])

def child():  # else a stop right after a start is lost: supervisord's own handler eats it
    os.setpgrp()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    mask(signal.SIG_UNBLOCK)

os.register_at_fork(before=lambda: mask(signal.SIG_BLOCK), after_in_child=child,
                    after_in_parent=lambda: mask(signal.SIG_UNBLOCK))
main()
"""
_AS_APP = """\
#!/bin/sh
# Runs a program as the user `app`, who has no privileges.
exec unshare --user --map-user=1000 --map-group=1000 -- "$@"
"""
_SCRIPT = """\
#!/bin/sh
### BEGIN INIT INFO
# Provides: {name}
# Default-Start: 2 3 4 5
### END INIT INFO
NAME={name}
PIDFILE=/run/{name}.pid
LOG={output}
{environment}
alive() {{
    [ -s "$PIDFILE" ] && kill -0 "$(cat "$PIDFILE")" 2>/dev/null &&
        [ "$(cut -d ' ' -f 3 "/proc/$(cat "$PIDFILE")/stat")" != Z ]
}}
start() {{
    alive && {{ echo "$NAME is running"; return 0; }}
    cd {directory} || exit 1
    setsid {command} </dev/null >>"$LOG" 2>&1 &
    echo $! >"$PIDFILE"
    n=0
    while [ $n -lt 10 ]; do n=$((n + 1)); sleep 0.05; alive || break; done
    alive || {{ echo "$NAME did not start; see $LOG"; return 1; }}
}}
stop() {{
    alive || {{ echo "$NAME is not running"; return 0; }}
    pid=$(cat "$PIDFILE")
    kill "$pid"
    n=0
    while alive && [ $n -lt 60 ]; do n=$((n + 1)); sleep 0.05; done
    alive && kill -9 "$pid"
    rm -f "$PIDFILE"
}}
case $1 in
start) start ;;
stop) stop ;;
restart) stop; start ;;
status) if alive; then echo "$NAME is running ($(cat "$PIDFILE"))"; else echo "$NAME is stopped"; exit 3; fi ;;
*) echo "usage: $0 start|stop|restart|status" >&2; exit 2 ;;
esac
"""


def restart(world: World, name: str) -> str:
    """The command that an operator would type."""
    return command(world, name, "restart")


def command(world: World, name: str, action: str) -> str:
    return {
        "supervisord": f"supervisorctl {action} {name}",
        "systemd": f"systemctl {action} {name}",
        "sysv": f"/etc/init.d/{name} {action}",
    }[world.style.init]


def reload(world: World, name: str) -> str:
    """After its entry was changed: read it anew, and start with it."""
    return {
        "supervisord": f"supervisorctl reread; supervisorctl update {name}; "
        f"supervisorctl restart {name}",
        "systemd": f"systemctl daemon-reload; systemctl restart {name}",
        "sysv": f"/etc/init.d/{name} restart",
    }[world.style.init]


def entry_path(init: Init, name: str) -> str:
    return {
        "supervisord": f"/etc/supervisor/conf.d/{name}.conf",
        "systemd": f"/etc/systemd/system/{name}.service",
        "sysv": f"/etc/init.d/{name}",
    }[init]


def output_path(init: Init, name: str) -> str:
    """Where what a service prints is kept."""
    return {
        "supervisord": f"/var/log/supervisor/{name}.log",
        "systemd": f"/var/log/journal/{name}.log",
        "sysv": f"/var/log/{name}.out",
    }[init]


def entry(init: Init, service: Service) -> str:
    writers: Mapping[Init, Callable[[Service], str]] = {
        "supervisord": _supervisor_entry, "systemd": _unit, "sysv": _script,
    }  # fmt: skip
    return writers[init](service)


def _words(service: Service) -> str:
    words = ["/opt/bin/as-app"] if service.user == "app" else []
    if service.limits:
        words.append("prlimit " + " ".join(f"--{k}={v}" for k, v in service.limits.items()))
    return " ".join([*words, service.command])


def _supervisor_entry(service: Service) -> str:
    lines = [
        f"[program:{service.name}]",
        f"command={_words(service).replace('%', '%%')}",
        f"directory={service.directory}",
        f"autorestart={'unexpected' if service.autorestart else 'false'}",
        "startsecs=0",
        "startretries=3",
        "stopwaitsecs=3",
        "stopasgroup=true",
        "killasgroup=true",
        f"stdout_logfile={output_path('supervisord', service.name)}",
        "stdout_logfile_maxbytes=50MB",
        "redirect_stderr=true",
    ]
    if service.environment:
        pairs = ",".join(f'{name}="{value}"' for name, value in service.environment.items())
        lines.append(f"environment={pairs.replace('%', '%%')}")
    return "\n".join([*lines, ""])


def _unit(service: Service) -> str:
    lines = ["[Unit]", f"Description={service.name}", "", "[Service]"]
    lines += [f"Environment={shlex.quote(f'{k}={v}')}" for k, v in service.environment.items()]
    names = {"nofile": "LimitNOFILE", "as": "LimitAS"}
    lines += [f"{names[key]}={value}" for key, value in service.limits.items() if key in names]
    lines += [
        f"WorkingDirectory={service.directory}",
        f"User={service.user}",
        f"ExecStart={service.command}",
        f"Restart={'on-failure' if service.autorestart else 'no'}",
        "", "[Install]", "WantedBy=multi-user.target", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _script(service: Service) -> str:
    pairs = [f"export {k}={shlex.quote(v)}" for k, v in service.environment.items()]
    return _SCRIPT.format(
        name=service.name, output=output_path("sysv", service.name), directory=service.directory,
        command=_words(service), environment="\n".join(pairs),
    )  # fmt: skip


def first(world: World, python: str) -> list[str]:
    """What process 1 becomes."""
    if world.booted:
        return ["/usr/lib/systemd/systemd", "--unit=multi-user.target"]
    if world.style.init == "supervisord":
        return ["/opt/bin/supervisord", "-n", "-c", "/etc/supervisor/supervisord.conf"]
    return [python, "-IS", "/opt/lib/init.py", world.style.init]


def files(world: World, python: str) -> dict[str, File]:
    """By their paths, what every box has; `python` is the interpreter that its programs get."""
    init = world.style.init
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
        "/opt/bin/python3": File(link=python),
        "/opt/bin/as-app": File(_AS_APP, mode=0o755),
        "/opt/bin/fetch": File(f"#!{python} -IS\n{source('fetch.py')}", mode=0o755),
        "/root/.bashrc": File("unset HISTFILE\n"),
    }
    if init == "supervisord":
        found["/etc/supervisor/supervisord.conf"] = File(_SUPERVISOR)
        for name in ("supervisord", "supervisorctl"):
            text = _RUN.format(python=python, name=name)
            found[f"/opt/bin/{name}"] = File(text, mode=0o755)
        found["/var/log/supervisor/supervisord.log"] = File("")
    elif not world.booted:
        found["/opt/lib/init.py"] = File(source("init.py"))
    if init == "systemd" and not world.booted:
        text = f"#!{python} -IS\n{source('systemctl.py')}"
        found["/opt/bin/systemctl"] = found["/opt/bin/journalctl"] = File(text, mode=0o755)
        found["/run/systemd/system/.keep"] = File("")
    for service in world.services:
        mode = 0o755 if init == "sysv" else 0o644
        path = entry_path(init, service.name)
        found[path] = File(entry(init, service), mode=mode)
    return found
