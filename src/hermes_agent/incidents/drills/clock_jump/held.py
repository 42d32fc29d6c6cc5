"""Clocks that are wrong, in other houses."""

import re
import time

from msgspec.structs import replace

from hermes_agent.incidents.drills import database, kiosk, tiers, vhosts
from hermes_agent.incidents.drills.clock_jump.foreign import TABLES, _pages_lost
from hermes_agent.incidents.drills.needs import find
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth


def _off(probe: Probe, port: int, base: str) -> str:
    """By how much the clock of a database is wrong; empty where it is right."""
    told = database.ask(probe, port, base, "select extract(epoch from clock_timestamp())")
    try:
        off = float(told) - time.time()
    except ValueError:
        return f"the database: {told}"
    return f"the database is {off:+.0f} s from now" if abs(off) > 10 else ""


def year_end(pick: Pick) -> Scene:
    """As `ahead`: PostgreSQL lives in the future since its entry was given another time for a test
    of the year's end; a site with INI settings refuses the sessions that the database opens."""
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    base, conf = f"{main}_{pick.token(3)}", vhosts.conf_of(main)
    entry = f"/etc/supervisor/conf.d/{database.NAME}.conf"
    shift = pick.choice((f"+{pick.size(30, 80)}d", f"+{pick.size(5, 11)}h", f"+{pick.size(1, 3)}y"))
    library, who = find("faketime") or "", pick.choice(("Marta", "jb", "the auditors"))
    where = f"postgres://app@127.0.0.1:{base_port}/{base}"
    server = database.postgres(base_port, base, TABLES)
    server = replace(server, program=replace(
        server.program, environment={"LC_ALL": "C.UTF-8", "PGAPPNAME": base}))  # fmt: skip
    world = tiers.joined(
        [
            server,
            vhosts.site(main, port, {"kind": "database", "url": where},
                        {"sessions": {"leeway": pick.choice((30, 45, 90))}},
                        needs=(database.NAME,)),
            vhosts.site(other, other_port, environment={"TZ": "Pacific/Auckland"}),
        ],
        files={**vhosts.months_ago(main, pick), **vhosts.months_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    theirs = f"/etc/supervisor/conf.d/{main}.conf"
    more = f'LD_PRELOAD="{library}",FAKETIME="{shift}"'
    return Scene(
        world=world,
        check=vhosts.sound(main, port),
        healthy=lambda probe: said(vhosts.writes(probe, port), _off(probe, base_port, base)),
        truth=Truth(
            (database.NAME,), ("clock-jump", "bad-config"),
            rf"(?i){entry}|faketime|entry of {database.NAME}",
            rf"(?i)faketime|session \w+ begins at|{re.escape(shift)}",
        ),
        inject=lines(
            f"sed -i 's#^environment=.*#; test of the closing of the year, for {who}\\n&,{more}#' "
            f"{entry}",
            "supervisorctl update; sleep 1.5", f"curl -s http://127.0.0.1:{port}/healthcheck",
        ),
        fix=(f"sed -i '/^environment=/s#,LD_PRELOAD=.*##' {entry}",
             "supervisorctl update; sleep 1.5"),
        wrong={
            "both are restarted": [f"supervisorctl restart {database.NAME} {main}; sleep 1.5"],
            "more leeway": [f"sed -i 's/^leeway.*/leeway = 999999999/' {conf}",
                            f"supervisorctl restart {main}; sleep 0.5"],
            "the site goes there, too": [
                f"sed -i 's#^directory=#environment={more}\\n&#' {theirs}",
                "supervisorctl update; sleep 1",
            ],
            "not started anew": [f"sed -i '/^environment=/s#,LD_PRELOAD=.*##' {entry}"],
        },
        stays=(conf, f"{vhosts.TOP}/{main}/app/folio.py", database.SETTINGS,
               vhosts.conf_of(other)),
        harm=lambda probe: said(
            vhosts.writes(probe, other_port), _pages_lost(probe, base_port, base)
        ),
    )  # fmt: skip


STAMPER = r"""#!/usr/bin/perl
# Tokens for the tills, over HTTP: stamper.pl SETTINGS.ini. GET /token
use strict;
use warnings;
use Digest::SHA qw(hmac_sha256);
use IO::Socket::INET;
use JSON::PP;
use MIME::Base64 qw(encode_base64url);
use POSIX qw(strftime);

my (%own, $part);
open(my $in, '<', $ARGV[0]) or die "$ARGV[0]: $!\n";
while (<$in>) {
    $part = $1 if /^\[(\w+)\]/;
    $own{"$part.$1"} = $2 if /^(\w+)\s*=\s*(.*?)\s*$/;
}
close $in;
my %units = ('' => 1, s => 1, m => 60, h => 3600, d => 86400);
my $travel = 0;
if (($own{'clock.travel'} || 'none') ne 'none') {
    $own{'clock.travel'} =~ /^([+-]?\d+)([smhd]?)$/ or die "$ARGV[0]: clock.travel?\n";
    $travel = $1 * $units{$2};
}
open(my $log, '>>', $own{'log.file'}) or die "$own{'log.file'}: $!\n";
$log->autoflush(1);
sub at { strftime('%F %T', gmtime shift) }
sub told { printf $log "[%s] stamper.pl(%d): %s\n", at(time), $$, shift }
sub coded { encode_base64url(encode_json(shift)) }

my $door = IO::Socket::INET->new(
    LocalAddr => '127.0.0.1', LocalPort => $own{'listen.port'}, Listen => 32, ReuseAddr => 1,
) or die "port $own{'listen.port'}: $!\n";
told("tokens at port $own{'listen.port'}, good for $own{'token.lifetime'} s");
$SIG{PIPE} = 'IGNORE';
while (my $guest = $door->accept) {
    my $first = <$guest> // '';
    while (<$guest>) { last if /^\r?$/ }
    my ($status, $text) = ('404 Not Found', 'no such page');
    if ($first =~ m{^GET /token }) {
        my $now = time + $travel;
        my $end = $now + $own{'token.lifetime'};
        $text = coded({ alg => 'HS256', typ => 'JWT' }) . '.'
            . coded({ sub => 'till', iat => $now, nbf => $now, exp => $end });
        $text .= '.' . encode_base64url(hmac_sha256($text, $own{'token.secret'}));
        $status = '200 OK';
        told('a token from ' . at($now) . ' until ' . at($end));
    }
    print $guest "HTTP/1.1 $status\r\nConnection: close\r\nContent-Length: ", length $text,
        "\r\n\r\n$text";
    close $guest;
}
"""


def _stamper(name: str, port: int, secret: str, lifetime: int) -> tiers.Part:
    """Who gives out tokens."""
    code, conf, log = f"/opt/{name}/stamper.pl", f"/opt/{name}/stamper.ini", f"/var/log/{name}.log"
    sections: dict[str, dict[str, object]] = {
        "listen": {"port": port}, "token": {"secret": secret, "lifetime": lifetime},
        "clock": {"travel": "none"}, "log": {"file": log},
    }  # fmt: skip
    old = "[2026-02-11 08:12:40] stamper.pl(88): port 8044: Address already in use\n"
    return tiers.Part(
        Program(name=name, command=f"perl {code} {conf}", ready=f"tcp:{port}",
                about=f"tokens for the tills; settings {conf}, log {log}"),
        {code: File(STAMPER, mode=0o755, age=9e6), log: File(old),
         conf: File(vhosts.ini(sections), mode=0o640, age=tiers.MONTH)},
    )  # fmt: skip


def travel(pick: Pick) -> Scene:
    """As `own-setting`: a small program in Perl gives out tokens, and its INI file makes it travel
    in time since a fair; the tills, in Node.js, do not take them."""
    (main, issuer, other), (port, issuer_port, other_port) = pick.services(3), pick.ports(3)
    conf, secret, lifetime = f"/opt/{issuer}/stamper.ini", pick.token(28), pick.choice((120, 240))
    shift = pick.choice("+-") + pick.choice((f"{pick.size(3, 70)}h", f"{pick.size(2, 40)}d"))
    why = pick.choice(("shown at the fair", "for the demo with Ruiz", "trying out season tickets"))
    asks = {"auth": {"url": f"http://127.0.0.1:{issuer_port}", "secret": secret}}
    kept, settings = kiosk.vouchers(main, pick), kiosk.settings_of(main)
    world = tiers.joined(
        [_stamper(issuer, issuer_port, secret, lifetime),
         kiosk.kiosk(main, port, asks, needs=(issuer,)),
         kiosk.kiosk(other, other_port, environment={"TZ": "Asia/Kathmandu"})],
        files={**kept, **kiosk.once(main, pick), **kiosk.once(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    again = f"supervisorctl restart {issuer}; sleep 0.6"
    back = f"sed -i 's/^travel = .*/travel = none/' {conf}"
    return Scene(
        world=world,
        check=kiosk.status(main, f"http://127.0.0.1:{port}"),
        healthy=lambda probe: said(kiosk.keeps(probe, port), kiosk.off(probe, issuer_port)),
        truth=Truth(
            (issuer,), ("clock-jump", "bad-config"), rf"{conf}|\btravel\b",
            rf"travel ?= ?[+-]|{re.escape(shift)}|jwt (expired|not active)|a token from|\"nbf\"",
        ),
        inject=lines(
            f"sed -i 's/^travel = .*/; {why}\\ntravel = {shift}/' {conf}", again,
            f"curl -s http://127.0.0.1:{port}/status",
        ),
        fix=(back, again),
        wrong={
            "both are restarted": [f"supervisorctl restart {issuer} {main}; sleep 0.8"],
            "longer tokens": [f"sed -i 's/^lifetime = .*/lifetime = 99999999/' {conf}", again],
            "nobody asks for tokens": [f"sed -i 's/\"auth\"/\"was\"/' {settings}",
                                       f"supervisorctl restart {main}; sleep 0.8"],
            "not read anew": [back],
        },
        stays=(*kept, settings, kiosk.CODE, kiosk.settings_of(other), f"/opt/{issuer}/stamper.pl"),
        harm=lambda probe: said(kiosk.keeps(probe, other_port)),
    )  # fmt: skip
