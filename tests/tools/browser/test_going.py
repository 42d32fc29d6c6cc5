"""Where the browser goes, and where it does not."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.errors import ToolError
from hermes_agent.core.messages import Reply, ToolCall
from hermes_agent.core.settings.root import BrowserSettings
from hermes_agent.models.scripted import ScriptedModel
from hermes_agent.tools.browser.tools import browser
from tests.support.awake_loop import no_time, pass_time
from tests.support.pages import Asked, Page, Session, Site, goes_to, html, ref
from tests.support.patience import PATIENCE
from tests.support.turns import bench

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITED = BrowserSettings(timeout_seconds=900)


async def test_one_goes_back_and_forward_and_reloads(served: Site, here: Session) -> None:
    await here.open(served.add("/one", "<h1>One</h1>"))
    await here.open(served.add("/two", "<h1>Two</h1>"))
    assert 'heading "One"' in (await here.look("back")).text
    assert 'heading "Two"' in (await here.look("forward")).text
    with pytest.raises(ToolError, match="nothing to go forward to"):
        await here.look("forward")
    served.add("/two", "<h1>New</h1>")
    assert 'heading "New"' in (await here.look("reload")).text


async def test_the_first_page_has_nothing_behind_it(served: Site, here: Session) -> None:
    await here.look("close")
    await here.open(served.add("/first", "<h1>First</h1>"))
    await here.look("back")
    with pytest.raises(ToolError, match="nothing to go back to"):
        await here.look("back")


async def test_scrolling_goes_to_things_and_by_pages(served: Site, here: Session) -> None:
    tall = "<button>Top</button><div style='height:5000px'></div><button>End</button>"
    page = await here.open(served.add("/scroll", tall))

    async def top() -> float:
        answer = await here.act("evaluate", text="scrollY")
        return float(answer.text.partition("value: ")[2].partition("\n")[0])

    await here.look("scroll", ref=ref(page, 'button "End"'))
    end = await top()
    assert end > 3000
    await here.look("scroll", text="up")
    assert 0 < await top() < end
    await here.look("scroll", text="top")
    assert await top() == 0
    await here.look("scroll", text="bottom")
    assert await top() >= end
    with pytest.raises(ToolError, match="cannot scroll 'sideways'"):
        await here.look("scroll", text="sideways")


async def test_a_page_that_opens_a_tab_is_told_and_the_tab_can_be_entered(
    served: Site, here: Session
) -> None:
    served.add(
        "/popup", html("<h1>Popup</h1><button onclick='window.close()'>Bye</button>", "Popup")
    )
    page = await here.open(
        served.add("/opener", "<a href=/popup target=_blank rel=opener>Open</a>")
    )
    clicked = await here.act("click", ref(page, 'link "Open"'))
    name = clicked.text.partition("opened tab ")[2].partition(":")[0]
    assert clicked.data["url"] == served.url("/opener")
    listed = await here.look("tabs")
    assert f"{name}: {served.url('')}" in listed.text
    inside = await here.look("tab", ref=name)
    assert 'heading "Popup"' in inside.text
    with pytest.raises(ToolError, match="is on another tab"):
        await here.act("click", ref(page, 'link "Open"'))
    gone = await here.act("click", ref(inside, 'button "Bye"'))
    assert "the page closed itself" in gone.text
    assert gone.data["url"] == served.url("/opener")
    await here.act("click", ref(page, 'link "Open"'))
    other = next(reversed(here.browser.tabs))
    await here.look("close", ref=other)
    assert other not in (await here.look("tabs")).text
    with pytest.raises(ToolError, match="no tab 't99'"):
        await here.look("tab", ref="t99")


async def test_a_window_with_a_dialog_holds_nobody_up(served: Site, here: Session) -> None:
    served.add("/loud", "<script>alert('from the popup')</script>")
    page = await here.open(
        served.add("/quiet", "<button onclick='window.open(`/loud`)'>Open</button>")
    )
    clicked = await here.act("click", ref(page, 'button "Open"'))
    if "from the popup" not in clicked.text:
        async with asyncio.timeout(PATIENCE):
            while "from the popup" not in (await here.look("snapshot")).text:
                pass
    await here.act("accept_dialog")
    assert 'button "Open"' in (await here.look("snapshot")).text
    await here.look("close")


async def test_a_page_of_a_private_address_is_refused(served: Site, here: Session) -> None:
    for url in ("http://10.1.2.3/", "http://127.0.0.2/", "http://169.254.169.254/latest",
                "https://192.168.0.1/", "http://[::1]/", "http://0x7f.2/"):  # fmt: skip
        with pytest.raises(ToolError, match="addresses are refused"):
            await here.open(url)


async def test_a_redirect_to_a_private_address_is_refused(served: Site, here: Session) -> None:
    for number, goal in enumerate(("http://127.0.0.2/", "https://10.0.0.1/admin")):
        url = served.add(f"/away{number}", goes_to(goal))
        with pytest.raises(ToolError, match=r"cannot connect to '1.*addresses are refused"):
            await here.open(url)


async def test_what_a_page_itself_asks_of_a_private_address_is_refused_and_told(
    served: Site, here: Session
) -> None:
    other = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.3", 0)
    port = other.sockets[0].getsockname()[1]
    script = f"""<p id=o></p><script>
      fetch('http://127.0.0.3:{port}/', {{mode: 'no-cors'}}).catch(() => 0);
      const s = new WebSocket('ws://127.0.0.3:{port}/');
      s.onerror = () => o.textContent = 'socket failed'</script>"""
    result = await here.open(served.add("/sneaky", script))
    assert (
        "not loaded: cannot connect to '127.0.0.3': loopback addresses are refused" in result.text
    )
    assert "socket failed" in (await here.look("wait", text="socket failed", seconds=60)).text
    again = await here.look("snapshot")
    assert "not loaded" not in again.text
    other.close()


def allowing(here: Session, *hosts: str) -> Session:
    """The same session in a call that may reach these hosts."""
    return replace(here, allowed=frozenset(hosts))


async def test_each_call_goes_where_it_may_itself(served: Site, here: Session) -> None:
    await here.look("close")
    one, two = allowing(here, "127.0.0.1"), allowing(here, "localhost")
    served.add("/one", "<h1>One</h1>")
    served.add("/two", "<h1>Two</h1>")
    assert 'heading "One"' in (await one.open(served.url("/one"))).text
    assert 'heading "Two"' in (await two.open(served.url("/two", "localhost"))).text
    with pytest.raises(ToolError, match="loopback addresses are refused"):
        await two.open(served.url("/one"))
    with pytest.raises(ToolError, match="loopback addresses are refused"):
        await one.open(served.url("/two", "localhost"))


async def test_an_open_page_keeps_its_server_and_loses_it_when_another_is_opened(
    served: Site, here: Session
) -> None:
    one, two, none = (allowing(here, *hosts) for hosts in (["127.0.0.1"], ["localhost"], []))
    served.add("/away", goes_to(served.url("/kept")))
    await one.open(served.add("/kept", "<h1>Kept</h1>"))
    served.add("/kept", "<h1>New</h1>")
    assert 'heading "New"' in (await none.look("reload")).text
    assert 'heading "New"' in (await none.open(served.url("/kept"))).text
    with pytest.raises(ToolError, match="loopback addresses are refused"):
        await none.open(served.url("/kept", "localhost"))
    await one.open(served.url("/kept"))
    served.add("/other", "<h1>Other</h1>")
    await two.open(served.url("/other", "localhost"))
    with pytest.raises(ToolError, match=r"cannot connect to '127\.0\.0\.1'"):
        await two.open(served.url("/away", "localhost"))


async def test_nothing_goes_past_the_proxy_by_webrtc(served: Site, here: Session) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind(("127.0.0.1", 0))
        ear.setblocking(False)
        await here.open(served.add("/rtc", "<p>rtc</p>"))
        script = f"""(async () => {{
          const url = 'stun:127.0.0.1:{ear.getsockname()[1]}';
          const peer = new RTCPeerConnection({{iceServers: [{{urls: url}}]}});
          peer.createDataChannel('x');
          await peer.setLocalDescription(await peer.createOffer());
          await new Promise(done => {{
            peer.onicegatheringstatechange = () => peer.iceGatheringState === 'complete' && done();
          }});
          return peer.localDescription.sdp.includes('a=candidate') }})()"""
        answer = await here.act("evaluate", text=script)
        assert "value: false" in answer.text
        with pytest.raises(BlockingIOError):
            ear.recv(100)


async def test_a_name_that_nobody_knows_is_said_so(here: Session) -> None:
    for url in ("http://nowhere.test/", "https://nowhere.test/", "nowhere.test"):
        with pytest.raises(ToolError, match=r"cannot find 'nowhere\.test'"):
            await here.open(url)


async def test_a_server_that_is_not_there_is_said_so(here: Session) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(ToolError, match=r"cannot connect to '127\.0\.0\.1'"):
            await here.open(f"http://127.0.0.1:{port}/")


async def test_an_error_of_the_site_itself_is_shown_as_its_page(
    served: Site, here: Session
) -> None:
    page = Page(b"<h1>Forbidden by the site</h1>", status="403 Forbidden")
    assert "Forbidden by the site" in (await here.open(served.add("/403", page))).text


async def test_a_page_that_does_not_answer_is_given_up(served: Site, here: Session) -> None:
    asked = asyncio.Event()

    async def silent(_asked: Asked) -> Page:
        asked.set()
        return await asyncio.get_running_loop().create_future()

    impatient = Session(here.terminal, here.results, keep=here.keep, settings=LIMITED)
    opening = asyncio.create_task(impatient.open(served.add("/silent", silent)))
    async with asyncio.timeout(PATIENCE):
        await asked.wait()
    # No more than that: then the page is probed, and may take its time.
    await pass_time(900.0, steps=20_000)
    with no_time(), pytest.raises(ToolError, match="longer than 900 seconds") as late:
        await opening
    assert late.value.retry == "same"
    assert 'heading "Fine"' in (await here.open(served.add("/fine", "<h1>Fine</h1>"))).text


async def test_a_page_that_hangs_is_left_for_a_new_one(served: Site, here: Session) -> None:
    clicked = asyncio.Event()

    async def heard(_asked: Asked) -> Page:
        clicked.set()
        return Page(b"")

    served.add("/clicked", heard)
    hang = "const r = new XMLHttpRequest(); r.open(`GET`, `/clicked`, false); r.send(); for(;;);"
    page = await here.open(served.add("/hang", f"<button onclick='{hang}'>Hang</button>"))
    impatient = Session(here.terminal, here.results, keep=here.keep, settings=LIMITED)
    click = asyncio.create_task(impatient.act("click", ref(page, 'button "Hang"')))
    async with asyncio.timeout(PATIENCE):
        await clicked.wait()
    await pass_time(950.0)
    with pytest.raises(ToolError, match="the page hangs"):
        await click
    with pytest.raises(ToolError, match="the page crashed"):
        await here.look("snapshot")
    assert 'heading "Alive"' in (await here.open(served.add("/alive", "<h1>Alive</h1>"))).text


async def test_two_calls_at_once_take_turns(served: Site, here: Session) -> None:
    page = await here.open(served.add("/twice", "<button onclick='o.append(1)'>B</button><p id=o>"))
    button = ref(page, 'button "B"')
    await asyncio.gather(*(here.act("click", button) for _ in range(3)))
    assert "text: 1 1 1" in (await here.look("snapshot")).text


async def test_calls_of_one_reply_run_in_their_order_and_each_of_them(
    served: Site, here: Session, tmp_path: Path
) -> None:
    await here.look("close")
    url = served.add("/tall", "<div style='height:9000px'></div>")
    down = ToolCall.of("down", "browser", action="scroll", text="down")
    calls = [
        ToolCall.of("open", "browser", action="open", url=url),
        down,
        msgspec.structs.replace(down, id="again"),
        ToolCall.of("tabs", "browser", action="tabs"),
    ]
    model = ScriptedModel(Reply("", tuple(calls), stop="calls"), Reply("ok"))
    async with bench(tmp_path, model, tools=[browser]) as b:
        b.services = here.context().services
        await b.say("go")
        finished = await b.events(ev.CallFinished)
    assert [event.call_id for event in finished if event.ok] == ["open", "down", "again", "tabs"]
    top = await here.act("evaluate", text="scrollY / innerHeight")
    assert float(top.text.partition("value: ")[2].partition("\n")[0]) > 1


async def test_a_look_that_a_crash_cut_off_is_taken_again(here: Session) -> None:
    assert not browser.repeatable
    assert browser.recover is not None
    given = browser.arguments({"action": "snapshot"})
    assert await browser.recover(here.context(), {}, **given) == "not-run"
