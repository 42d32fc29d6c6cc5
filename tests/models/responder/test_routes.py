"""A front that leads requests astray, over what commands printed once."""

from hermes_agent.models.responder.brief import Brief, BriefCheck, BriefService
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.rules.routes import astray, routes, upstreams
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

CONF = "/etc/nginx/nginx.conf"
PROGRAMS = """\
==> /etc/supervisor/conf.d/nginx.conf <==
[program:nginx]
command=nginx -c /etc/nginx/nginx.conf
"""
SITE = """\
http {
  upstream shop { server 127.0.0.1:9000; }
  server {
    listen 127.0.0.1:80;
    location /api/ { # of the shop
      proxy_pass http://shop%s;
      # and what comes after
    }
    location /other/ {
      proxy_pass http://127.0.0.1:9001/;
    }
  }
}
"""


def found(
    uri: str, well: str, extra: str = "", scheme: str = "http", front: int = 404,
    behind: str = "127.0.0.1:9000",
) -> list[Idea]:  # fmt: skip
    site = (
        (SITE % uri)
        .replace("# and what comes after", extra)
        .replace("http://shop", f"{scheme}://shop")
        .replace("127.0.0.1:9000", behind)
    )
    shown = {
        probes.STATUS: "nginx RUNNING   pid 7, uptime 0:01:10\n",
        probes.PROGRAMS: PROGRAMS,
        probes.show(CONF): site,
    }
    check = BriefCheck("shop", "curl -fs http://127.0.0.1/api/items", "", 22)
    brief = Brief("inc-1", "nginx", check, (BriefService("nginx"),))
    seen = [Seen(command, text) for command, text in shown.items()]
    for want in [want for idea in astray(Case(brief, seen)) for want in idea.wants]:
        code = 200 if want.endswith(f"http://{behind}{well}") else front
        seen.append(Seen(want, f"{code} after 0.01 s from 127.0.0.1:80\n"))
    return [idea for idea in astray(Case(brief, seen)) if idea.fix]


def test_a_slash_too_many_or_too_few_is_told_by_whoever_is_behind() -> None:
    (idea,) = found("/", "/api/items")
    assert idea.locus.startswith(f"{CONF}:6 ")
    assert "6s/" in idea.fix[1]
    assert "http:\\/\\/shop;" in idea.fix[1]
    (idea,) = found("", "/items")
    assert "http:\\/\\/shop\\/;" in idea.fix[1]


def test_what_whoever_is_behind_has_not_is_not_the_fault_of_the_front() -> None:
    assert not found("/", "/items/none")
    assert not found("", "/api/items")


def test_a_path_that_is_written_anew_on_the_way_is_left_as_it_is() -> None:
    (idea,) = found("", "/api/items", "\n rewrite ^/api/(.*) /$1 break;")
    assert "# rewrite" in idea.fix[1]


def test_whoever_is_behind_speaks_another_tongue() -> None:
    (idea,) = found("", "/api/items", scheme="https", front=502)
    assert "http:\\/\\/shop;" in idea.fix[1]


def test_a_front_waits_as_long_as_it_takes() -> None:
    (idea,) = found("", "/api/items", "\n proxy_read_timeout 5ms;", front=504)
    assert "# proxy_read_timeout" in idea.fix[1]
    assert not found("", "/api/items", "\n proxy_read_timeout 90s;", front=504)


def test_where_a_site_leads() -> None:
    api, other = routes(CONF, SITE % "")
    assert (api.at, api.to, api.uri, api.ports) == ("/api/", "shop", None, (80,))
    assert (api.passed("/api/x"), other.passed("/other/x")) == ("/api/x", "/x")
    assert upstreams([SITE % ""]) == {"shop": "127.0.0.1:9000"}


def test_what_is_meant_to_keep_somebody_out_stays() -> None:
    assert not found("", "/api/items", "\n rewrite ^/api/(.*) /$1 break;", front=403)
    assert not found("", "/api/items", "\n rewrite ^ https://$host$request_uri? redirect;")


def test_to_another_machine_nothing_is_sent_that_others_may_read() -> None:
    assert not found("", "/api/items", scheme="https", front=502, behind="10.0.0.9:9000")
