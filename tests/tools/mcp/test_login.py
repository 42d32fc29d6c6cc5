"""Logging in to a server, staying logged in, and no longer being so."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hermes_agent.core.errors import ToolError, UsageError
from hermes_agent.core.settings.root import McpServerSettings
from hermes_agent.core.text.addresses import classify
from hermes_agent.tools.mcp.transports.opening import log_in
from tests.support.mcp_servers import Door, guarded, over_http
from tests.support.patience import PATIENCE
from tests.tools.mcp.conftest import Desk


class Browser:
    """Follows an address to where that sends it, and tries another page there first."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def show(self, address: str, _paste: Callable[[str], bool]) -> None:
        self.seen.append(address)
        threading.Thread(target=self._visit, args=(address,), daemon=True).start()

    def _visit(self, address: str) -> None:
        with httpx.Client(timeout=PATIENCE) as client:
            back = client.get(address).headers["location"]
            assert urlsplit(back).hostname == "127.0.0.1"
            client.get(back.replace("callback", "elsewhere"))
            client.get(back)


async def signed_in(desk: Desk, url: str, show: Callable[..., None]) -> None:
    desk.settings["kept"] = McpServerSettings(url=url, oauth=True)
    await log_in("kept", desk.settings["kept"], desk.servers.world, show, PATIENCE)


def token_file(desk: Desk) -> Path:
    return desk.servers.world.token_file("kept")


async def test_a_login_in_the_browser_lets_calls_through_and_is_kept_in_private(
    desk: Desk,
) -> None:
    door = Door(lambda: desk.now)
    with guarded(door) as url:
        browser = Browser()
        await signed_in(desk, url, browser.show)
        assert "code_challenge_method=S256" in browser.seen[0]
        assert "psst" in (await desk.call("kept__whisper", words="psst")).text
        assert token_file(desk).stat().st_mode & 0o777 == 0o600
        assert token_file(desk).parent.stat().st_mode & 0o777 == 0o700


async def test_the_address_that_the_browser_ends_at_can_be_pasted(desk: Desk) -> None:
    door = Door(lambda: desk.now)

    def show(address: str, paste: Callable[[str], bool]) -> None:
        with httpx.Client(timeout=PATIENCE) as client:
            back = client.get(address).headers["location"]
        assert not paste("good day")
        assert paste(back + "\n")
        assert not paste(back)

    with guarded(door) as url:
        await signed_in(desk, url, show)
        assert "psst" in (await desk.call("kept__whisper", words="psst")).text


async def test_a_token_that_has_ended_is_renewed_by_the_next_runtime(desk: Desk) -> None:
    door = Door(lambda: desk.now, lasts=3600)
    with guarded(door) as url:
        await signed_in(desk, url, Browser().show)
        desk.now += 4_000
        assert "psst" in (await desk.call("kept__whisper", words="psst")).text
        assert door.renewals == 1
        await desk.servers.close()
        desk.opened.insert(0, desk.open())
        assert "psst" in (await desk.call("kept__whisper", words="psst")).text
        assert door.renewals == 1


async def test_a_token_that_ends_while_connected_is_renewed(desk: Desk) -> None:
    door = Door(time.time, lasts=1)
    with guarded(door) as url:
        desk.now = time.time()
        await signed_in(desk, url, Browser().show)
        assert "psst" in (await desk.call("kept__whisper", words="psst")).text
        door.access.clear()
        while time.time() < desk.now + 1.1:
            await desk.servers.search("")
        assert "psst" in (await desk.call("kept__whisper", words="psst")).text
        assert door.renewals >= 1


async def test_a_token_that_is_refused_before_its_time_is_renewed(desk: Desk) -> None:
    door = Door(lambda: desk.now)
    with guarded(door) as url:
        await signed_in(desk, url, Browser().show)
        assert "psst" in (await desk.call("kept__whisper", words="psst")).text
        door.access.clear()
        assert "psst" in (await desk.call("kept__whisper", words="psst")).text
        assert door.renewals == 1


async def test_a_login_that_is_over_says_how_to_get_another(desk: Desk) -> None:
    door = Door(lambda: desk.now)
    with guarded(door) as url:
        await signed_in(desk, url, Browser().show)
        door.access.clear()
        door.refresh.clear()
        with pytest.raises(ToolError, match="kept requires a login"):
            await desk.call("kept__whisper", words="psst")
        desk.now += 60
        await signed_in(desk, url, Browser().show)
        assert "psst" in (await desk.call("kept__whisper", words="psst")).text


async def test_a_login_that_the_user_refuses_is_told(desk: Desk) -> None:
    door = Door(lambda: desk.now)
    door.deny = True
    with guarded(door) as url:
        with pytest.raises(UsageError, match="the login was refused: access_denied"):
            await signed_in(desk, url, Browser().show)
        assert not token_file(desk).exists() or b"access_token" not in token_file(desk).read_bytes()


def misleading(elsewhere: str, step: str) -> Starlette:
    """A server that, at some step of the login, sends us to an address of its choice."""
    app = Starlette()

    def answer(request: Request) -> Response:
        own, path = str(request.base_url), request.url.path
        if path == "/mcp":
            named = (
                f"{elsewhere if step == 'resource' else own}.well-known/oauth-protected-resource"
            )
            told = {"www-authenticate": f'Bearer resource_metadata="{named}"'}
            return Response(status_code=401, headers=told)
        if "protected-resource" in path:
            issuer = elsewhere if step == "issuer" else own
            return JSONResponse({"resource": f"{own}mcp", "authorization_servers": [issuer]})
        return JSONResponse(
            {
                "issuer": own,
                "authorization_endpoint": f"{own}authorize",
                "token_endpoint": f"{own}token",
                "registration_endpoint": f"{elsewhere}register",
                "response_types_supported": ["code"],
            }
        )

    app.add_route("/{path:path}", answer, methods=["GET", "POST", "DELETE"])
    return app


@pytest.mark.parametrize("step", ["resource", "issuer", "registration"])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_server_cannot_send_us_to_an_address_of_this_machine(
    desk: Desk, step: str, scheme: str
) -> None:
    reached: list[str] = []
    neighbour = Starlette()

    def note(request: Request) -> Response:
        reached.append(request.url.path)
        return Response(status_code=404)

    neighbour.add_route("/{path:path}", note, methods=["GET", "POST"])
    with over_http(neighbour) as other:
        elsewhere = f"{scheme}://localhost:{urlsplit(other).port}/"
        with (
            over_http(misleading(elsewhere, step)) as own,
            pytest.raises(ToolError, match="kept redirects to ") as caught,
        ):
            await signed_in(desk, f"{own}/mcp", Browser().show)
    assert elsewhere.rstrip("/") in caught.value.message
    assert "public https address" in caught.value.hint
    assert reached == []


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("64:ff9b::808:808", True),
        ("127.0.0.1", False),
        ("10.0.0.1", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fd00::1", False),
        ("fe80::1%2", False),
        ("::ffff:127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
    ],
)
def test_an_address_is_public_or_not_however_it_is_written(address: str, public: bool) -> None:
    assert (classify(address) == "public") == public


async def test_tokens_go_to_the_address_they_were_given_for_and_to_no_other(desk: Desk) -> None:
    door = Door(lambda: desk.now)
    with guarded(door) as url, guarded(door) as other:
        await signed_in(desk, url, Browser().show)
        desk.settings["kept"] = McpServerSettings(url=other, oauth=True)
        with pytest.raises(ToolError, match="kept requires a login"):
            await desk.call("kept__whisper", words="psst")
