"""In another house: a renewed certificate that the link does not lead to, and one of PostgreSQL
that ran out."""

from datetime import UTC, datetime, timedelta

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import database, tiers, yard
from hermes_agent.incidents.drills.authority import authority, issued
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.needs import find
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth

DAY = timedelta(days=1)
ROOTS = "/etc/trust/roots.pem"
RENEW = """#!/bin/sh
# A new certificate for a host: new-certificate HOST FOLDER. Writes FOLDER/server.pem and
# FOLDER/server.key. Whoever uses them must read them anew.
set -eu
umask 077
cd "$2"
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout server.key.new \\
    -out /tmp/request.csr -subj "/CN=$1" -addext "subjectAltName=DNS:$1" 2>/dev/null
openssl x509 -req -in /tmp/request.csr -CA ROOTS -CAkey TOOLS/signing.key \\
    -set_serial $(date +%s) -copy_extensions copy -days 90 -out server.pem.new 2>/dev/null
mv server.key.new server.key
mv server.pem.new server.pem
"""


class Acme:
    """Pairs in an archive, and links to the one that is live."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number
        self.live = f"/etc/acme/live/{name}"
        self.archive = f"/etc/acme/archive/{name}"

    def files(self) -> dict[str, File]:
        good, key = issued(self.name, datetime.now(UTC), -60 * DAY, 20 * DAY)
        return {
            f"{self.archive}/fullchain{self.number}.pem": File(good, age=60 * 86400.0),
            f"{self.archive}/privkey{self.number}.pem": File(key, mode=0o600, age=60 * 86400.0),
            f"{self.live}/fullchain.pem": File(link=f"{self.archive}/fullchain{self.number}.pem"),
            f"{self.live}/privkey.pem": File(link=f"{self.archive}/privkey{self.number}.pem"),
            f"{self.live}/README": File("links to the newest pair in the archive\n", age=9e6),
            ROOTS: File(authority()[0], age=tiers.MONTH),
        }

    def run_out(self, box: Box, over: timedelta) -> None:
        """The pair that is live ran out, and its successor is there."""
        now = datetime.now(UTC)
        spans = (-over - 90 * DAY, -over), (-over, 90 * DAY - over)
        for number, span in enumerate(spans, self.number):
            certificate, own = issued(self.name, now, *span)
            box.write(f"{self.archive}/fullchain{number}.pem", certificate)
            box.write(f"{self.archive}/privkey{number}.pem", own, 0o600)
        box.run("nginx -s reload; sleep 0.4")

    def open_keys(self, probe: Probe) -> list[str]:
        paths = [f"{self.archive}/privkey{n}.pem" for n in (self.number, self.number + 1)]
        facts = {path: probe.stat(path) for path in paths}
        return [f"{p} is open to others" for p, stat in facts.items() if stat and stat.mode & 0o077]

    def site(self, port: int, inner: int) -> str:
        return f"""server {{
    listen 127.0.0.1:{port} ssl;
    server_name {self.name};
    ssl_certificate {self.live}/fullchain.pem;
    ssl_certificate_key {self.live}/privkey.pem;

    location / {{
        proxy_pass http://127.0.0.1:{inner};
    }}
}}
"""


def live_link(pick: Pick) -> Scene:
    (main, other), (port, inner, other_port) = pick.services(2), pick.ports(3)
    name = f"{main}.{pick.choice(('svc', 'apps'))}.test"
    acme, over = Acme(name, pick.size(3, 17)), timedelta(hours=pick.size(3, 70))
    kept = yard.notes(main, pick)
    new = acme.number + 1
    own = f"-keyout {acme.live}/own.key -out {acme.live}/own.pem -subj /CN={name}"
    run = f"curl -sS -m 4 --cacert {ROOTS} https://{name}:{port}/status"
    world = tiers.joined(
        [
            yard.depot(main, inner),
            yard.depot(other, other_port),
            tiers.nginx({main: acme.site(port, inner)}, [main], port),
        ],
        files={**kept, **yard.days_ago(other, pick), **acme.files()},
        hostname=pick.host(),
        hosts={name: "127.0.0.1"},
    )
    return Scene(
        world=world,
        check=WatchedCheck(
            f"{main} status", Check(run, Expect(output='"pass"'), timeout=8.0), main, severity="P1"
        ),
        healthy=lambda probe: said(yard.stores(probe, port, ca=authority()[0], name=name)),
        truth=Truth(
            ("nginx", main), ("certificate-expired",), rf"{acme.live}|{acme.archive}|fullchain",
            r"notAfter|expired|Not After|has run out",
        ),
        inject=lambda box: acme.run_out(box, over),
        fix=(
            f"ln -sfn {acme.archive}/fullchain{new}.pem {acme.live}/fullchain.pem",
            f"ln -sfn {acme.archive}/privkey{new}.pem {acme.live}/privkey.pem",
            "nginx -t && nginx -s reload",
        ),
        wrong={
            "restarting": ["supervisorctl restart nginx; sleep 0.4"],
            "signed by itself": [
                f"openssl req -x509 -newkey ec:<(openssl ecparam -name prime256v1) -nodes {own}",
                f"cd {acme.live} && ln -sfn own.pem fullchain.pem && ln -sfn own.key privkey.pem",
                "nginx -s reload; sleep 0.4",
            ],
        },
        stays=(*kept, ROOTS, tiers.site_file(main), yard.settings_of(main)),
        harm=lambda probe: said(yard.stores(probe, other_port), *acme.open_keys(probe)),
    )  # fmt: skip


def _trusted(probe: Probe, port: int, name: str) -> list[str]:
    """What clients of PostgreSQL have against its certificate."""
    openssl = find("openssl") or "openssl"
    address = f"127.0.0.1:{port}"
    shown = probe.run([openssl, "s_client", "-starttls", "postgres", "-connect", address])
    pem = shown.stdout.encode()
    ends = probe.run([openssl, "x509", "-noout", "-checkend", "3600"], pem)
    whose = probe.run([openssl, "x509", "-noout", "-subject", "-issuer"], pem).stdout
    signed = "Internal Authority" in whose.partition("issuer")[2]
    return said(
        "the certificate has run out" if ends.code else "",
        "" if name in whose else "the certificate is not the server's",
        "" if signed else "nobody whom clients trust has signed it",
    )


def of_the_database(pick: Pick) -> Scene:
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    base = yard.Base(pick, main, base_port)
    name, over = f"db.{pick.choice(('svc', 'apps'))}.test", timedelta(hours=pick.size(2, 60))
    tls, tools = "/etc/postgresql/tls", pick.choice(("/opt/ca", "/opt/trust"))
    certificate, key = issued(name, datetime.now(UTC), -60 * DAY, 20 * DAY)
    pair = {"ssl_cert_file": f"'{tls}/server.pem'", "ssl_key_file": f"'{tls}/server.key'"}
    world = tiers.joined(
        [
            base.server(settings={"ssl": "on", **pair}),
            base.service(main, port),
            yard.depot(other, other_port),
        ],
        files={
            **yard.days_ago(other, pick),
            ROOTS: File(authority()[0], age=tiers.MONTH),
            f"{tls}/server.pem": File(certificate, age=tiers.MONTH),
            f"{tls}/server.key": File(key, mode=0o600, age=tiers.MONTH),
            f"{tools}/signing.key": File(authority()[1], mode=0o600, age=tiers.MONTH),
            f"{tools}/new-certificate": File(
                RENEW.replace("ROOTS", ROOTS).replace("TOOLS", tools), mode=0o755, age=tiers.MONTH
            ),
        },
        folders={tls: 0o700},
        hostname=pick.host(),
        hosts={name: "127.0.0.1"},
    )
    anew = f"supervisorctl signal HUP {database.NAME}; sleep 0.4"

    def inject(box: Box) -> None:
        old, own = issued(name, datetime.now(UTC), -over - 90 * DAY, -over)
        box.write(f"{tls}/server.pem", old)
        box.write(f"{tls}/server.key", own, 0o600)
        box.run(anew)

    return Scene(
        world=world,
        check=_connects(base, name),
        healthy=lambda probe: said(probe.keeps(port), *_trusted(probe, base_port, name)),
        truth=Truth(
            (database.NAME,), ("certificate-expired",), rf"{tls}|server\.pem",
            r"expired|notAfter|Not After",
        ),
        inject=inject,
        fix=(f"{tools}/new-certificate {name} {tls}", anew),
        wrong={
            "restarting": [f"supervisorctl restart {database.NAME}; sleep 0.5"],
            "signed by itself": [
                (f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {tls}/server.key -out "
                f"{tls}/server.pem -subj /CN={name}; chmod 600 {tls}/server.key"), anew,
            ],
        },
        stays=(ROOTS, f"{tools}/signing.key", tiers.configured(main), database.SETTINGS),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip


def _connects(base: yard.Base, name: str) -> WatchedCheck:
    link = (
        f"host={name} port={base.port} user=app dbname={base.name} sslmode=verify-full "
        f"sslrootcert={ROOTS} connect_timeout=3"
    )
    run = f"psql -XAt '{link}' -c \"select 'rows: ' || count(*) from {base.table}\""
    check = Check(run, Expect(output="rows: "), timeout=8.0)
    return WatchedCheck("reports connect", check, database.NAME, severity="P1")
