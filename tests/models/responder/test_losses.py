"""What a remedy would lose, and copies of a page that a job keeps; over what commands printed."""

from msgspec.structs import replace

from hermes_agent.models.responder.brief import BriefService
from hermes_agent.models.responder.rules import crowds, inodes, losses, room, shelves
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from tests.models.responder.test_rules_room import ENTRY, FULL, NOW, case

AGAIN = Idea("unknown", "depot", "it does not work", 0.9, fix=("supervisorctl restart depot",))
EMPTY = FULL.replace("100%", "12%")


def about(text: str, **more: str) -> Case:
    known = case({probes.SPACE: EMPTY, **more})
    return Case(replace(known.brief, services=(BriefService("depot", (), text),)), known.observed)


def test_who_has_work_of_people_in_memory_is_not_started_anew() -> None:
    for text in (
        "holds bookings in memory until they are fetched", "messages that wait are not stored",
        "what is queued is lost at a restart", "in-memory queue of letters; port 7400",
        "the nightly totals; must not be stopped", "an interruption costs all of it",
    ):  # fmt: skip
        assert losses.lost(about(text), AGAIN), text
    for text in (
        "keeps values in memory, port 7400", "a warm index in memory, as big as it is to be",
        "a cache of orders in memory", "does jobs", "renders what is in /vol/queue",
    ):  # fmt: skip
        assert not losses.lost(about(text), AGAIN), text
    entry = ENTRY.replace("--data=/vol/live", "--config /etc/depot.conf")
    remark = {
        probes.PROGRAMS: entry,
        probes.show("/etc/depot.conf"): "# jobs wait in memory only\nport=7400\n",
    }
    assert losses.lost(about("", **remark), AGAIN)
    assert not losses.lost(about("", **remark), replace(AGAIN, fix=("kill -HUP 7",)))


def test_who_could_not_come_up_again_is_not_started_anew() -> None:
    full = case({})
    assert "/vol" in losses.lost(full, AGAIN)
    assert not losses.lost(full, replace(AGAIN, category="disk-full"))
    assert not losses.lost(case({probes.SPACE: EMPTY}), AGAIN)
    down = case({probes.STATUS: "depot                            FATAL     Exited too quickly"})
    assert not losses.lost(down, AGAIN)


def test_copies_of_a_page_are_moved_and_no_more_are_kept() -> None:
    folder, table = "/vol/live", "/etc/cron.d/warm"
    filled = f"Filesystem Inodes IUsed IFree IUse% Mounted on\ntmpfs 1400 1400 0 100% {'/vol'}"
    seen = dict.fromkeys((*crowds.looks(folder, "/vol"), shelves.look(folder)), "") | {
        probes.SPACE: EMPTY, probes.INODES: filled, probes.OPEN_FILES: "", room.links("/vol"): "",
        room.crowds("/vol"): "1400 /vol\n1300 /vol/live\n50 /vol/small",
        crowds.sorted_out(folder): f"1290 0 {NOW}1 f||feed.xml.|# feed.xml.7\n9 0 {NOW}1 f|||.db a",
        probes.names_in(folder): "feed.xml.7", probes.JOBS: "",
    }  # fmt: skip
    fetch = "7 * * * * app cd /vol/live && wget -q http://127.0.0.1/a/feed.xml"
    for row, kept in (
        (fetch, True), (fetch.replace("-q", "-qO-"), False), (f"# {fetch}", False),
        (fetch.replace("feed", "news"), False), (fetch.replace("-q", "-q --spider"), False),
    ):  # fmt: skip
        for look, text in (
            (probes.mentions(crowds.FETCHES), f"{table}:3:{row}"),
            (probes.JOBS, f"==> {table} <==\n{row}"),
        ):
            told = {**seen, probes.mentions(crowds.FETCHES): "", look: text}
            found = [one for one in inodes.no_inodes(case(told)) if one.fix]
            best = max(found, key=lambda one: one.score, default=AGAIN)
            fix = " ".join(best.fix)
            assert ("wget -O /dev/null" in fix) is kept, row
            assert ("'feed.xml.[0-9]*'" in fix) is kept, row
    used = f"==> {table} <==\n{fetch} && /opt/load feed.xml"
    told = {**seen, probes.mentions(crowds.FETCHES): "", probes.JOBS: used}
    fixes = [fix for one in inodes.no_inodes(case(told)) for fix in one.fix]
    assert fixes
    assert not any("-O /dev/null" in fix for fix in fixes)
