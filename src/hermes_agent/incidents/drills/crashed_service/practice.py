"""Services that ended in other houses: a child whose parent lives on, one of several behind a
proxy, and one that others wait for without knowing it."""

import secrets
import time

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import parts
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.stalls import MONTH, alive, stall
from hermes_agent.incidents.drills.world import File, Program, Truth

_KEEPER = """\
#!/bin/bash
# starts the service and reports for it
"$@" &
echo "started $!"
while :; do
  date +%s > {beat}
  sleep 1
done
"""

_SITE = """\
daemon off;
user root;
worker_processes 1;
pid /run/nginx.pid;
error_log /var/log/nginx/error.log;
events {{}}
http {{
  access_log off;
  upstream {pool} {{ server 127.0.0.1:{port}; }}
  server {{
    listen 127.0.0.1:{front};
    location / {{ proxy_pass http://{pool}; }}
  }}
}}
"""


def lost_child(pick: Pick) -> Scene:
    """What the supervisor sees lives; what does the work is gone."""
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    service = stall(pick, name, port, form=pick.choice(("json", "toml", "yaml", "properties")))
    beside = stall(pick, other, other_port)
    script = f"{service.root}/launch.sh"
    program = Program(
        name=name, command=f"{script} {service.program.command}", directory=service.root,
        ready=f"tcp:{port}", about="keeps items", start_seconds=1,
    )  # fmt: skip
    text = _KEEPER.format(beat=f"/run/{name}.beat")
    own = parts.Part(
        (program,),
        {**service.part.files, script: File(text=text, mode=0o755, age=MONTH)},
        service.part.folders,
    )

    def healthy(probe: Probe) -> list[str]:
        up = parts.supervised(probe, name, service.root.rpartition("/")[0])
        return said(probe.keeps(port), "" if up else f"{name} is not under supervision")

    return Scene(
        world=parts.joined(own, beside.part),
        check=alive(service),
        healthy=healthy,
        truth=Truth(
            component=(name,), category=("service-crash",),
            evidence=rf"launch\.sh|started \d+|{name} +RUNNING",
        ),
        inject=lines(f"kill -9 $(pgrep -f '^python3 {service.code}')"),
        fix=(f"supervisorctl restart {name}",),
        wrong={"another one is restarted": [f"supervisorctl restart {other}"]},
        stays=(service.config, beside.config),
        runs=(beside.code,),
    )  # fmt: skip


def pool_member(pick: Pick) -> Scene:
    """The proxy raises the alarm; whom it asks has ended, in a group of the supervisor's."""
    name, other, front_name = pick.services(3)
    port, other_port, front = pick.ports(3)
    service = stall(pick, name, port, autorestart=False, about="")
    beside = stall(pick, other, other_port, about="")
    group = pick.choice(("workers", "backend", "apps"))
    proxy = Program(
        name=front_name, command="nginx -c /etc/nginx/nginx.conf", user="root",
        ready=f"tcp:{front}", about="the proxy",
    )  # fmt: skip
    site = _SITE.format(pool=f"{group}_{name}", port=port, front=front)
    files = {
        "/etc/nginx/nginx.conf": File(text=site, age=MONTH),
        f"/etc/supervisor/conf.d/{group}.conf": File(
            text=f"[group:{group}]\nprograms={name},{other}\n"
        ),
    }

    def healthy(probe: Probe) -> list[str]:
        up = parts.supervised(probe, name, service.root.rpartition("/")[0])
        return said(probe.keeps(front), "" if up else f"{name} is not under supervision")

    run = f"curl -fsS -m 3 http://127.0.0.1:{front}/healthz"
    signal = pick.choice(("KILL", "SEGV"))
    return Scene(
        world=parts.joined(
            parts.Part((proxy,), files, {"/var/log/nginx": 0o755, "/var/lib/nginx": 0o755}),
            service.part, beside.part,
        ),
        check=WatchedCheck(
            name=f"{front_name}-answers", service=front_name, severity="P1",
            check=Check(run=run, expect=Expect(output=f"ok {name}"), timeout=5.0),
        ),
        healthy=healthy,
        truth=Truth(
            component=(name, f"{group}:{name}"), category=("service-crash",),
            evidence=rf"{name} +EXITED|terminated by SIG|111: Connection refused",
        ),
        inject=lines(f"kill -{signal} $(supervisorctl pid {group}:{name})"),
        fix=(f"supervisorctl start {group}:{name}",),
        wrong={"the proxy is restarted": [f"supervisorctl restart {front_name}"]},
        stays=("/etc/nginx/nginx.conf", service.config),
        runs=("nginx: master", beside.code),
    )  # fmt: skip


_COPIES = """\
import os, sys, time
inbox, outbox = sys.argv[1:]
while True:
    for name in sorted(os.listdir(inbox)):
        if not name.startswith("."):
            os.replace(f"{inbox}/{name}", f"{outbox}/{name}")
    time.sleep(0.1)
"""


def quiet_worker(pick: Pick) -> Scene:
    """What carries items on ended in good order, and nobody wrote down that it is needed."""
    name, worker, other = pick.services(3)
    port, other_port = pick.ports(2)
    inbox, outbox = f"/var/spool/{name}/in", f"/var/spool/{name}/out"
    service = stall(pick, name, port, data=inbox, about="takes orders")
    beside = stall(pick, other, other_port, about="")
    code = f"/opt/{worker}/{worker}.py"
    program = Program(
        name=worker, command=f"python3 {code} {inbox} {outbox}", autorestart=False, about="",
    )  # fmt: skip
    files = {code: File(text=_COPIES, mode=0o755, age=MONTH)}
    run = (
        f"key=check-$(date +%s%N); curl -fsS -m 2 -X PUT --data x "
        f"http://127.0.0.1:{port}/items/$key && for i in 1 2 3 4; do sleep 0.5; "
        f"[ -e {outbox}/$key ] && echo carried on && exit 0; done; echo it stays; exit 1"
    )

    def healthy(probe: Probe) -> list[str]:
        key = secrets.token_hex(6)
        probe.http(port, f"/items/{key}", method="PUT", body=b"x")
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            if probe.stat(f"{outbox}/{key}"):
                return []
            time.sleep(0.05)
        return ["what is given is not carried on"]

    return Scene(
        world=parts.joined(
            service.part, parts.Part((program,), files, {inbox: 0o755, outbox: 0o755}), beside.part
        ),
        check=WatchedCheck(
            name=f"{name}-carries", service=name, severity="P1",
            check=Check(run=run, expect=Expect(output="carried on"), timeout=8.0),
        ),
        healthy=healthy,
        truth=Truth(
            component=(worker,), category=("service-crash",), locus=worker,
            evidence=rf"{worker} +(EXITED|STOPPED)|exited: {worker}|stopped: {worker}",
        ),
        inject=lines(f"kill -TERM $(supervisorctl pid {worker})"),
        fix=(f"supervisorctl start {worker}",),
        wrong={"the other one is restarted": [f"supervisorctl restart {name}"]},
        stays=(service.config, code),
        runs=(service.code, beside.code),
    )  # fmt: skip
