"""In another house: uploads that a new limit of nginx refuses, and a PostgreSQL that cannot read
its settings."""

import secrets

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import database, tiers, yard
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

BIG = 60_000
"""Bytes of a note that people do store."""


def body_limit(pick: Pick) -> Scene:
    (main, other), (port, inner, other_port) = pick.services(2), pick.ports(3)
    limits = f"/etc/nginx/sites-enabled/00-{pick.choice(('limits', 'hardening', 'tuning'))}.conf"
    good = "client_max_body_size 8m;\nclient_body_timeout 20s;\nkeepalive_timeout 30s;\n"
    bad = good.replace("8m", f"{pick.size(1, 4)}k")
    kept = yard.notes(main, pick)
    world = tiers.joined(
        [
            yard.depot(main, inner),
            yard.depot(other, other_port),
            tiers.nginx({main: yard.proxy(port, f"http://127.0.0.1:{inner}")}, [main], port),
        ],
        files={
            **kept,
            **yard.days_ago(other, pick),
            limits: File(good, age=tiers.MONTH),
            "/var/log/config-runs.log": File(f"2026-09-30 02:10 {limits}: no change\n"),
        },
        hostname=pick.host(),
    )

    def healthy(probe: Probe) -> list[str]:
        body = secrets.token_hex(BIG // 2).encode()
        sent = probe.http(port, f"{yard.NOTES}/large", "PUT", body)
        got = probe.http(port, f"{yard.NOTES}/large")
        large = "" if got.body == body else f"a large note is refused: {sent.status}"
        return said(yard.stores(probe, port, other_port), large)

    run = (
        f"head -c {BIG} /dev/zero | tr '\\0' n | curl -sS -m 4 -X PUT --data-binary @- "
        f"-w ' %{{http_code}}' http://127.0.0.1:{port}{yard.NOTES}/upload-probe"
    )
    return Scene(
        world=world,
        check=WatchedCheck(
            f"{main} uploads", Check(run, Expect(output="stored"), timeout=8.0), main, severity="P1"
        ),
        healthy=healthy,
        truth=Truth(
            ("nginx", main), ("bad-config",), f"{limits}|client_max_body_size",
            r"client_max_body_size \d+k|intended to send too large body",
        ),
        inject=lines(
            f"mkdir -p /var/backups && cp -p {limits} /var/backups/$(basename {limits}).1",
            f"printf %s '{bad}' > {limits}",
            f"echo \"$(date '+%F %H:%M') {limits}: changed\" >> /var/log/config-runs.log",
            "nginx -s reload; sleep 0.3",
        ),
        fix=(f"sed -i 's/^client_max_body_size .*/client_max_body_size 8m;/' {limits}",
             "nginx -t && nginx -s reload"),
        wrong={
            "restarting": [f"supervisorctl restart nginx {main}; sleep 0.3"],
            "around nginx": [
                f"sed -i 's/:{inner}\"/:{port}\"/' {yard.settings_of(main)}",
                "supervisorctl stop nginx",
                f"supervisorctl restart {main}",
            ],
        },
        stays=(*kept, yard.settings_of(main), yard.settings_of(other), "/etc/nginx/nginx.conf"),
    )  # fmt: skip


def bad_value(pick: Pick) -> Scene:
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    base = yard.Base(pick, main, base_port)
    setting, good, bad = pick.choice((
        ("work_mem", "8MB", "8Mb"),
        ("wal_buffers", "256kB", "256 k"),
        ("statement_timeout", "30s", "30secs"),
    ))  # fmt: skip
    world = tiers.joined(
        [
            base.server(settings={setting: f"'{good}'"}),
            base.service(main, port),
            yard.depot(other, other_port),
        ],
        files=yard.days_ago(other, pick),
        hostname=pick.host(),
    )
    return Scene(
        world=world,
        check=tiers.answers(main, port),
        healthy=lambda probe: said(probe.keeps(port), base.lost(probe)),
        truth=Truth(
            (database.NAME,), ("bad-config",), f"{database.SETTINGS}|{setting}",
            rf"invalid value for parameter|file .* contains errors|{setting} = '{bad}",
        ),
        inject=lines(
            f"cp -p {database.SETTINGS} {database.SETTINGS}.orig",
            f"sed -i \"s/^{setting} = .*/{setting} = '{bad}'/\" {database.SETTINGS}",
            f"supervisorctl restart {database.NAME}",
        ),
        fix=(f"cp -p {database.SETTINGS}.orig {database.SETTINGS}",
             f"supervisorctl restart {database.NAME}"),
        wrong={
            "restarting": [f"supervisorctl restart {database.NAME} {main}"],
            "without the database": [
                f"mkdir -p /var/lib/{main}",
                f"sed -i 's#^database = .*#data = /var/lib/{main}#' {tiers.configured(main)}",
                f"supervisorctl restart {main}",
            ],
        },
        stays=(tiers.configured(main), yard.settings_of(other)),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip
