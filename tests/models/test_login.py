"""Signing in with a code, against a real authorization server that lives by the test's clock."""

import asyncio
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import time as real_time

import pytest

from hermes_agent.core.errors import ModelError
from hermes_agent.core.settings.services import DeviceLogin
from hermes_agent.models.catalogue.services import SERVICES
from hermes_agent.models.keys.login import LoginContext, Token, claims, log_in, post_by_http, renew
from hermes_agent.models.keys.tokens import (
    LoginSource,
    forget_token,
    save_token,
    stored_token,
)
from hermes_agent.models.wires.base import Credential
from tests.support.oauth_server import OAuthServer, jwt
from tests.support.patience import PATIENCE


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def server(time: Time) -> Iterator[OAuthServer]:
    with OAuthServer(time.clock) as running:
        yield running


class Person:
    """Sees the code."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []

    def see(self, code: str, url: str) -> None:
        self.shown.append((code, url))


def signing(time: Time, person: Person | None = None) -> LoginContext:
    show = (person or Person()).see
    return LoginContext(post_by_http, show, time.clock, time.sleep, os.urandom)


async def test_a_login_shows_the_code_and_waits_until_it_is_confirmed(
    server: OAuthServer, time: Time
) -> None:
    server.approve_at, person = 3, Person()
    token = await log_in("test", server.login(scope="a b"), signing(time, person))
    assert person.shown == [("ABCD-0001", f"{server.url}/activate?code=ABCD-0001")]
    assert (token.access, token.refresh) == ("access-2", "refresh-3")
    assert token.expires == time.now + 3600
    assert server.requests[0].fields["scope"] == "a b"
    assert time.slept == [5, 5, 5]


async def test_a_login_proves_that_the_same_client_asks(server: OAuthServer, time: Time) -> None:
    await log_in("test", server.login(proof=True), signing(time))
    begun, asked = server.requests
    assert begun.fields["code_challenge_method"] == "S256"
    assert 43 <= len(asked.fields["code_verifier"]) <= 128


async def test_without_a_named_pause_the_client_waits_five_seconds(
    server: OAuthServer, time: Time
) -> None:
    server.says_interval, server.approve_at = False, 2
    await log_in("test", server.login(), signing(time))
    assert time.slept == [5, 5]


async def test_a_client_that_is_told_to_slow_down_waits_five_seconds_more_for_good(
    server: OAuthServer, time: Time
) -> None:
    server.slow_down_at, server.approve_at = 2, 4
    await log_in("test", server.login(), signing(time))
    assert time.slept == [5, 5, 10, 10]


async def test_errors_under_status_200_are_understood_as_errors(
    server: OAuthServer, time: Time
) -> None:
    server.status_of_errors, server.approve_at = 200, 2
    assert (await log_in("test", server.login(), signing(time))).access


async def test_a_refusal_in_the_browser_ends_the_login(server: OAuthServer, time: Time) -> None:
    server.deny = True
    with pytest.raises(ModelError, match="refused in the browser") as caught:
        await log_in("test", server.login(), signing(time))
    assert caught.value.kind == "auth"


async def test_a_code_that_nobody_confirms_ends_when_the_service_says_so(
    server: OAuthServer, time: Time
) -> None:
    server.approve_at, server.lasts = None, 30
    with pytest.raises(ModelError, match="was not confirmed"):
        await log_in("test", server.login(), signing(time))


async def test_a_service_that_says_only_that_it_waits_is_given_up_after_its_own_time(
    time: Time,
) -> None:
    with OAuthServer(lambda: 0.0, approve_at=None, interval=0, lasts=60) as frozen:
        with pytest.raises(ModelError, match="was not confirmed"):
            await log_in("test", frozen.login(), signing(time))
        assert time.now == 1_000_060


@pytest.mark.parametrize("failure", ["cut", "garbage", 503, 429, 500])
async def test_trouble_on_the_way_is_waited_out_with_growing_pauses(
    server: OAuthServer, time: Time, failure: str
) -> None:
    server.failures.extend([failure, failure])  # type: ignore[list-item]  # the parameter's type
    token = await log_in("test", server.login(), signing(time))
    assert token.access
    assert time.slept == [5, 10, 20]


async def test_a_service_that_cannot_be_reached_at_first_says_so_at_once(time: Time) -> None:
    with OAuthServer(time.clock) as gone:
        login = gone.login()
    with pytest.raises(ModelError) as caught:
        await log_in("test", login, signing(time))
    assert caught.value.kind == "unreachable"
    assert time.slept == []


async def test_an_unknown_client_is_told_what_the_service_said(
    server: OAuthServer, time: Time
) -> None:
    login = DeviceLogin(f"{server.url}/device", f"{server.url}/token", "somebody else")
    with pytest.raises(ModelError, match="invalid_client"):
        await log_in("test", login, signing(time))


async def test_a_login_can_be_cancelled_while_it_waits(server: OAuthServer, time: Time) -> None:
    server.approve_at = None
    waiting = asyncio.Event()

    async def wait_for_good(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    world = LoginContext(post_by_http, Person().see, time.clock, wait_for_good, os.urandom)
    login = asyncio.create_task(log_in("test", server.login(), world))
    await waiting.wait()
    login.cancel()
    with pytest.raises(asyncio.CancelledError):
        await login


async def test_openais_own_flow_ends_with_a_token_and_the_account(
    server: OAuthServer, time: Time
) -> None:
    server.approve_at, person = 3, Person()
    token = await log_in("codex", server.codex_login(), signing(time, person))
    assert person.shown == [("WXYZ-0001", f"{server.url}/codex/device")]
    assert token.account == "account-1"
    assert token.expires == time.now + 7200
    renewed = await renew("codex", server.codex_login(), token, post_by_http, time.clock)
    assert renewed.account == "account-1"
    assert renewed.access != token.access


async def test_renewing_takes_the_new_token_and_keeps_the_old_where_none_came(
    server: OAuthServer, time: Time
) -> None:
    login = server.login()
    first = Token("access-0", server.granted(), time.now)
    second = await renew("test", login, first, post_by_http, time.clock)
    assert second.refresh not in ("", first.refresh)
    server.rotate = False
    third = await renew("test", login, second, post_by_http, time.clock)
    assert third.refresh == second.refresh
    with pytest.raises(ModelError, match="has expired"):
        await renew("test", login, first, post_by_http, time.clock)


async def test_a_service_may_want_the_renewing_token_in_a_header(
    server: OAuthServer, time: Time
) -> None:
    login = server.login(header="x-renew")
    await renew("test", login, Token("a", server.granted()), post_by_http, time.clock)
    assert server.renewals == 1
    assert "refresh_token" not in server.requests[-1].fields


def test_a_web_token_says_what_it_holds_and_anything_else_says_nothing() -> None:
    assert claims(jwt({"exp": 5})) == {"exp": 5}
    for other in ("", "opaque", "a.b", "a.!!.c", "a.bnVsbA.c", "é.é.é"):
        assert claims(other) == {}


# kept tokens


@pytest.fixture
def learned() -> list[tuple[str, str]]:
    return []


def source(
    server: OAuthServer, home: Path, time: Time, learned: list[tuple[str, str]]
) -> LoginSource:
    def learn(label: str, secret: str) -> None:
        learned.append((label, secret))

    return LoginSource("test", server.login(), home, learn, time.clock)


def test_a_kept_token_is_for_the_user_alone(tmp_path: Path) -> None:
    save_token(tmp_path, "test", Token("access", "refresh", 5.0, "me"))
    file = tmp_path / "credentials" / "test.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stored_token(tmp_path, "test") == Token("access", "refresh", 5.0, "me")
    assert [p.name for p in file.parent.iterdir()] == ["test.json"]
    assert forget_token(tmp_path, "test")
    assert not forget_token(tmp_path, "test")
    assert stored_token(tmp_path, "test") is None


def test_a_token_shows_no_secret() -> None:
    token = Token("access-secret", "refresh-secret", 5.0)
    assert "secret" not in f"{token} {token!r}"


async def test_a_good_token_is_used_as_it_is(
    server: OAuthServer, tmp_path: Path, time: Time, learned: list[tuple[str, str]]
) -> None:
    save_token(tmp_path, "test", Token("access-0", "refresh-0", time.now + 600, "me"))
    found = await source(server, tmp_path, time, learned).credential()
    assert found == Credential("access-0", id="me", label="the login of test")
    assert server.requests == []
    assert {secret for _, secret in learned} == {"access-0", "refresh-0"}


async def test_a_token_is_renewed_before_it_expires_and_kept(
    server: OAuthServer, tmp_path: Path, time: Time, learned: list[tuple[str, str]]
) -> None:
    save_token(tmp_path, "test", Token("access-0", server.granted(), time.now + 60))
    found = await source(server, tmp_path, time, learned).credential()
    kept = stored_token(tmp_path, "test")
    assert kept is not None
    assert found.secret == kept.access != "access-0"
    assert {kept.access, kept.refresh} <= {secret for _, secret in learned}


async def test_a_refused_token_is_renewed_though_it_looks_good(
    server: OAuthServer, tmp_path: Path, time: Time, learned: list[tuple[str, str]]
) -> None:
    save_token(tmp_path, "test", Token("access-0", server.granted()))
    login = source(server, tmp_path, time, learned)
    first = await login.credential()
    login.refused()
    assert (await login.credential()).secret != first.secret
    assert server.renewals == 1


async def test_many_who_ask_at_once_renew_once(
    server: OAuthServer, tmp_path: Path, time: Time, learned: list[tuple[str, str]]
) -> None:
    save_token(tmp_path, "test", Token("access-0", server.granted(), time.now))
    several = [source(server, tmp_path, time, learned) for _ in range(3)]
    found = await asyncio.gather(*[login.credential() for login in several for _ in range(4)])
    assert len({credential.secret for credential in found}) == 1
    assert server.renewals == 1


RENEWER = """
import asyncio, sys
from pathlib import Path
from time import time
from hermes_agent.core.settings.services import DeviceLogin
from hermes_agent.models.keys.tokens import LoginSource

home, url, client = sys.argv[1:]
login = DeviceLogin(url + "/device", url + "/token", client)
source = LoginSource("test", login, Path(home), lambda label, secret: None, time)
print((asyncio.run(source.credential())).secret)
"""


def test_processes_that_renew_at_once_renew_once(tmp_path: Path) -> None:
    with OAuthServer(real_time) as server:
        save_token(tmp_path, "test", Token("access-0", server.granted(), 1.0))
        command = [sys.executable, "-c", RENEWER, str(tmp_path), server.url, server.login().client]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        said = {process.communicate(timeout=PATIENCE)[0] for process in running}
    assert len(said) == 1
    assert server.renewals == 1


async def test_whoever_gives_up_waiting_does_not_lose_the_new_token(
    server: OAuthServer, tmp_path: Path, time: Time, learned: list[tuple[str, str]]
) -> None:
    save_token(tmp_path, "test", Token("access-0", server.granted(), time.now))
    server.hold = threading.Event()
    login = source(server, tmp_path, time, learned)
    asking = asyncio.create_task(login.credential())
    assert await asyncio.to_thread(server.arrived.wait, PATIENCE)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    server.hold.set()
    found = await login.credential()
    assert server.renewals == 1
    kept = stored_token(tmp_path, "test")
    assert kept is not None
    assert kept.access == found.secret != "access-0"


async def test_a_token_that_is_still_good_outlives_trouble_with_its_renewal(
    server: OAuthServer, tmp_path: Path, time: Time, learned: list[tuple[str, str]]
) -> None:
    save_token(tmp_path, "test", Token("access-0", server.granted(), time.now + 60))
    login = source(server, tmp_path, time, learned)
    server.failures.append(503)
    assert (await login.credential()).secret == "access-0"
    time.now += 61
    server.failures.append(503)
    with pytest.raises(ModelError) as caught:
        await login.credential()
    assert caught.value.passing
    assert (await login.credential()).secret != "access-0"


async def test_a_login_that_is_over_says_how_to_begin_again_and_asks_no_more(
    server: OAuthServer, tmp_path: Path, time: Time, learned: list[tuple[str, str]]
) -> None:
    save_token(tmp_path, "test", Token("access-0", "refresh-taken-back", time.now))
    login = source(server, tmp_path, time, learned)
    for _ in range(2):
        with pytest.raises(ModelError) as caught:
            await login.credential()
        assert caught.value.kind == "auth"
        assert caught.value.hint == "hermes model login test"
        assert "refresh-taken-back" not in str(caught.value)
    assert len(server.requests) == 1
    save_token(tmp_path, "test", Token("access-1", "", time.now + 900))
    assert (await login.credential()).secret == "access-1"


async def test_a_damaged_or_missing_login_says_how_to_log_in(
    server: OAuthServer, tmp_path: Path, time: Time, learned: list[tuple[str, str]]
) -> None:
    login = source(server, tmp_path, time, learned)
    assert not login.present()
    with pytest.raises(ModelError, match="not logged in"):
        await login.credential()
    save_token(tmp_path, "test", Token("access-0"))
    (tmp_path / "credentials" / "test.json").write_text('{"access": "secret-but-cut')
    with pytest.raises(ModelError, match="damaged") as caught:
        await login.credential()
    assert "secret-but-cut" not in str(caught.value)


def test_every_known_login_goes_over_tls() -> None:
    logins = {name: service.login for name, service in SERVICES.items() if service.login}
    assert {"nous", "xai", "codex"} == logins.keys()
    for login in logins.values():
        assert login.device_url.startswith("https://")
        assert login.token_url.startswith("https://")
        assert login.client
