"""Feeds and calendars, as servers give them."""

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.web.calendar import calendar
from hermes_agent.tools.web.documents.worker import read_apart
from hermes_agent.tools.web.feed import read_feed
from tests.support.web_server import Surfer, page

RSS = """<?xml version="1.0"?><rss version="2.0"><channel><title>Releases</title>
<item><!-- first --><title>1.0</title><link>https://shop.example/1.0</link>
<pubDate>Tue, 17 Nov 2026 08:00:00 GMT</pubDate>
<description>&lt;p&gt;First&lt;/p&gt;</description></item>
<item><title>1.1</title><link>https://shop.example/1.1</link>
<pubDate>Thu, 19 Nov 2026 08:00:00 GMT</pubDate></item></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><entry><title>Outage</title>
<link rel="self" href="https://x/self"/><link href="https://status.example/7"/>
<updated>2026-11-18T03:12:00Z</updated><summary>All is well again</summary></entry></feed>"""
ENTITIES = """<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<rss><channel><item><title>&a;</title></item></channel></rss>"""
TEAM = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//test//EN
BEGIN:VEVENT
UID:1
DTSTART:20261102T090000Z
DTEND:20261102T093000Z
RRULE:FREQ=WEEKLY
EXDATE:20261116T090000Z
SUMMARY:On-call handover
LOCATION:Room 3
END:VEVENT
BEGIN:VEVENT
UID:2
DTSTART;VALUE=DATE:20261120
SUMMARY:Freeze
STATUS:CANCELLED
END:VEVENT
BEGIN:VEVENT
UID:3
DTSTART;TZID=Pacific/Kiritimati:20261126T003000
SUMMARY:Still yesterday here
END:VEVENT
END:VCALENDAR
""".replace("\n", "\r\n")


def put(surfer: Surfer, text: str) -> str:
    surfer.site.pages["/it"] = page(text, "text/plain")
    return f"{surfer.site.root}/it"


async def test_a_feed_is_told_newest_first(surfer: Surfer) -> None:
    result = await surfer.call(read_feed, url=put(surfer, RSS))
    assert result.text.index("https://shop.example/1.1") < result.text.index("1.0")
    assert "First" in result.text
    later = await surfer.call(read_feed, url=put(surfer, RSS), since="2026-11-18T00:00Z")
    assert later.data == {"entries": 1}


async def test_an_atom_feed_is_read_with_the_address_of_the_page(surfer: Surfer) -> None:
    result = await surfer.call(read_feed, url=put(surfer, ATOM))
    assert "Outage" in result.text
    assert "https://status.example/7" in result.text


async def test_what_is_no_feed_and_files_of_this_machine_are_not_read(surfer: Surfer) -> None:
    with pytest.raises(ToolError, match="is no feed"):
        await surfer.call(read_feed, url=put(surfer, "hello"))
    assert "root:" not in (await surfer.call(read_feed, url=put(surfer, ENTITIES))).text


async def test_events_recur_and_can_be_cancelled(surfer: Surfer) -> None:
    result = await surfer.call(calendar, url=put(surfer, TEAM), start="2026-11-09", days=14)
    assert result.data == {"events": 2}
    assert "Mon 2026-11-09" in result.text
    assert "On-call handover (Room 3)" in result.text
    assert "Fri 2026-11-20 all day  Freeze CANCELLED" in result.text
    day = await surfer.call(calendar, url=put(surfer, TEAM), start="2026-11-25", days=1)
    assert "Wed 2026-11-25" in day.text
    with pytest.raises(ToolError, match="it is no calendar"):
        await surfer.call(calendar, url=put(surfer, "hello"))


@pytest.mark.parametrize(
    "broken", ["SUMMARY:No start", "DTSTART:soon", "DTSTART:20261109\nRRULE:FREQ=X"]
)
async def test_an_event_without_a_time_does_not_hide_the_others(
    surfer: Surfer, broken: str
) -> None:
    event = f"BEGIN:VEVENT\nUID:9\n{broken}\nEND:VEVENT\nEND:VCALENDAR".replace("\n", "\r\n")
    url = put(surfer, TEAM.replace("END:VCALENDAR", event))
    result = await surfer.call(calendar, url=url, start="2026-11-09", days=14)
    assert result.data == {"events": 2}
    assert "[1 events have no time that can be read]" in result.text


async def test_a_calendar_that_never_ends_is_given_up() -> None:
    """An invitation from anybody may recur each second."""
    forever = TEAM.replace("FREQ=WEEKLY", "FREQ=SECONDLY").encode()
    asked = ("calendar:read", forever, "it", "2026-11-09", 370)
    with pytest.raises(ToolError, match="took longer than 3 s to read"):
        await read_apart(*asked, seconds=3.0)
