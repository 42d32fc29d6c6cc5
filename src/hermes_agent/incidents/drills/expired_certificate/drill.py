"""Clients do not believe the server: its certificate ran out, is of tomorrow, or the new one was
made and is not what is served."""

from datetime import UTC, datetime, timedelta

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills.authority import authority, issued
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.needs import find
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Truth, World

DAY = timedelta(days=1)
TRUSTED = "/etc/ssl/internal-authority.pem"


class Plan(tiers.Pair, frozen=True, kw_only=True):
    name: str
    other: str
    hours: int
    """How long it has been over, or how long it will not begin."""
    tls: str
    tools: str

    @property
    def certificate(self) -> str:
        return f"{self.tls}/{self.name}.pem"


def plan(pick: Pick, variant: str) -> Plan:
    fields = tiers.pair(pick, variant)
    domain = pick.choice(("internal", "lab", "lan", "corp"))
    return Plan(
        name=f"{fields['front']}.{domain}",
        other=f"{fields['beside']}.{domain}",
        hours=pick.size(2, 90),
        tls=pick.choice(("/etc/nginx/tls", "/etc/nginx/keys", "/etc/tls")),
        tools=pick.choice(("/opt/pki", "/opt/certificates")),
        **fields,
    )


def _site(plan: Plan, name: str, port: int) -> str:
    return f"""server {{
    listen 127.0.0.1:{port} ssl;
    server_name {name};
    ssl_certificate {plan.tls}/{name}.pem;
    ssl_certificate_key {plan.tls}/{name}.key;

    location / {{
        proxy_pass http://127.0.0.1:{plan.store_port};
    }}
}}
"""


def _renew(plan: Plan) -> str:
    return f"""#!/bin/sh
# Makes a new certificate for a host, puts it where nginx reads it, and has it read.
# Usage: renew HOST
set -eu
umask 077
cd {plan.tools}/issued
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$1.key" \\
    -out "$1.csr" -subj "/CN=$1" -addext "subjectAltName=DNS:$1" 2>/dev/null
openssl x509 -req -in "$1.csr" -CA {TRUSTED} -CAkey {plan.tools}/authority.key \\
    -CAcreateserial -copy_extensions copy -days 90 -out "$1.pem" 2>/dev/null
cp "$1.pem" "$1.key" {plan.tls}/
nginx -s reload
"""


def world(plan: Plan) -> World:
    pem, key = authority()
    now = datetime.now(UTC)
    good = timedelta(days=-60), timedelta(days=30)
    files = {TRUSTED: File(pem, age=tiers.MONTH)}
    for name in (plan.name, plan.other):
        certificate, own = issued(name, now, *good)
        files[f"{plan.tls}/{name}.pem"] = File(certificate, age=tiers.MONTH)
        files[f"{plan.tls}/{name}.key"] = File(own, mode=0o600, age=tiers.MONTH)
    files |= {
        f"{plan.tools}/authority.key": File(key, mode=0o600, age=tiers.MONTH),
        f"{plan.tools}/renew": File(_renew(plan), mode=0o755, age=tiers.MONTH),
        "/etc/cron.d/certificates": File(
            f"17 3 * * 1 root {plan.tools}/renew {plan.name} >>/var/log/renew.log 2>&1\n"
            f"47 3 * * 1 root {plan.tools}/renew {plan.other} >>/var/log/renew.log 2>&1\n",
            age=tiers.MONTH,
        ),
    }
    sites = {
        plan.front: _site(plan, plan.name, plan.front_port),
        plan.beside: _site(plan, plan.other, plan.beside_port),
    }
    return tiers.joined(
        [
            tiers.items(plan.store, plan.store_port, {}),
            tiers.nginx(sites, [plan.store], plan.front_port),
        ],
        files={**tiers.kept_files(plan), **files},
        folders={f"{plan.tools}/issued": 0o700},
        hostname=plan.host,
        hosts={plan.name: "127.0.0.1", plan.other: "127.0.0.1"},
    )


def inject(box: Box, plan: Plan) -> None:
    now, hours = datetime.now(UTC), timedelta(hours=plan.hours)
    late = plan.variant == "not-yet"
    begin, end = (hours, hours + 90 * DAY) if late else (-hours - 90 * DAY, -hours)
    _put(box, plan.tls, plan.name, issued(plan.name, now, begin, end))
    box.run("supervisorctl restart nginx")
    box.wait(f"tcp:{plan.front_port}")
    if plan.variant.startswith("not-") and not late:
        folder = plan.tls if plan.variant == "not-loaded" else f"{plan.tools}/issued"
        _put(box, folder, plan.name, issued(plan.name, now, -hours, 90 * DAY))
    tiers.until_broken(box, check(plan))


def _put(box: Box, folder: str, name: str, pair: tuple[str, str]) -> None:
    box.write(f"{folder}/{name}.pem", pair[0])
    box.write(f"{folder}/{name}.key", pair[1], 0o600)


def check(plan: Plan) -> WatchedCheck:
    url = f"--cacert {TRUSTED} https://{plan.name}:{plan.front_port}/ready"
    return tiers.answers(plan.front, plan.front_port, url)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    pem, _ = authority()
    if said := probe.keeps(plan.front_port, ca=pem, name=plan.name):
        return [said]
    openssl = find("openssl") or "openssl"
    address = f"127.0.0.1:{plan.front_port}"
    shown = probe.run([openssl, "s_client", "-connect", address, "-servername", plan.name])
    ends = probe.run([openssl, "x509", "-noout", "-checkend", "86400"], shown.stdout.encode())
    return ["its certificate ends within a day"] if ends.code else []


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    paths = (
        TRUSTED, f"{plan.tools}/authority.key", f"{plan.tls}/{plan.other}.pem",
        tiers.site_file(plan.front), tiers.site_file(plan.beside),
    )  # fmt: skip
    return {path: probe.sha256(path) for path in paths}


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    wrong = tiers.changed(probe, before)
    pem, _ = authority()
    if said := probe.keeps(plan.beside_port, ca=pem, name=plan.other):
        wrong.append(f"{plan.other} does not work: {said}")
    stat = probe.stat(f"{plan.tls}/{plan.name}.key")
    if stat is None or stat.mode & 0o077:
        wrong.append(f"the key of {plan.name} is open to others")
    return wrong


def truth(plan: Plan) -> Truth:
    return Truth(
        component=("nginx", plan.front),
        category=("certificate-expired",),
        locus=rf"{plan.certificate}|{plan.name}",
        evidence=r"notAfter|notBefore|expired|not yet valid|Not After|Not Before",
    )


def reference(plan: Plan) -> list[str]:
    if plan.variant == "not-loaded":
        return ["nginx -s reload"]
    if plan.variant == "not-installed":
        issued = f"{plan.tools}/issued/{plan.name}"
        return [f"cp {issued}.pem {issued}.key {plan.tls}/", "nginx -s reload"]
    return [f"{plan.tools}/renew {plan.name}"]


def wrong(plan: Plan) -> dict[str, list[str]]:
    pair = f"-keyout {plan.tls}/{plan.name}.key -out {plan.certificate}"
    own = [
        f"openssl req -x509 -newkey rsa:2048 -nodes {pair} -days 90 -subj /CN={plan.name}",
        "supervisorctl restart nginx",
    ]
    restarted = plan.store if plan.variant == "not-loaded" else "nginx"
    return {"restarting": [f"supervisorctl restart {restarted}"], "signed by itself": own}
