"""A limit behind nginx that refuses what people send, and settings of PostgreSQL that name a file
which is not there."""

import secrets

from msgspec.structs import replace

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import database, parish, parts, tiers, vhosts, webshop
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

SCAN = 45_000
"""Bytes of a scanned letter."""

LIMITED = '''

class Limited(Binder):
    """Takes papers up to LimitRequestBody bytes."""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        most = int(self.own.get("LimitRequestBody", "0"))
        if most and len(body) > most:
            self.log("error", f"{method} {path}: Requested content-length of {len(body)} is larger "
                     f"than the configured limit of {most}")
            raise Trouble("Request Entity Too Large", 413)
        return super().answer(method, path, body)


if __name__ == "__main__":
    run(Limited)
'''


def scans_refused(pick: Pick) -> Scene:
    """As `body-limit`: what is sent is larger than a limit that somebody set anew; here a directive
    of the service behind nginx, whose own limit is as it should be."""
    (main, other), (port, inner, other_port) = pick.services(2), pick.ports(3)
    kept, code, small = parish.papers(main, pick), parish.program(LIMITED), pick.size(9, 40) * 100
    limit = {"LimitRequestBody": 10_485_760}
    site = (
        f"server {{\n    listen 127.0.0.1:{port};\n    client_max_body_size 20m;\n"
        f"    location / {{\n        proxy_pass http://127.0.0.1:{inner};\n    }}\n}}\n"
    )
    conf, news = parish.settings_of(main), "/etc/parish/CHANGES"
    world = tiers.joined(
        [
            parish.binder(main, inner, limit, code=code),
            parish.binder(other, other_port, limit, code=code),
            tiers.nginx({main: site}, [main], port),
        ],
        files={
            **kept, **parish.former(main, pick),
            news: File(f"2026-09-02 {other}: moved to another port\n"),
        },
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        body = secrets.token_hex(SCAN // 2).encode()
        sent = probe.http(port, f"{parish.PAPERS}/scan", "PUT", body)
        got = probe.http(port, f"{parish.PAPERS}/scan")
        refused = "" if got.body == body else f"a scan is refused: {sent.status}"
        return said(parish.files(probe, port, other_port), refused)

    again = f"supervisorctl restart {main}; sleep 0.5"
    run = (
        f"head -c {SCAN} /dev/zero | tr '\\0' s | curl -sS -m 4 -T - -H 'Expect:' "
        f"http://127.0.0.1:{port}{parish.PAPERS}/scan-check"
    )
    return Scene(
        world=world,
        check=WatchedCheck(
            f"{main} scans", Check(run, Expect(output="^filed"), timeout=8.0), main, severity="P1"
        ),
        healthy=healthy,
        truth=Truth(
            (main,), ("bad-config",), rf"{conf}|LimitRequestBody",
            r"LimitRequestBody \d{3,4}\b|larger than the configured limit",
        ),
        inject=lines(
            f"sed -i 's/^LimitRequestBody .*/LimitRequestBody {small}/' {conf}",
            f"echo \"$(date +%F) {main}: limits as the agency recommends\" >> {news}",
            again,
        ),
        fix=(f"sed -i 's/^LimitRequestBody .*/LimitRequestBody 10485760/' {conf}", again),
        wrong={
            "restarting": [f"supervisorctl restart nginx {main}; sleep 0.5"],
            "more is let in by nginx": [
                f"sed -i 's/20m/200m/' {tiers.site_file(main)}", "nginx -s reload; sleep 0.5",
            ],
        },
        stays=(*kept, tiers.site_file(main), parish.settings_of(other), "/etc/nginx/nginx.conf"),
    )  # fmt: skip


def _minded(probe: Probe) -> str:
    up = parts.supervised(probe, "postgresql", "/etc")
    return "" if up else f"{database.NAME} is not kept by the supervisor"


def split_settings(pick: Pick) -> Scene:
    """As `lost-include`: its settings were written anew and include a file that is not there; here
    those of PostgreSQL, by a run of Ansible that left a copy of before in the same folder."""
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    store, kept = webshop.Store(pick, main, base_port), vhosts.pages(other, pick)
    part = pick.choice(("memory.conf", "conf.d/tuning.conf", "local.conf"))
    stamp = f"{pick.size(2000, 60000)}.2026-11-1{pick.size(0, 6)}@0{pick.size(2, 6)}:14:09~"
    settings, former = database.SETTINGS, f"{database.SETTINGS}.{stamp}"
    made = store.server(
        "create table pages (key text primary key, body text)",
        "create table sessions (token text, begins timestamp default (now() at time zone 'utc'), "
        "ends timestamp default (now() at time zone 'utc') + interval '1 hour')",
    )
    server = replace(made, program=replace(made.program, start_seconds=3))
    runs = "/var/log/ansible.log"
    world = tiers.joined(
        [
            server,
            vhosts.site(main, port, {"kind": "database", "url": store.url},
                        needs=(database.NAME,)),
            vhosts.site(other, other_port),
        ],
        files={
            **kept, **vhosts.months_ago(main, pick), **vhosts.months_ago(other, pick),
            runs: File(f"2026-10-20 05:12:31 {other} : ok=14 changed=0 failed=0\n"),
        },
        hostname=pick.host(),
    )  # fmt: skip

    again = f"supervisorctl restart {database.NAME}; sleep 1"
    return Scene(
        world=world,
        check=vhosts.sound(main, port),
        healthy=lambda probe: said(vhosts.writes(probe, port), store.lost(probe), _minded(probe)),
        truth=Truth(
            (database.NAME,), ("bad-config",), rf"{settings}|{part}|include",
            rf"{part}|could not open configuration file|contains errors",
        ),
        inject=lines(
            f"cp -p {settings} {former}",
            f"printf \"\\ninclude '{part}'\\n\" >> {settings}",
            f"echo \"$(date '+%F %T') {database.NAME} : ok=9 changed=1 skipped=1\" >> {runs}",
            f"supervisorctl stop {main}; supervisorctl restart {database.NAME}",
            f"supervisorctl start {main}",
            f"until supervisorctl status {database.NAME} | grep -q FATAL || ((SECONDS > 25)); "
            "do sleep 0.2; done",
        ),
        fix=(f"sed -i '/^include /d' {settings}", again),
        wrong={
            "restarting": [f"supervisorctl restart {database.NAME} {main}; sleep 1"],
            "the site goes without it": [
                (f"sed -i 's/^kind = .*/kind = files/; s#^url = .*#dir = {vhosts.var_of(main)}"
                f"/pages#' {vhosts.conf_of(main)}"),
                f"supervisorctl restart {main}; sleep 0.5",
            ],
        },
        stays=(*kept, vhosts.conf_of(main), vhosts.conf_of(other)),
        harm=lambda probe: said(vhosts.writes(probe, other_port)),
    )  # fmt: skip
