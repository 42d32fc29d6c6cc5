"""A release that lacks a file."""

import re

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import tiers, vhosts
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth


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
