"""A release that moved the path which others still ask for, and one that lacks a file."""

import re

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import tiers, vhosts
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

DEPLOYS = "/var/www/deploys.log"


def _noted(text: str, days: int = 0) -> str:
    return f"echo \"$(date -d '-{days} days' '+%F %T')\" '{text}' >> {DEPLOYS}"


def _moved(path: str) -> str:
    """The program, with another path for its records."""
    text = tiers.program_text("clerk.py")
    worse = text.replace('RECORDS = "/api/records/"', f'RECORDS = "{path}"')
    if worse == text:
        raise ValueError("the program has no such line")
    return worse


def moved_path(pick: Pick) -> Scene:
    """The store's new release answers at another path; whoever asks it was not told."""
    (main, second, store), (port, second_port, inner, gate) = pick.services(3), pick.ports(4)
    old, new = "20260914", f"202611{pick.size(10, 15)}{pick.choice(('a', 'b', '-2'))}"
    asks = {"BACKEND_URL": f"http://127.0.0.1:{gate}"}
    path = pick.choice(("/api/v2/records/", "/v2/records/", "/api/entries/"))
    top, kept = f"{house.TOP}/{store}", house.records(store, pick)
    release = f"{top}/releases/{new}"
    world = tiers.joined(
        [
            house.app(store, inner, release=old),
            house.app(main, port, asks, needs=("nginx", store), release="20261109"),
            house.app(second, second_port, asks, needs=("nginx", store), release="20260901"),
            tiers.nginx({store: house.site(gate, f"http://127.0.0.1:{inner}")}, [store], gate),
        ],
        files={
            **kept, **house.weeks_ago(main, pick), **house.weeks_ago(store, pick),
            f"{release}/clerk.py": File(_moved(path), age=1500.0),
            f"{release}/pgline.py": File(tiers.program_text("pgline.py"), age=1500.0),
        },
        setup=[
            _noted(f"{store} {old} live", 63), _noted(f"{second} 20260901 live", 70),
            _noted(f"{main} 20261109 live", 7),
        ],
        hostname=pick.host(),
    )  # fmt: skip
    (key, file), *_ = kept.items()
    url = f"{house.RECORDS}/{key.rpartition('/')[2]}"

    def healthy(probe: Probe) -> list[str]:
        got = probe.http(port, url).text
        return said(
            house.serves(probe, port, second_port),
            "" if got.strip() == file.text.strip() else f"{url} is not to be had",
        )

    front = f"{house.TOP}/{main}/releases/20261109/clerk.py"
    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=healthy,
        truth=Truth(
            (store,), ("bad-deploy",), rf"{new}|{path.rstrip('/')}|{top}/(current|releases)",
            rf"{new}|{path.rstrip('/')}|/api/records/[\w-]+ HTTP/1\.[01]\" 404",
        ),
        inject=lines(
            f"ln -sfn releases/{new} {top}/current", _noted(f"{store} {new} live"),
            f"supervisorctl restart {store}; sleep 0.5",
        ),
        fix=(f"ln -sfn releases/{old} {top}/current", f"supervisorctl restart {store}; sleep 1"),
        wrong={
            "all are restarted": [f"supervisorctl restart {store} {main} {second} nginx; sleep 1"],
            "whoever asks is changed": [
                f"sed -i 's#^RECORDS = .*#RECORDS = \"{path}\"#' {front}",
                f"supervisorctl restart {main}; sleep 0.5",
            ],
        },
        stays=(*kept, house.env_of(main), house.env_of(store), f"{top}/releases/{old}/clerk.py"),
        runs=(f"{house.TOP}/{second}/",),
    )  # fmt: skip


def _loads(name: str, port: int) -> WatchedCheck:
    """The check of the customer: the page and the script that it asks for."""
    url = f"http://127.0.0.1:{port}"
    run = (
        f'js=$(curl -sS -m 3 {url}/ | sed -n \'s/.*src="\\([^"]*\\)".*/\\1/p\'); '
        f"curl -sS -o /dev/null -m 3 -w 'its script: %{{http_code}}' {url}$js"
    )
    check = Check(run, Expect(output=" 200$"), timeout=8.0)
    return WatchedCheck(f"{name} front page", check, name, severity="P1")


def _build(folder: str, number: int, marks: str, *, whole: bool = True) -> dict[str, File]:
    """A build of the pages; `marks` is in the names of what is not to be cached for ever."""
    script, style = f"static/main.{marks}.js", f"static/main.{marks[::-1]}.css"
    page = (
        f'<!doctype html>\n<html><head><meta name="build" content="{number}">\n'
        f'<link rel="stylesheet" href="/{style}">\n<script defer src="/{script}"></script>\n'
        '</head><body><div id="root"></div></body></html>\n'
    )
    age = tiers.MONTH if whole else 1300.0
    made = {"index.html": page, style: "body{margin:0}\n", "robots.txt": "User-agent: *\n"}
    if whole:
        made[script] = f'const BUILD="{number}";document.title="b"+BUILD;\n'
    return {f"{folder}/{path}": File(text, age=age) for path, text in made.items()}


def _whole(probe: Probe, port: int) -> str:
    """Why the page does not come up with the script of its own build; empty when it does."""
    page = probe.http(port, "/").text
    build = re.search(r'name="build" content="(\d+)"', page)
    parts = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    if not build or len(parts) != 2:
        return "the front page is not what it should be"
    for part in parts:
        got = probe.http(port, part)
        if got.status != 200 or not got.body:
            return f"{part} is not to be had: {got.error or got.status}"
        if part.endswith(".js") and f'BUILD="{build[1]}"' not in got.text:
            return f"{part} is not of build {build[1]}"
    return ""


def lost_script(pick: Pick) -> Scene:
    """The new page asks for a script that did not make it to the server."""
    (main, other), (port, inner, other_port) = pick.services(2), pick.ports(3)
    number, old_marks, marks = pick.size(40, 300), pick.token(8), pick.token(8)
    old, new = f"build-{number}", f"build-{number + 1}"
    home, kept = f"{vhosts.TOP}/{main}", vhosts.pages(main, pick)
    docs, log = f"{home}/httpdocs", f"{home}/logs/publish.log"
    text = f"""server {{
    listen 127.0.0.1:{port};
    root {docs};
    index index.html;
    location /pages/ {{ proxy_pass http://127.0.0.1:{inner}; }}
}}
"""
    world = tiers.joined(
        [vhosts.site(main, inner), vhosts.site(other, other_port),
         tiers.nginx({main: text}, [main], port)],
        files={
            **kept, **vhosts.months_ago(main, pick), **vhosts.months_ago(other, pick),
            **_build(f"{home}/builds/{old}", number, old_marks),
            **_build(f"{home}/builds/{new}", number + 1, marks, whole=False),
            docs: File(link=f"builds/{old}"),
            log: File(f"2026-10-11 17:20:31 {old}: 4 files sent, live\n"),
        },
        hostname=pick.host(),
    )  # fmt: skip
    again = f"cp {home}/builds/{old}/static/main.{old_marks}.js {docs}/static/main.{marks}.js"
    return Scene(
        world=world,
        check=_loads(main, port),
        healthy=lambda probe: said(_whole(probe, port), vhosts.writes(probe, port)),
        truth=Truth(
            (main, "nginx"), ("bad-deploy",), rf"{new}|{marks}|{docs}",
            rf"{new}|/main\.{marks}\.js",
        ),
        inject=lines(
            f"ln -sfn builds/{new} {docs}",
            f"echo \"$(date '+%F %T') {new}: 3 files sent, live\" >> {log}",
            f"curl -s -o /dev/null http://127.0.0.1:{port}/static/main.{marks}.js",
        ),
        fix=(f"ln -sfn builds/{old} {docs}",),
        wrong={
            "nginx is restarted": [f"supervisorctl restart nginx {main}; sleep 0.5"],
            "an empty script": [f"touch {docs}/static/main.{marks}.js"],
            "the script of the build before": [again],
        },
        stays=(*kept, vhosts.conf_of(main), tiers.site_file(main), f"{home}/builds/{old}"),
        harm=lambda probe: said(vhosts.writes(probe, other_port)),
    )  # fmt: skip
