"""Of one account's server: a site that still shows the certificate of a lineage that nobody renews
any more, and one whose issuer's own certificate has run out."""

import subprocess
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import cabinets as house
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills.authority import KEY, authority, issued
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.needs import find
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

DAY = timedelta(days=1)
ROOTS = "/etc/ssl/certs/private-root.pem"
TOP = "/etc/letsencrypt"
ISSUERS = "/etc/ssl/issuing"
SETTINGS = """[ca]
default_ca = lab
[lab]
new_certs_dir = .
database = index
serial = serial
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
"""
OWN = "openssl req -x509 -nodes -newkey rsa:2048 -keyout privkey.pem -out fullchain.pem"


def _up(name: str, host: str, port: int) -> WatchedCheck:
    run = f"curl -sS -m 3 --cacert {ROOTS} https://{host}:{port}/up"
    check = Check(run, Expect(output="^OK"), timeout=8.0)
    return WatchedCheck(f"{name} https", check, name, severity="P1")


def _site(host: str, port: int, target: int, chain: str, key: str = "") -> str:
    key = key or chain.replace("fullchain", "privkey")
    return f"""server {{
    listen 127.0.0.1:{port} ssl;
    server_name {host};

    ssl_certificate     {chain};
    ssl_certificate_key {key};

    location / {{
        proxy_pass http://127.0.0.1:{target};
    }}
}}
"""


def _served(probe: Probe, host: str, port: int) -> list[str]:
    pem, _ = authority()
    openssl = find("openssl") or "openssl"
    words = [openssl, "s_client", "-connect", f"127.0.0.1:{port}", "-servername", host]
    shown = probe.run(words).stdout.encode()
    ends = probe.run([openssl, "x509", "-noout", "-checkend", "86400"], shown)
    return said(
        house.saves(probe, port, ca=pem, name=host),
        f"the certificate of {host} ends within a day" if ends.code else "",
    )


def _lineage(lineage: str, pair: tuple[str, str]) -> dict[str, File]:
    """What certbot keeps of a certificate."""
    archive, live = f"{TOP}/archive/{lineage}", f"{TOP}/live/{lineage}"
    return {
        f"{archive}/fullchain1.pem": File(pair[0], age=tiers.MONTH),
        f"{archive}/privkey1.pem": File(pair[1], mode=0o600, age=tiers.MONTH),
        f"{live}/fullchain.pem": File(link=f"../../archive/{lineage}/fullchain1.pem"),
        f"{live}/privkey.pem": File(link=f"../../archive/{lineage}/privkey1.pem"),
    }


def _renewal(lineage: str) -> str:
    live = f"{TOP}/live/{lineage}"
    return (
        f"version = 2.1.0\narchive_dir = {TOP}/archive/{lineage}\ncert = {live}/cert.pem\n"
        f"privkey = {live}/privkey.pem\nfullchain = {live}/fullchain.pem\n\n[renewalparams]\n"
        "authenticator = webroot\nkey_type = ecdsa\n"
    )


def _lapse(host: str, new: str, other: str, hours: timedelta) -> Callable[[Box], None]:
    """The first lineage has run out; its successor is renewed in its stead."""

    def inject(box: Box) -> None:
        moment = datetime.now(UTC)
        old = issued(host, moment, -hours - 90 * DAY, -hours)
        box.run(f"mv {TOP}/renewal/{host}.conf {TOP}/renewal/{new}.conf")
        box.write(f"{TOP}/renewal/{new}.conf", _renewal(new))
        files = {**_lineage(host, old), **_lineage(new, issued(host, moment, -20 * DAY, 70 * DAY))}
        for path, file in files.items():
            if file.link:
                box.run(f"mkdir -p {path.rpartition('/')[0]}; ln -sfn {file.link} {path}")
            else:
                box.write(path, file.text, file.mode)
        told = [f"{TOP}/live/{one}/fullchain.pem (skipped)" for one in (new, other)]
        text = "The following certificates are not due for renewal yet:\n  " + "\n  ".join(told)
        box.write("/var/log/letsencrypt/letsencrypt.log", f"{text}\nNo renewals were attempted.\n")
        box.run("supervisorctl restart nginx")

    return inject


def second_lineage(pick: Pick) -> Scene:
    (main, other), (port, inner, other_port, other_inner) = pick.services(2), pick.ports(4)
    domain = pick.choice(("example.net", "example.org", "intra.example"))
    host, other_host = f"{main}.{domain}", f"{other}.{domain}"
    new, hours = f"{host}-0001", timedelta(hours=pick.size(3, 40))
    rows, now = house.Rows(pick), datetime.now(UTC)
    live, site = f"{TOP}/live", tiers.site_file(main)
    sites = {
        main: _site(host, port, inner, f"{live}/{host}/fullchain.pem"),
        other: _site(other_host, other_port, other_inner, f"{live}/{other_host}/fullchain.pem"),
    }
    world = tiers.joined(
        [house.app(main, inner, rows), house.app(other, other_inner),
         tiers.nginx(sites, [main, other], port)],
        files={
            ROOTS: File(authority()[0], age=9e6),
            **_lineage(host, issued(host, now, -60 * DAY, 30 * DAY)),
            **_lineage(other_host, issued(other_host, now, -82 * DAY, 8 * DAY)),
            f"{TOP}/renewal/{host}.conf": File(_renewal(host), age=tiers.MONTH),
            f"{TOP}/renewal/{other_host}.conf": File(_renewal(other_host), age=tiers.MONTH),
            **house.weeks_ago(main, pick), **house.weeks_ago(other, pick),
        },
        hostname=pick.host(),
        hosts={host: "127.0.0.1", other_host: "127.0.0.1"},
    )  # fmt: skip

    return Scene(
        world=world,
        check=_up(main, host, port),
        healthy=lambda probe: _served(probe, host, port),
        truth=Truth(
            ("nginx", main), ("certificate-expired", "bad-config"),
            rf"(live|archive)/{host}|{new}|{site}",
            rf"(?i)not ?after|expire date|verify error|{new}",
        ),
        inject=_lapse(host, new, other_host, hours),
        fix=(f"sed -i 's#live/{host}/#live/{new}/#' {site}", "nginx -t && nginx -s reload"),
        wrong={
            "nginx is restarted": ["supervisorctl restart nginx"],
            "one that signed itself": [
                f"cd {live}/{host}; {OWN} -subj /CN={host}; nginx -s reload",
            ],
            "the other's certificate": [
                f"sed -i 's#live/{host}/#live/{other_host}/#' {site}", "nginx -s reload",
            ],
        },
        stays=(ROOTS, tiers.site_file(other), f"{TOP}/archive/{other_host}", house.env_of(main)),
        harm=lambda probe: said(
            rows.lost(probe, inner),
            house.saves(probe, other_port, ca=authority()[0], name=other_host),
            "" if probe.stat(f"{TOP}/archive/{new}/privkey1.pem") else "the new key is gone",
        ),
    )  # fmt: skip


def _openssl(folder: Path, *words: str) -> None:
    program = find("openssl") or "openssl"
    subprocess.run([program, *words], cwd=folder, capture_output=True, check=True)


class Issuer:
    """An authority between the root and the sites: its certificate of old, the one that followed
    it, and what it issues."""

    def __init__(self, now: datetime, ended: timedelta) -> None:
        self.name = "Issuing CA G2"
        root, root_key = authority()
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            for file, text in (("root.pem", root), ("root.key", root_key), ("index", "")):
                (place / file).write_text(text)
            (place / "settings").write_text(SETTINGS)
            (place / "serial").write_text(f"{int(now.timestamp() * 1000):016X}\n")
            request = ("-subj", f"/CN={self.name}", "-addext", "basicConstraints=critical,CA:TRUE")
            _openssl(place, "req", *KEY, "-keyout", "key", "-out", "csr", *request)
            self.old = self._signed(place, now - ended - 1000 * DAY, now - ended)
            self.new = self._signed(place, now - 40 * DAY, now + 1000 * DAY)
            self._key = (place / "key").read_text()

    @staticmethod
    def _signed(place: Path, begin: datetime, end: datetime) -> str:
        dates = ("-startdate", f"{begin:%Y%m%d%H%M%SZ}", "-enddate", f"{end:%Y%m%d%H%M%SZ}")
        ours = ("-cert", "root.pem", "-keyfile", "root.key", "-in", "csr", "-out", "pem")
        _openssl(place, "ca", "-batch", "-notext", "-config", "settings", *ours, *dates)
        (place / "index").write_text("")
        return (place / "pem").read_text()

    def leaf(self, host: str) -> tuple[str, str]:
        """A certificate for a host, and its key."""
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            (place / "ca.pem").write_text(self.new)
            (place / "ca.key").write_text(self._key)
            request = ("-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}")
            _openssl(place, "req", *KEY, "-keyout", "key", "-out", "csr", *request)
            _openssl(place, "x509", "-req", "-in", "csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                     "-CAcreateserial", "-copy_extensions", "copy", "-days", "200", "-out", "pem",
            )  # fmt: skip
            return (place / "pem").read_text(), (place / "key").read_text()


def old_intermediate(pick: Pick) -> Scene:
    (main, other), (port, inner, other_port, other_inner) = pick.services(2), pick.ports(4)
    domain = pick.choice(("example.net", "example.org", "intra.example"))
    host, other_host, folder = f"{main}.{domain}", f"{other}.{domain}", "/etc/nginx/ssl"
    issuer = Issuer(datetime.now(UTC), timedelta(hours=pick.size(3, 60)))
    rows, (leaf, key), theirs = house.Rows(pick), issuer.leaf(host), issuer.leaf(other_host)
    bundle, newer = f"{folder}/{host}.chained.crt", f"{ISSUERS}/issuing-ca-g2-renewed.pem"
    sites = {
        main: _site(host, port, inner, bundle, f"{folder}/{host}.key"),
        other: _site(other_host, other_port, other_inner, f"{folder}/{other_host}.chained.crt",
                     f"{folder}/{other_host}.key"),
    }  # fmt: skip
    world = tiers.joined(
        [house.app(main, inner, rows), house.app(other, other_inner),
         tiers.nginx(sites, [main, other], port)],
        files={
            ROOTS: File(authority()[0], age=9e6),
            bundle: File(leaf + issuer.new, age=tiers.MONTH),
            f"{folder}/{host}.crt": File(leaf, age=tiers.MONTH),
            f"{folder}/{host}.key": File(key, mode=0o600, age=tiers.MONTH),
            f"{folder}/{other_host}.chained.crt": File(theirs[0] + issuer.new, age=tiers.MONTH),
            f"{folder}/{other_host}.key": File(theirs[1], mode=0o600, age=tiers.MONTH),
            f"{ISSUERS}/issuing-ca-g2.pem": File(issuer.old, age=9e7),
            newer: File(issuer.new, age=tiers.MONTH),
            **house.weeks_ago(main, pick), **house.weeks_ago(other, pick),
        },
        hostname=pick.host(),
        hosts={host: "127.0.0.1", other_host: "127.0.0.1"},
    )  # fmt: skip
    return Scene(
        world=world,
        check=_up(main, host, port),
        healthy=lambda probe: _served(probe, host, port),
        truth=Truth(
            ("nginx", main), ("certificate-expired",),
            rf"{bundle}|issuing-ca|(?:Issuing|intermediate)|chained|{tiers.site_file(main)}",
            r"(?i)not ?after|expire date|verify error|depth=1|issuing.ca|certificate will expire",
        ),
        inject=lines(
            f"cat {folder}/{host}.crt {ISSUERS}/issuing-ca-g2.pem > {bundle}",
            "nginx -s reload; sleep 0.5",
        ),
        fix=(f"cat {folder}/{host}.crt {newer} > {bundle}", "nginx -t && nginx -s reload",
             "sleep 0.5"),
        wrong={
            "nginx is restarted": ["supervisorctl restart nginx"],
            "it goes without a chain": [f"cp {folder}/{host}.crt {bundle}; nginx -s reload"],
            "the other's chain": [
                f"cp {folder}/{other_host}.chained.crt {bundle}; nginx -s reload; sleep 0.5",
            ],
        },
        stays=(ROOTS, *(tiers.site_file(one) for one in sites), f"{folder}/{host}.key",
               f"{folder}/{other_host}.chained.crt", newer),
        harm=lambda probe: said(
            rows.lost(probe, inner),
            house.saves(probe, other_port, ca=authority()[0], name=other_host),
        ),
    )  # fmt: skip
