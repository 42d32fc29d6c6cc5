"""Settings that work and are not what is meant, over what commands printed once."""

from hermes_agent.models.responder.brief import Brief, BriefService
from hermes_agent.models.responder.rules.ideas import ACT, Idea
from hermes_agent.models.responder.rules.meant import meant, without_trial
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

CONFIG = "/etc/shop/shop.ini"
PROGRAMS = """\
==> /etc/supervisor/conf.d/shop.conf <==
[program:shop]
command=python3 /srv/shop/shop.py /etc/shop/shop.ini

==> /etc/supervisor/conf.d/cart.conf <==
[program:cart]
command=python3 /srv/cart/cart.py /etc/cart/cart.ini
"""


def found(
    value: str, *there: str, about: str = "", beside: str = "", changed: str = "1794772900.0",
    more: str = "", **files: str,
) -> list[Idea]:  # fmt: skip
    shown = {
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.STATUS: "shop RUNNING   pid 7, uptime 0:01:10\ncart RUNNING   pid 8, uptime 0:01\n",
        probes.PROGRAMS: PROGRAMS,
        probes.CHANGED: f"90 {changed} root {CONFIG}\n" if changed else "",
        probes.show(CONFIG): f"[app]\nport = 80\ndatabase = {value}{more}\n",
        probes.show("/etc/cart/cart.ini"): "[app]\nport = 81\ndatabase = /data/cart.db\n",
        **{probes.show(f"/etc/shop/{name}.ini"): text for name, text in files.items()},
    }
    services = (BriefService("shop", about=about), BriefService("cart"))
    brief = Brief("inc-1", service="shop", services=services)
    seen = [Seen(command, text) for command, text in shown.items()]
    if around := Case(brief, seen).around("shop"):
        seen.append(Seen(around, beside))
    for want in [want for idea in meant(Case(brief, seen)) for want in idea.wants]:
        path = want.removeprefix("ls -ld ")
        seen.append(Seen(want, f"-rw-r--r-- 1 a a 9 {path}\n", 0 if path in there else 2))
    return [idea for idea in meant(Case(brief, seen)) if idea.fix]


def test_what_is_for_trials_gives_way_to_what_is_not() -> None:
    (idea, *_) = found("/data/shop-staging.db", "/data/shop.db")
    assert "database = /data/shop.db" in idea.fix[1]
    assert idea.score >= 0.7
    assert not found("/data/shop-staging.db"), "nothing else is there"
    assert not found("/data/shop.db", "/data/shop.db")


def test_what_people_wrote_down_counts() -> None:
    (idea, *_) = found("/data/two.db", "/data/one.db", about="orders, kept in /data/one.db")
    assert "database = /data/one.db" in idea.fix[1]


def test_what_is_of_another_service_gives_way_to_its_own() -> None:
    (idea, *_) = found("/data/cart.db", "/data/shop.db")
    assert "database = /data/shop.db" in idea.fix[1]


def test_the_file_of_the_real_system_is_put_in_place_of_that_of_a_trial() -> None:
    trial = "[app]\nport = 80\ndatabase = /x/a.db"
    rows = "".join(f"9 1794000000.0 root /etc/shop/shop.{x}.ini\n" for x in ("prod", "staging"))
    kept = {"shop.prod": "[app]\nport = 80\ndatabase = /x/b.db\n", "shop.staging": trial}
    assert any("shop.prod.ini" in one.fix[1] for one in found("/x/a.db", beside=rows, **kept))
    kept["shop.staging"] = "[app]\n"
    assert not found("/x/a.db", beside=rows, **kept)


def test_what_has_been_so_for_long_is_meant_so() -> None:
    rows = "".join(f"9 1794000000.0 root /etc/shop/shop.{x}.ini\n" for x in ("prod", "staging"))
    kept = {
        "shop.prod": "[app]\nport = 80\ndatabase = /x/b.db\n",
        "shop.staging": "[app]\nport = 80\ndatabase = /x/a.db",
    }
    old = [
        *found("/data/two.db", "/data/one.db", about="kept in /data/one.db", changed=""),
        *found("/data/cart.db", "/data/shop.db", changed=""),
        *found("/x/a.db", beside=rows, changed="", **kept),
    ]
    assert len(old) >= 3
    assert all(idea.score < ACT for idea in old)


def test_only_the_place_itself_is_changed_in_its_line() -> None:
    more = " # not /data/shop-staging.db.old"
    (idea, *_) = found("/data/shop-staging.db", "/data/shop.db", more=more)
    assert "database = /data/shop.db # not /data/shop-staging.db.old" in idea.fix[1]


def test_only_a_word_of_its_own_says_that_it_is_for_trials() -> None:
    assert without_trial("/data/shop-staging.db") == ["/data/shop.db"]
    assert without_trial("/srv/test/shop") == ["/srv/shop"]
    assert without_trial("/data/latest.db") == without_trial("/data/devices.db") == []
