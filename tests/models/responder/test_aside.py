"""Folders that somebody put away, over what commands printed once."""

from hermes_agent.models.responder.rules import absent, aside
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from tests.models.responder.test_rules_start import NOW, best, case

GONE = "/data/shop/objects"
LOOK = aside._written(GONE, "shop")
WALK = (
    "f: /data/shop/objects/.a1.tmp\n dr-x root root /\n dr-x root root data\n"
    " dr-x root root shop\n                objects - No such file or directory\n"
)


def put(*rows: str) -> Case:
    said = f"{NOW} ERROR [Errno 2] No such file or directory: '{GONE}/.a1.tmp'\n"
    looks = (probes.walk(f"{GONE}/.a1.tmp"), WALK), (LOOK, "\n".join(rows))
    above = probes.rows(GONE), f"ls: cannot access '{GONE}': No such file or directory\n"
    return case(*looks, above, said=said)


def test_a_folder_that_was_in_use_comes_back_from_where_it_was_put_away() -> None:
    fix = best(absent.absent(put("1794772900.5 /srv/_attic/shop-x7/2026"))).fix
    assert fix[0] == f"mv /srv/_attic/shop-x7 {GONE}"


def test_what_is_old_or_used_or_a_copy_or_not_the_only_one_stays() -> None:
    for rows in (
        ("1794600000.5 /srv/_attic/shop-x7",),
        ("1794772900.5 /srv/ledger/objects",),
        ("1794772900.5 /var/backups/shop-1114",),
        ("1794772900.5 /opt/shop/run",),
        ("1794772900.5 /srv/_attic/shop-x7", "1794772800.5 /srv/old-objects"),
        ("1794772900.5 /srv/_attic/workshop-x7",),
        ("1794772900.5 /srv/shop/items",),  # where a service of that name is at home
    ):
        assert not any("/srv/" in " ".join(one.fix) or "/var/b" in " ".join(one.fix)
                       for one in absent.absent(put(*rows)))  # fmt: skip


def test_it_is_looked_for_where_copies_lie() -> None:
    wants = [want for idea in absent.absent(put()) for want in idea.wants]
    assert LOOK not in wants
    said = f"{NOW} ERROR [Errno 2] No such file or directory: '{GONE}/.a1.tmp'\n"
    bare = case((probes.walk(f"{GONE}/.a1.tmp"), WALK), said=said)
    assert LOOK in [want for idea in absent.absent(bare) for want in idea.wants]


def test_nothing_is_taken_for_put_away_before_the_settings_were_read() -> None:
    machine, path = put("1794772900.5 /srv/_attic/shop-x7/2026"), f"{GONE}/.a1.tmp"
    settings = probes.show("/opt/shop/etc/shop.json")
    less = [one for one in machine.observed if one.command != settings]
    unread = Case(machine.brief, less)
    assert aside.put_away(machine, "shop", path) == [("/srv/_attic/shop-x7", GONE)]
    assert aside.put_away(unread, "shop", path) == []
    assert aside.wants(unread, "shop", path) == (settings,)
