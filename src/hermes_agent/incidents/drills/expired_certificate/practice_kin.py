"""A certificate that begins later than it was put to use, and a new one that a database was not
told of."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import database, harbour, kiosk, tiers
from hermes_agent.incidents.drills.authority import authority, issued
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.expired_certificate.practice_quarter import _ends, _open
from hermes_agent.incidents.drills.expired_certificate.practice_yard import _trusted
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.webshop import Store
from hermes_agent.incidents.drills.world import File, Truth

DAY = timedelta(days=1)
ISSUE = """#!/bin/bash
# issue.sh HOST [BEGIN]: a key and a certificate for a year, in out/. BEGIN is YYYYMMDDHHMMSSZ, now
# where it is left out. What is in out/ is installed by hand.
set -euo pipefail
umask 077
cd "$(dirname "$0")"
mkdir -p out
begin=${2:-$(date -u -d '-1 hour' +%Y%m%d%H%M%SZ)}
end=$(date -u -d "$(sed -E 's/(....)(..)(..).*/\\1-\\2-\\3/' <<<"$begin") +365 days" +%Y%m%d000000Z)
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "out/$1-key.pem" \\
    -out "out/$1.csr" -subj "/CN=$1" -addext "subjectAltName=DNS:$1" 2>/dev/null
openssl ca -batch -notext -config openssl.cnf -in "out/$1.csr" \\
    -out "out/$1-cert.pem" -startdate "$begin" -enddate "$end" 2>/dev/null
rm "out/$1.csr"
echo "$(date -u '+%F %T') $1 from $begin until $end" >> issued.txt
"""
SETTINGS = """[ca]
default_ca = office
[office]
certificate = root.pem
private_key = root-key.pem
new_certs_dir = out
database = index.txt
unique_subject = no
rand_serial = yes
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
"""


def _office(top: str) -> dict[str, File]:
    """Where certificates are made."""
    pem, key = authority()
    files = {
        "root.pem": (pem, 0o644), "root-key.pem": (key, 0o600), "issue.sh": (ISSUE, 0o755),
        "openssl.cnf": (SETTINGS, 0o644), "index.txt": ("", 0o644),
    }  # fmt: skip
    return {f"{top}/{n}": File(text, mode=mode, age=9e6) for n, (text, mode) in files.items()}


def _pair(stem: str, pair: tuple[str, str]) -> dict[str, File]:
    return {f"{stem}-cert.pem": File(pair[0], age=5e6),
            f"{stem}-key.pem": File(pair[1], mode=0o600, age=5e6)}  # fmt: skip


def begins_later(pick: Pick) -> Scene:
    """As `not-yet`: Node.js serves by itself, and who made the certificate had it begin with the
    new quarter and installed it at once; a script of the office makes others."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    zone, top = pick.choice(("shops.example", "branch.example")), "/app/office-ca"
    host, other_host, now = f"{main}.{zone}", f"{other}.{zone}", datetime.now(UTC)
    keys, trusted = "/etc/kiosk.d/pki", "/etc/ssl/certs/office.crt"
    stem, wait, pem = f"{keys}/{host}", timedelta(hours=pick.size(9, 400)), authority()[0]
    tls = {one: (f"{keys}/{one}-cert.pem", f"{keys}/{one}-key.pem") for one in (host, other_host)}
    kept = kiosk.vouchers(main, pick)
    world = tiers.joined(
        [kiosk.kiosk(main, port, tls=tls[host]),
         kiosk.kiosk(other, other_port, tls=tls[other_host])],
        files={
            **kept, **kiosk.once(main, pick), **kiosk.once(other, pick), **_office(top),
            **_pair(stem, issued(host, now, -360 * DAY, 5 * DAY)),
            **_pair(f"{keys}/{other_host}", issued(other_host, now, -200 * DAY, 165 * DAY)),
            **_pair(f"{keys}/pos.{zone}", issued(f"pos.{zone}", now, -700 * DAY, -335 * DAY)),
            trusted: File(pem, age=9e6),
        },
        hostname=pick.host(),
        hosts={host: "127.0.0.1", other_host: "127.0.0.1"},
    )  # fmt: skip

    def inject(box: Box) -> None:
        begin = datetime.now(UTC) + wait
        box.run(f"{top}/issue.sh {host} {begin:%Y%m%d%H%M%SZ}; mv {top}/out/{host}-* {keys}/")
        box.run(f"supervisorctl restart {main}; sleep 0.6")

    own = f"-keyout {stem}-key.pem -out {stem}-cert.pem -subj /CN={host}"
    again = f"supervisorctl restart {main}; sleep 0.6"
    return Scene(
        world=world,
        check=kiosk.status(main, f"https://{host}:{port}", f"--cacert {trusted}"),
        healthy=lambda probe: said(
            kiosk.keeps(probe, port, ca=pem, name=host), _ends(probe, port, host)
        ),
        truth=Truth(
            (main,), ("certificate-expired",), rf"{stem}|{host}\b(?!:)",
            r"(?i)not yet valid|not ?before|start date|from 20\d{12}Z",
        ),
        inject=inject,
        fix=(f"{top}/issue.sh {host}", f"cp {top}/out/{host}-*.pem {keys}/", again),
        wrong={
            "both are restarted": [f"supervisorctl restart {main} {other}; sleep 0.6"],
            "signed by itself": [f"openssl req -x509 -newkey rsa:2048 -nodes {own}", again],
            "made and not read": [f"{top}/issue.sh {host}", f"cp {top}/out/{host}-*.pem {keys}/"],
            "without TLS": [f"sed -i 's/\"cert\"/\"off\"/' {kiosk.settings_of(main)}", again],
        },
        stays=(*kept, trusted, f"{top}/root-key.pem", f"{keys}/{other_host}-cert.pem", kiosk.CODE,
               kiosk.settings_of(other)),
        harm=lambda probe: said(
            kiosk.keeps(probe, other_port, ca=pem, name=other_host),
            _open(probe, f"{stem}-key.pem"),
        ),
    )  # fmt: skip


def _run_out(pair: tuple[str, str], host: str, hours: timedelta, log: str) -> Callable[[Box], None]:
    """What the server has in mind ran out; its successor came in time."""

    def inject(box: Box) -> None:
        now = datetime.now(UTC)
        for begin in (-hours - 60 * DAY, -hours - DAY):
            texts = issued(host, now, begin, begin + 60 * DAY)
            box.write(pair[0], texts[0])
            box.write(pair[1], texts[1], 0o600)
            if begin < -hours - DAY:
                box.run(f"supervisorctl signal HUP {database.NAME}; sleep 0.5")
        ago = int(hours.total_seconds() // 60) + 1400
        box.run(f"touch -d '-{ago} minutes' {' '.join(pair)}; echo \"$(date -d '-{ago} minutes' "
                f"'+%F %T')\" '{host}: 2 files copied from ca-2' >> {log}")  # fmt: skip

    return inject


def _logs_in(host: str, port: int, base: str, trusted: str) -> WatchedCheck:
    """The check of the accountants, who come with psql."""
    where = f"postgresql://app@{host}:{port}/{base}?sslmode=verify-full&sslrootcert={trusted}"
    run = f"psql -XAtc 'select version()' '{where}&connect_timeout=3'"
    check = Check(run, Expect(output="^PostgreSQL"), timeout=8.0)
    return WatchedCheck("accounts log in", check, database.NAME, severity="P1")


def kept_in_mind(pick: Pick) -> Scene:
    """As `not-loaded`: PostgreSQL goes on with the certificate of its start; the new one was put
    there by a tool of another machine, which cannot tell it."""
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    store, hours = Store(pick, main, base_port), timedelta(hours=pick.size(3, 70))
    host = f"{pick.choice(('pg', 'db', 'sql'))}.{pick.choice(('office', 'accounts'))}.example"
    keys, trusted = f"/etc/ssl/{host}", "/etc/ssl/certs/office-root.pem"
    pair, log = (f"{keys}/fullchain.pem", f"{keys}/privkey.pem"), "/var/log/cert-sync.log"
    files = {"ssl_cert_file": f"'{pair[0]}'", "ssl_key_file": f"'{pair[1]}'"}
    texts = issued(host, datetime.now(UTC), -40 * DAY, 20 * DAY)
    world = tiers.joined(
        [store.server(ssl="on", **files), harbour.app(other, other_port),
         harbour.app(main, port, harbour.in_base(store), needs=(database.NAME,))],
        files={
            **harbour.weeks_ago(main, pick), **harbour.weeks_ago(other, pick),
            pair[0]: File(texts[0], age=3e6), pair[1]: File(texts[1], mode=0o600, age=3e6),
            trusted: File(authority()[0], age=9e7),
            log: File(f"2026-09-20 02:10:04 {host}: 2 files copied from ca-2\n", age=5e6),
        },
        folders={keys: 0o755},
        hostname=pick.host(),
        hosts={host: "127.0.0.1"},
    )  # fmt: skip
    anew = f"supervisorctl signal HUP {database.NAME}; sleep 0.5"
    own = f"-keyout {pair[1]} -out {pair[0]} -subj /CN={host}"
    return Scene(
        world=world,
        check=_logs_in(host, base_port, store.name, trusted),
        healthy=lambda probe: said(
            harbour.stores(probe, port), *_trusted(probe, base_port, host)
        ),
        truth=Truth(
            (database.NAME,), ("certificate-expired",),
            rf"{keys}|fullchain\.pem|ssl_cert_file|{host} cert|certificate of {host}",
            r"(?i)has expired|certificate expired|not ?after|expire date|will expire",
        ),
        inject=_run_out(pair, host, hours, log),
        fix=(anew,),
        wrong={
            "the app is restarted": [f"supervisorctl restart {main} {other}; sleep 0.5"],
            "signed by itself": [f"openssl req -x509 -newkey rsa:2048 -nodes -days 90 {own}",
                                 f"chmod 600 {pair[1]}", anew],
            "TLS is turned off": [f"sed -i 's/^ssl = on/ssl = off/' {database.SETTINGS}", anew],
        },
        stays=(trusted, harbour.settings_of(main), harbour.settings_of(other)),
        harm=lambda probe: said(
            harbour.stores(probe, other_port), store.lost(probe), _open(probe, pair[1])
        ),
    )  # fmt: skip
