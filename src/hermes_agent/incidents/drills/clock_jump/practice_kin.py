"""A launcher that rehearses another day, and a feed that was told the time of its readers."""

import re
import time
from calendar import timegm

from hermes_agent.incidents.drills import kiosk, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth

LAUNCH = """#!/bin/bash
# Tokens for the tills.
umask 027
cd /var/local/{name} || exit 1
run=(node --max-old-space-size=96)
exec "${{run[@]}}" {code} {settings}
"""


def rehearsal(pick: Pick) -> Scene:
    """As `start-script`: the launcher of a program of Node.js, in bash, puts `faketime` before it
    since the year's end was rehearsed; what fails are the tokens of a till."""
    (main, issuer, other), (port, issuer_port, other_port) = pick.services(3), pick.ports(3)
    launch, secret = f"/app/kiosk/bin/{issuer}", pick.token(30)
    shift = f"{pick.choice('+-')}{pick.size(2, 50)}{pick.choice('hd')}"
    why = pick.choice(("dress rehearsal of the year's end", "showing Jo the Christmas prices",
                       "does the season ticket end by itself?"))  # fmt: skip
    text = LAUNCH.format(name=issuer, code=kiosk.CODE, settings=kiosk.settings_of(issuer))
    asks = {"auth": {"url": f"http://127.0.0.1:{issuer_port}", "secret": secret}}
    kept, settings = kiosk.vouchers(main, pick), kiosk.settings_of(main)
    world = tiers.joined(
        [kiosk.kiosk(issuer, issuer_port, {"tokens": {"secret": secret, "ttl": 300}},
                     command=launch, about=f"tokens for the tills; launched by {launch}"),
         kiosk.kiosk(main, port, asks, needs=(issuer,)),
         kiosk.kiosk(other, other_port, environment={"TZ": "America/Bogota"})],
        files={
            **kept, **kiosk.once(main, pick), **kiosk.once(other, pick),
            launch: File(text, mode=0o755, age=tiers.MONTH),
        },
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        other_day = f"# {why}\nrun=(faketime -f '{shift}' \"${{run[@]}}\")\nexec "
        box.write(launch, text.replace("exec ", other_day), 0o755)
        box.run(f"supervisorctl restart {issuer}; sleep 0.8")

    return Scene(
        world=world,
        check=kiosk.status(main, f"http://127.0.0.1:{port}"),
        healthy=lambda probe: said(kiosk.keeps(probe, port), kiosk.off(probe, issuer_port)),
        truth=Truth(
            (issuer,), ("clock-jump", "bad-config"), rf"(?i){launch}\b|faketime",
            r"(?i)faketime|jwt (expired|not active)|\bdate: |\"iat\"",
        ),
        inject=inject,
        fix=(f"sed -i '/faketime/d; /{why[:12]}/d' {launch}", f"supervisorctl restart {issuer}",
             "sleep 0.8"),
        wrong={
            "both are restarted": [f"supervisorctl restart {issuer} {main}; sleep 0.8"],
            "longer tokens": [
                f"sed -i 's/\"ttl\": 300/\"ttl\": 99999999/' {kiosk.settings_of(issuer)}",
                f"supervisorctl restart {issuer}; sleep 0.8",
            ],
            "nobody asks for tokens": [
                f"sed -i 's/\"auth\"/\"oldauth\"/' {settings}",
                f"supervisorctl restart {main}; sleep 0.8",
            ],
        },
        stays=(*kept, settings, kiosk.CODE, kiosk.settings_of(other)),
        harm=lambda probe: said(kiosk.keeps(probe, other_port)),
    )  # fmt: skip


FEED = r"""#!/usr/bin/perl
# Exchange rates for the tills: feed.pl SETTINGS. Writes them every few seconds.
# The tills take asOf for UTC.
use strict;
use warnings;
use POSIX qw(strftime tzset);

my %own;
open(my $in, '<', $ARGV[0]) or die "$ARGV[0]: $!\n";
while (<$in>) { $own{$1} = $2 if /^\s*(\w+):\s*(\S+)/ }
close $in;
$ENV{TZ} = $own{timezone};
tzset();

sub told {
    open(my $log, '>>', $own{log}) or die "$own{log}: $!\n";
    print $log strftime('%Y/%m/%d %H:%M:%S', localtime), " feed.pl[$$] $_[0]\n";
    close $log;
}

told("started, every $own{every} s, timezone $own{timezone}");
while (1) {
    my $now = strftime('%Y-%m-%d %H:%M:%S', localtime);
    open(my $out, '>', "$own{rates}.part") or die "$own{rates}: $!\n";
    printf $out qq({"asOf": "%s", "base": "EUR", "USD": %.4f}\n), $now, 1.08 + rand(0.01);
    close $out;
    rename "$own{rates}.part", $own{rates};
    sleep $own{every};
}
"""


def _as_of(probe: Probe, rates: str) -> str:
    """By how much the rates are not of now; empty when they are."""
    found = re.search(r'"asOf": "([^"]+)"', probe.text(rates))
    if not found:
        return f"{rates} says no time"
    shift = timegm(time.strptime(found[1], "%Y-%m-%d %H:%M:%S")) - time.time()
    return f"rates are of {shift:+.0f} s from now" if abs(shift) > 30 else ""


def time_of_readers(pick: Pick) -> Scene:
    """As `zone`: a feed in Perl writes exchange rates by the zone of its YAML settings, which
    somebody changed for the sake of its log; the tills refuse the rates."""
    (main, feed, other), (port, other_port) = pick.services(3), pick.ports(2)
    top, far = f"/app/{feed}", pick.choice(("America/Bogota", "Asia/Dubai", "Asia/Manila",
                                            "America/Vancouver", "Australia/Perth"))  # fmt: skip
    conf, log, rates = f"{top}/feed.yml", f"{top}/log/feed.log", f"/var/local/{feed}/rates.json"
    usual = f"# {feed}\nrates: {rates}\nevery: 1\ntimezone: Etc/UTC\nlog: {log}\n"
    program = Program(
        name=feed, command=f"perl {top}/feed.pl {conf}", directory=top, ready=f"file:{rates}",
        about=f"exchange rates for the tills, in {rates}; settings {conf}, log {log}",
    )  # fmt: skip
    old = "2026/03/29 01:10:02 feed.pl[212] /var/local/rates.json: No space left on device\n"
    part = tiers.Part(
        program,
        {f"{top}/feed.pl": File(FEED, mode=0o755, age=9e6), conf: File(usual, age=9e6),
         log: File(old)},
        {f"/var/local/{feed}": 0o755, f"{top}/log": 0o755},
    )  # fmt: skip
    kept, settings = kiosk.vouchers(main, pick), kiosk.settings_of(main)
    uses = {"rates": {"file": rates, "maxAge": pick.choice((600, 900, 1200))}}
    again = f"supervisorctl restart {feed}; sleep 0.8"
    entry = f"/etc/supervisor/conf.d/{main}.conf"
    return Scene(
        world=tiers.joined(
            [part, kiosk.kiosk(main, port, uses, needs=(feed,)), kiosk.kiosk(other, other_port)],
            files={**kept, **kiosk.once(main, pick), **kiosk.once(other, pick)},
            hostname=pick.host(),
        ),
        check=kiosk.status(main, f"http://127.0.0.1:{port}"),
        healthy=lambda probe: said(kiosk.keeps(probe, port), _as_of(probe, rates)),
        truth=Truth(
            (feed,), ("clock-jump", "bad-config"), rf"(?i){conf}|time ?zone|{far}",
            rf"{far}|rates as of (?!2026-03).*(too old|future)|asOf",
        ),
        inject=lines(
            f"sed -i 's#^timezone:.*#timezone: {far}  \\# the log in our time#' {conf}", again,
            f"curl -s http://127.0.0.1:{port}/status",
        ),
        fix=(f"sed -i 's#^timezone:.*#timezone: Etc/UTC#' {conf}", again),
        wrong={
            "both are restarted": [f"supervisorctl restart {feed} {main}; sleep 0.8"],
            "old rates will do": [f"sed -i 's/\"maxAge\": [0-9]*/\"maxAge\": 9999999/' {settings}",
                                  f"supervisorctl restart {main}; sleep 0.8"],
            "the till moves there": [
                f"sed -i 's#^command=.*#&\\nenvironment=TZ=\"{far}\"#' {entry}",
                "supervisorctl update; sleep 1",
            ],
        },
        stays=(*kept, settings, kiosk.CODE, kiosk.settings_of(other)),
        runs=(re.escape(f"{top}/feed.pl"),),
        harm=lambda probe: said(kiosk.keeps(probe, other_port)),
    )  # fmt: skip
