"""What somebody remembers though it is over, as nginx and the log of a service show it."""

from collections.abc import Mapping

from hermes_agent.models.responder.brief import Brief, BriefCheck, BriefService
from hermes_agent.models.responder.rules import kept, room
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

ENTRIES = """\
==> /etc/supervisor/conf.d/all.conf <==
[program:nginx]
command=nginx
stderr_logfile=/var/log/nginx/error.log
[program:till]
command=python3 /opt/till/main.py --listen=127.0.0.1:6100
"""
SITE = "/etc/nginx/sites-enabled/till.conf"
PLACE = "/var/cache/nginx/till"
SITES = f"""\
==> {SITE} <==
proxy_cache_path {PLACE} levels=1 keys_zone=till:1m;
server {{
    listen 8080;
    location / {{
        proxy_pass http://TILL:6100;
        proxy_cache till;
        proxy_cache_valid any 5h;
    }}
}}
"""
DIRECT = probes.timed("http://127.0.0.1:6100/up")
HELD = f"{PLACE}/a/1:KEY: http://127.0.0.1:6100/up\n{PLACE}/a/1:HTTP/1.1 504 Gateway Time-out\n"
GOOD = f"{PLACE}/b/2:KEY: http://127.0.0.1:6100/\n{PLACE}/b/2:HTTP/1.1 200 OK\n"


def machine(seen: Mapping[str, str], *, upstream: str = "127.0.0.1", said: str = "") -> Case:
    usual = {
        probes.STATUS: "nginx RUNNING pid 7, uptime 1:56\ntill RUNNING pid 8, uptime 0:10",
        probes.PROGRAMS: ENTRIES,
        probes.LISTENERS: 'LISTEN 0 64 127.0.3.4:6100 0.0.0.0:* users:(("python3",pid=8,fd=3))',
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.SITES: SITES.replace("TILL", upstream),
        probes.LOGS: f"==> /var/log/nginx/error.log <==\n{said}",
    }
    brief = Brief(
        "inc-1", service="till",
        check=BriefCheck("till", "curl -fs http://127.0.0.1:8080/up", "HTTP 504", 22),
        services=(BriefService("till"), BriefService("nginx")),
    )  # fmt: skip
    return Case(brief, [Seen(command, text) for command, text in {**usual, **seen}.items()])


def test_errors_that_are_kept_are_put_away_once_those_behind_answer_and_nothing_else_is() -> None:
    well = {kept.kept(PLACE): HELD + GOOD, DIRECT: "200 after 0.01 s from 127.0.0.1:6100"}
    [idea] = kept.answers(machine(well))
    assert (idea.category, idea.component) == ("cascading-failure", "till")
    assert idea.score > 0.8
    assert (*idea.fix,) == room.aside([f"{PLACE}/a/1"])
    assert "504 Gateway" in idea.evidence[0]
    [down] = kept.answers(machine({**well, DIRECT: "502 after 0.01 s from 127.0.0.1:6100"}))
    assert down.score < 0.6


def test_where_no_kept_error_is_found_nothing_is_put_away() -> None:
    well = {kept.kept(PLACE): GOOD, DIRECT: "200 after 0.01 s from 127.0.0.1:6100"}
    [idea] = kept.answers(machine(well))
    assert idea.fix == ("supervisorctl restart nginx",)
    assert not list(kept.answers(machine({**well, DIRECT: "502 after 0.01 s from :0"})))
    [first] = kept.answers(machine({}))
    assert first.wants == (kept.kept(PLACE), DIRECT)


SAID = (
    "2026/11/15 20:03:10 [error] 5#5: *29 connect() failed (111: Connection refused) while "
    'connecting to upstream, request: "GET /up", upstream: "http://127.0.9.9:6100/up"'
)


def test_who_asks_where_a_name_led_before_is_made_to_look_it_up_again() -> None:
    look = probes.resolved("till.intra")
    moved = machine({look: "127.0.3.4  till.intra"}, upstream="till.intra", said=SAID)
    [idea] = [one for one in kept.addresses(moved) if one.fix]
    assert (idea.category, idea.component) == ("dns-failure", "nginx")
    assert idea.fix[0] == "nginx -t && nginx -s reload"
    assert "127.0.9.9" in idea.locus
    same = machine({look: "127.0.9.9  till.intra"}, upstream="till.intra", said=SAID)
    assert not [one for one in kept.addresses(same) if one.fix]
    lost = machine({look: ""}, upstream="till.intra", said=SAID)
    assert not [one for one in kept.addresses(lost) if one.fix]


def test_a_name_that_leads_elsewhere_since_a_service_was_started_is_looked_up_again() -> None:
    said = "2026/11/15 20:03:10 [error] till.intra:6100: connection refused"
    seen = {
        probes.resolved("till.intra"): "127.0.3.4  till.intra",
        probes.PROCESSES: "  7  1 root  S  0  0.1  900  70 nginx: master",
        probes.CHANGED: "90 1794772980.5 root /etc/hosts",
    }
    found = [x for x in kept.addresses(machine(seen, upstream="till.intra", said=said)) if x.fix]
    assert [one.component for one in found] == ["nginx"]
    old = {**seen, probes.CHANGED: "90 1794770000.5 root /etc/hosts"}
    assert not [x for x in kept.addresses(machine(old, upstream="till.intra", said=said)) if x.fix]


def test_those_that_were_left_out_get_their_turn_once_they_answer() -> None:
    said = "2026/11/15 20:03:10 [error] 5#5: *3 no live upstreams while connecting to upstream"
    out = f"==> {SITE} <==\nupstream till {{\n    server 127.0.3.4:6100 down;\n}}\n"
    [idea] = kept.out_of_turn(machine({probes.SITES: out}, said=said))
    assert idea.component == "till"
    assert idea.fix[1].startswith("sed -i --follow-symlinks ")
    assert idea.fix[2] == "nginx -t && nginx -s reload"
    plain = out.replace(" down", " fail_timeout=2h")
    [noted] = kept.out_of_turn(machine({probes.SITES: plain}, said=said))
    assert noted.fix[0] == "nginx -t && nginx -s reload"
    partly = out.replace("down;", "down;\n    server 127.0.0.1:6100;")
    [both] = kept.out_of_turn(machine({probes.SITES: partly}, said=said))
    assert both.fix == noted.fix, "who is left out beside others is so on purpose"
    away = {probes.SITES: out, probes.LISTENERS: ""}
    assert not list(kept.out_of_turn(machine(away, said=said)))
