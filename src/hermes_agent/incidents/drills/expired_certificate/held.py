"""Of one account's server: a site that still shows the certificate of a lineage that nobody renews
any more."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import house_ha2 as house
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills.authority import authority, issued
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.needs import find
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth

DAY = timedelta(days=1)
ROOTS = "/etc/ssl/certs/private-root.pem"
TOP = "/etc/letsencrypt"
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
