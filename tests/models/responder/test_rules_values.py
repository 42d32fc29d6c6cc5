"""Settings that lead nowhere, over what commands printed once."""

from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.rules.values import values
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

CONFIG = "/etc/shop/shop.toml"
PROGRAMS = f"""\
==> /etc/supervisor/conf.d/shop.conf <==
[program:shop]
command=python3 /srv/shop/shop.py {CONFIG}
stdout_logfile=/var/log/shop.out
"""


def found(settings: str, said: str, *names: str) -> list[Idea]:
    rows = "".join(f"drwxr-xr-x 2 root root 60 2026-11-01 10:00:00.0 +0000 {x}\n" for x in names)
    shown = {
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.STATUS: "shop                             FATAL     Exited too quickly\n",
        probes.PROGRAMS: PROGRAMS,
        probes.show(CONFIG): settings,
        probes.tail("/var/log/shop.out"): f"2026-11-15 20:03:10 ERROR {said}\n",
        probes.rows("/data/shop"): rows,
        probes.LINKS: "lo UNKNOWN 127.0.0.1/8\n",
    }
    machine = Case(Brief("inc-1", service="shop"), [Seen(k, text) for k, text in shown.items()])
    return [idea for idea in values(machine) if idea.fix]


def test_a_folder_is_called_as_the_one_that_is_there() -> None:
    said = "cannot open /data/shop/itms/a1: No such file or directory"
    store = 'store = "/data/shop/itms"\n'
    ideas = found(store, said, "items", "logs")
    assert [idea.locus for idea in ideas] == [CONFIG]
    assert 'store = "/data/shop/items"' in ideas[0].fix[1]
    assert not found(store, said, "itms", "items")
    assert not found(store, said, "logs")


def test_it_listens_at_an_address_of_this_machine() -> None:
    said = "cannot listen at 10.0.0.9:80: [Errno 99] Cannot assign requested address"
    ideas = found('listen = "10.0.0.9:80"\npeer = "http://10.0.0.8/"\n', said)
    assert len(ideas) == 1
    assert 'listen = "127.0.0.1:80"' in ideas[0].fix[1]
