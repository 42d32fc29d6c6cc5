"""Ways back to a former release, over what commands printed once."""

from hermes_agent.models.responder.brief import Brief, BriefCheck
from hermes_agent.models.responder.rules import former
from hermes_agent.models.responder.rules.clock import clock
from hermes_agent.models.responder.rules.ideas import ACT, Idea
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

NOW = 1794772992
SITE = "/etc/nginx/sites-enabled/shop.conf"
STATUS = """\
nginx                            RUNNING   pid 5, uptime 0:01:10
shop-blue                        RUNNING   pid 8, uptime 0:01:10
shop-green                       RUNNING   pid 9, uptime 0:01:10
"""
PROGRAMS = """\
==> /etc/supervisor/conf.d/nginx.conf <==
[program:nginx]
command=nginx

==> /etc/supervisor/conf.d/shop-blue.conf <==
[program:shop-blue]
command=python3 /srv/shop/shop.py --port 8001 --clock-file /var/lib/shop/clock
stdout_logfile=/var/log/shop-blue.out

==> /etc/supervisor/conf.d/shop-green.conf <==
[program:shop-green]
command=python3 /srv/shop-green/r12/shop.py --port 8002
stdout_logfile=/var/log/shop-green.out
"""
LISTENERS = """\
LISTEN 0 64 127.0.0.1:8001 0.0.0.0:* users:(("python3",pid=8,fd=3))
LISTEN 0 64 127.0.0.1:8002 0.0.0.0:* users:(("python3",pid=9,fd=3))
"""
ERROR = "2026-11-15 20:03:10 ERROR TypeError: step() takes 1 argument\n"


def case(service: str, **seen: str) -> Case:
    shown = {
        probes.CLOCK: f"{NOW} 2026-11-15 20:03:12 UTC +0000",
        probes.STATUS: STATUS,
        probes.PROGRAMS: PROGRAMS,
        probes.LISTENERS: LISTENERS,
        **seen,
    }
    brief = Brief("inc-1", service=service, check=BriefCheck("c", "curl x", "500", 22, False))
    return Case(brief, [Seen(command, text) for command, text in shown.items()])


def best(machine: Case) -> Idea:
    found = [idea for idea in former.former(machine) if idea.fix]
    return max(found, key=lambda idea: idea.score)


def routed(site: str) -> Case:
    return case("nginx", **{
        probes.show("/etc/nginx/nginx.conf"): "http {\n include /etc/nginx/sites-enabled/*;\n}\n",
        probes.shown("/etc/nginx/sites-enabled/*"): f"==> {SITE} <==\n{site}",
        probes.CHANGED: f"90 {NOW - 60}.0 root {SITE}\n",
        probes.copies(SITE): "",
    })  # fmt: skip


def test_traffic_is_led_back_to_the_instance_that_had_it() -> None:
    found = best(routed("upstream shop_live { server 127.0.0.1:8002; }\n"))
    assert found.component == "shop-green"
    assert "server 127.0.0.1:8001;" in found.fix[1]


def test_a_group_of_servers_is_left_for_the_one_before() -> None:
    both = "upstream blue {\n    server a;\n}\nupstream green {\n    server b;\n}\n"
    found = best(routed(f"{both}server {{\n    proxy_pass http://green;\n}}\n"))
    assert "proxy_pass http://blue;" in found.fix[1]


def test_what_was_unpacked_is_taken_from_the_archive_before() -> None:
    folder, archives = "/srv/shop-green/r12", "/var/backups/shop-green-{}.tar.gz"
    old, new = archives.format("1.9"), archives.format("1.10")
    machine = case("shop-green", **{
        probes.tail("/var/log/shop-green.out"): ERROR,
        "tail -v -n 12 /var/log/releases.log": (
            "==> /var/log/releases.log <==\n2026-11-15 20:01 shop-green 1.10 installed\n"
        ),
        probes.LOG_FILES: f"50 {NOW - 90}.0 root /var/log/releases.log\n",
        former.ARCHIVES: f"9 1.0 root {old}\n9 2.0 root {new}\n",
        former.listed(old): "shop-1.9/shop.py\nshop-1.9/shop.ini\n",
        former.compared(old, "shop-1.9/shop.py", f"{folder}/shop.py"): "< a\n> b\n",
    })  # fmt: skip
    found = best(machine)
    assert f"tar xf {old} -C " in found.fix[1]
    assert found.fix[3].endswith(f"cp -a --parents -t {folder} -- shop.py")


def test_what_a_wheel_put_in_place_is_taken_from_the_wheel_before() -> None:
    folder, wheels = "/srv/shop-green/r12", "/srv/wheels/shop-green-{}-py3-none-any.whl"
    old, new = wheels.format("1.9"), wheels.format("1.10")
    machine = case("shop-green", **{
        probes.tail("/var/log/shop-green.out"): ERROR,
        former.ARCHIVES: f"9 1.0 root {old}\n9 2.0 root {new}\n",
        former.listed(new): "shop.py\nshop-1.10.dist-info/RECORD\n",
        former.compared(new, "shop.py", f"{folder}/shop.py"): "",
        former.listed(old): "shop.py\nshop-1.9.dist-info/RECORD\n",
        former.compared(old, "shop.py", f"{folder}/shop.py"): "< a\n> b\n",
    })  # fmt: skip
    found = best(machine)
    assert f" ] && unzip -oq {old} -d " in found.fix[1]
    assert found.fix[3].endswith(f"cp -a --parents -t {folder} -- shop.py")


def test_a_file_that_says_the_number_of_a_release_says_the_one_before() -> None:
    listed = "".join(
        f"drwxr-xr-x 2 root root 60 2026-1{n}-01 10:00:00.0 +0000 r1{n}\n" for n in (1, 2)
    )
    machine = case("shop-green", **{
        probes.PROCESSES: "  9  1 root S 0 0.0 900 70 python3 /srv/shop-green/r12/shop.py\n",
        probes.tail("/var/log/shop-green.out"): ERROR,
        probes.rows("/srv/shop-green"): listed,
        former.tellers("/srv/shop-green", "r12"): "/srv/shop-green/CURRENT:1:r12\n",
    })  # fmt: skip
    assert "s|r12|r11|" in best(machine).fix[1]


def test_which_release_a_file_says_counts_more_where_it_was_written_lately() -> None:
    listed = "".join(
        f"drwxr-xr-x 2 root root 60 2026-1{n}-01 10:00:00.0 +0000 r1{n}\n" for n in (1, 2)
    )
    teller = "/srv/shop-green/run.properties"

    def sure(changed: str) -> bool:
        machine = case("shop-green", **{
            probes.PROCESSES: "  9  1 root S 0 0.0 900 70 python3 /srv/shop-green/r12/shop.py\n",
            probes.rows("/srv/shop-green"): listed,
            probes.CHANGED: f"36 {NOW - 90}.0 root {changed}\n",
            former.tellers("/srv/shop-green", "r12"): f"{teller}:1:app.release=r12\n",
        })  # fmt: skip
        return best(machine).score >= ACT

    assert sure(teller)
    assert not sure("/srv/shop-green/other.properties")


def test_names_that_only_begin_alike_are_no_family() -> None:
    assert former.family("shop-green") == former.family("shop-blue") == "shop"
    assert former.family("carta") == "carta"


def test_a_file_that_shifts_the_clock_says_nothing_any_more() -> None:
    shown = {probes.show("/var/lib/shop/clock"): "-7200\n"}
    found = [idea for idea in clock(case("shop-blue", **shown)) if idea.fix]
    assert found[0].locus == "/var/lib/shop/clock"
    assert not [idea for idea in clock(case("shop-blue", **{
        probes.show("/var/lib/shop/clock"): "0\n",
    })) if idea.fix]  # fmt: skip


def test_that_somebody_hung_up_is_no_fault_of_a_release() -> None:
    assert former._is_of_code("KeyError: 'price'")
    assert not former._is_of_code("BrokenPipeError: [Errno 32] Broken pipe")
