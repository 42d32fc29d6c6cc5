"""Ports that others hold, in other houses: whoever holds it comes back, or is a twin."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import parts
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.stalls import MONTH, alive, stall
from hermes_agent.incidents.drills.world import File, Program, Truth

_SITE = """\
daemon off;
user root;
worker_processes 1;
pid /run/nginx.pid;
error_log {log};
events {{}}
http {{
  access_log off;
  server {{
    listen 127.0.0.1:{front};
    location / {{ proxy_pass http://127.0.0.1:{port}; }}
  }}
}}
"""


def comes_back(pick: Pick) -> Scene:
    """Somebody's preview server has the port of nginx, and a loop that starts it again."""
    name, front_name = pick.services(2)
    port, front = pick.ports(2)
    service = stall(pick, name, port)
    folder = f"/home/{pick.word()}/preview-{pick.token()}"
    loop = f"{folder}/serve.sh"
    text = f"while :; do python3 -m http.server {front} --bind 127.0.0.1; sleep 0.3; done\n"
    config = pick.choice(("/etc/nginx/nginx.conf", f"/opt/{front_name}/conf/nginx.conf"))
    log = pick.choice(("stderr", "/var/log/nginx/error.log"))
    proxy = Program(
        name=front_name, command=f"nginx -c {config}", user="root", ready=f"tcp:{front}",
        start_seconds=1, needs=(name,), about="the way in",
    )  # fmt: skip
    files = {
        config: File(text=_SITE.format(log=log, front=front, port=port), age=MONTH),
        loop: File(text=text, age=MONTH / 10),
    }
    folders = {"/var/log/nginx": 0o755, "/var/lib/nginx": 0o755}

    def inject(box: Box) -> None:
        box.run(f"supervisorctl stop {front_name}")
        box.wait(f"down:{front}")
        box.spawn(f"cd {folder} && exec bash {loop}")
        box.wait(f"tcp:{front}")
        box.run(f"supervisorctl start {front_name}", check=False)

    def healthy(probe: Probe) -> list[str]:
        loops = any(loop in process.command for process in probe.processes())
        return said(probe.keeps(front), "the loop goes on" if loops else "")

    holder = f"ss -Hltnp sport = :{front} | grep -o 'pid=[0-9]*' | cut -d= -f2"
    run = f"curl -fsS -m 3 http://127.0.0.1:{front}/healthz"
    return Scene(
        world=parts.joined(parts.Part((proxy,), files, folders), service.part),
        check=WatchedCheck(
            name=f"{front_name}-answers", service=front_name, severity="P1",
            check=Check(run=run, expect=Expect(output=f"ok {name}"), timeout=5.0),
        ),
        healthy=healthy,
        truth=Truth(
            component=(front_name,), category=("port-conflict",), locus=folder,
            evidence=rf"Address already in use|LISTEN.*:{front}\b",
        ),
        inject=inject,
        fix=(f"kill $(pgrep -f '^bash {loop}')", f"kill $({holder})",
             f"sleep 0.5; supervisorctl restart {front_name}"),
        wrong={
            "only the child is killed": [f"kill $({holder})"],
            "it is moved": [f"sed -i s/{front}/{front + 1}/ {config}",
                            f"supervisorctl restart {front_name}"],
        },
        stays=(config, loop),
        runs=(service.code,),
    )  # fmt: skip


def twins(pick: Pick) -> Scene:
    """Two instances of a program, told by their entries or files; the second was given the port of
    the first, and the proxy still looks for it at its own."""
    front_name, base = pick.services(2)
    front, port, second_port = pick.ports(3)
    first, second = (
        stall(
            pick, f"{base}-{which}", where, form=pick.choice(("flags", "variables", "env", "yaml"))
        )
        for which, where in (("a", port), ("b", second_port))
    )
    site = _SITE.format(log="stderr", front=front, port=port).replace(
        "location / {",
        f"location /b/ {{ proxy_pass http://127.0.0.1:{second_port}/; }}\n    location / {{",
    )
    proxy = Program(
        name=front_name, command="nginx -c /etc/nginx/nginx.conf", user="root",
        ready=f"tcp:{front}", needs=(first.name, second.name), about="the way in",
    )  # fmt: skip
    files = {"/etc/nginx/nginx.conf": File(text=site, age=MONTH)}
    folders = {"/var/log/nginx": 0o755, "/var/lib/nginx": 0o755}

    def healthy(probe: Probe) -> list[str]:
        said_so = [probe.keeps(front), probe.keeps(front, "/b/items")]
        names = [probe.http(one.port, "/healthz").text.strip() for one in (first, second)]
        right = names == [f"ok {first.name}", f"ok {second.name}"]
        return said(*said_so, "" if right else "one answers for the other")

    return Scene(
        world=parts.joined(parts.Part((proxy,), files, folders), first.part, second.part),
        check=alive(first),
        healthy=healthy,
        truth=Truth(
            component=(first.name, second.name), category=("port-conflict", "bad-config"),
            locus=second.config, evidence=rf"in use|LISTEN.*:{port}\b",
        ),
        inject=lines(
            f"supervisorctl stop {first.name} {second.name}",
            f"sed -i 's/{second_port}/{port}/g' {second.config}",
            "supervisorctl reread; supervisorctl update", f"supervisorctl start {second.name}",
            f"sleep 1; supervisorctl start {first.name}",
        ),
        fix=(
            f"sed -i 's/{port}/{second_port}/g' {second.config}",
            "supervisorctl reread; supervisorctl update", f"supervisorctl restart {second.name}",
            f"sleep 1; supervisorctl start {first.name}",
        ),
        wrong={"it is only started again": [f"supervisorctl start {first.name}"]},
        stays=("/etc/nginx/nginx.conf", first.config),
    )  # fmt: skip
