"""A runtime that watches: real commands through the gate, alerts over the network, restarts."""

import asyncio
import base64
import hashlib
import hmac
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from hermes_agent.cli.mcp.serve.server import _listen
from hermes_agent.core import events as ev
from hermes_agent.core.gateway import Chat
from hermes_agent.core.incidents import Incident, Signal, WatchedCheck
from hermes_agent.core.settings.root import WatchSettings
from hermes_agent.core.skills import Check, Expectation
from hermes_agent.host.http_listener import MAX_PARALLEL, LimitedHttpProtocol, _bound
from hermes_agent.incidents.monitoring.runner import ENTER_SECONDS
from hermes_agent.runtime.api.app import build_app, runtime_status
from hermes_agent.runtime.runtime import Runtime
from tests.incidents.test_alert_formats import ALERTMANAGER, GRAFANA, PAGERDUTY
from tests.support.awake_loop import stand_still
from tests.support.patience import PATIENCE
from tests.support.runtime_fixture import RuntimeFixture, open_runtime, until

TOKEN = "a-token-that-nobody-guesses"


def write(folder: Path, text: str, name: str = "a.yaml") -> None:
    checks = folder / "home" / "checks"
    checks.mkdir(parents=True, exist_ok=True)
    (checks / name).write_text(text)


async def first(here: RuntimeFixture, count: int = 1) -> list[Incident]:
    """The incidents, oldest first, once there are so many."""
    store = here.runtime.context.store.incidents

    async def there() -> bool:
        return len(await store.incidents()) >= count

    await until(there)
    return list(reversed(await store.incidents()))


def check(run: str, **more: Any) -> WatchedCheck:
    expect = more.pop("expect", Expectation())
    return WatchedCheck("x", Check(run, expect, more.pop("timeout", None)), **more)


OUTCOMES = [
    (check("echo fine"), ""),
    (check("echo fine; exit 3", expect=Expectation(None, "^fine$")), ""),
    (check("echo broken; exit 3"), "exit code 3, not 0\nbroken"),
    (check("echo broken >&2", expect=Expectation(no_output="brok")), "its output contains 'brok'"),
    (check("echo a", expect=Expectation(output="b")), "its output does not contain 'b'"),
    (check("sleep 60", timeout=0.3), "it took longer than 0.3 s"),
    (check("rm -rf /srv/x"), "needs approval, which is not possible"),
    (check("true", terminal="nowhere"), "no terminal called 'nowhere'"),
    (check("kill -9 $$"), "needs approval"),
]


async def test_a_check_comes_to_something_whatever_happens(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as here:
        runs = [here.runtime.incidents.run_check(what) for what, _ in OUTCOMES]
        outcomes = await asyncio.gather(*runs)
        for (what, said), outcome in zip(OUTCOMES, outcomes, strict=True):
            assert outcome.ok is (not said), what
            assert said in outcome.detail
            assert outcome.refused is ("approval" in said or "terminal" in said), what
        left = here.runtime.context.home.terminals
        assert not left.exists() or list(left.glob("check-*")) == []


async def test_no_terminal_is_blamed_for_a_time_in_which_everything_stood_still(
    tmp_path: Path,
) -> None:
    begun = tmp_path / "begun"
    async with open_runtime(tmp_path, policy="sandbox") as here:
        what = check(f"touch {begun}; echo fine", timeout=2.0)
        running = asyncio.create_task(here.runtime.incidents.run_check(what))
        await until(lambda: asyncio.to_thread(begun.exists))
        time.sleep(4.0)  # noqa: ASYNC251  # everything stands still
        stand_still(10 * ENTER_SECONDS)
        outcome = await running
    assert (outcome.ok, outcome.detail) == (True, "")


async def test_a_check_has_a_shell_of_its_own_each_time(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, policy="sandbox") as here:
        run = here.runtime.incidents.run_check
        assert (await run(check("export X=1; cd /; touch /tmp/../tmp; true"))).ok
        assert (await run(check('test -z "$X" && test "$PWD" != /'))).ok


async def test_a_rule_may_be_about_checks_alone(tmp_path: Path) -> None:
    rules = tmp_path / "home" / "policies"
    rules.mkdir(parents=True)
    (rules / "mine.yaml").write_text(
        "version: 1\nname: mine\nrules:\n"
        "  - {id: probe, match: {program: touch, actor: job}, then: allow, reason: ours}\n"
        "  - {id: here, match: {access: write, program: touch, actor: job}, then: allow,"
        " reason: ours}\n"
    )
    async with open_runtime(tmp_path) as here:
        assert (await here.runtime.incidents.run_check(check("touch probe"))).ok


async def test_a_log_is_read_only_where_the_gate_lets_it_be(tmp_path: Path) -> None:
    rules = tmp_path / "home" / "policies"
    rules.mkdir(parents=True)
    (rules / "mine.yaml").write_text(
        "version: 1\nname: mine\nrules:\n"
        "  - {id: private, match: {access: read, path: /**/private.log, actor: job}, then: deny,"
        " reason: not for jobs}\n"
    )
    open_log, private = tmp_path / "open.log", tmp_path / "private.log"
    for path in (open_log, private):
        path.touch()
        pattern = f"name: {path.stem}\nlog: {{path: {path}, pattern: bad}}\n"
        write(tmp_path, pattern, f"{path.stem}.yaml")
    async with open_runtime(tmp_path) as here:
        (incident,) = await first(here)
        assert incident.title == "private: the log of private cannot be read"
        assert "not for jobs" in here.runtime.incidents.troubles[0]

        async def followed() -> bool:
            return bool(await here.runtime.context.store.incidents.log_cursors())

        await until(followed)
        for path in (private, open_log):
            path.write_text("bad\n")
        assert (await first(here, 2))[1].title == f"open: open found in {open_log}"
        places = await here.runtime.context.store.incidents.log_cursors()
        assert [place.path for place in places] == [str(open_log)]


async def test_a_failing_check_is_declared_and_told_while_others_go_on(tmp_path: Path) -> None:
    well = "- {name: well, run: 'true', every: 1}\n"
    write(tmp_path, f"{well}- {{name: web, service: shop, run: 'false', after: 1, owner: ann}}")
    write(tmp_path, "{name: broken", "b.yaml")
    async with open_runtime(tmp_path) as here:
        (incident,) = await first(here)
        assert (incident.title, incident.owner) == ("shop: the check web fails", "ann")
        log = tmp_path / "home" / "incidents" / "notices.log"

        async def told() -> bool:
            return log.exists() and "[inc-1/declared/1]" in log.read_text()

        await until(told)
        status = (await runtime_status(here.runtime))["watch"]
        assert (status["checks"], status["failing"]) == (2, ["web"])
        assert "checks/b.yaml:2:1:" in status["troubles"][0]
        assert await here.runtime.is_in_use()


async def test_whoever_listens_hears_of_it(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as here:
        with here.runtime.context.bus.listen() as listener:
            write(tmp_path, "{name: web, run: 'false', after: 1}")
            text = ""
            async with asyncio.timeout(PATIENCE):
                while "DECLARED:" not in text:
                    heard = await listener.next()
                    assert heard is not None
                    text = heard.event.text if isinstance(heard.event, ev.NoticeIssued) else ""


async def failures(here: RuntimeFixture) -> int:
    return sum(one.failures for one in await here.runtime.context.store.incidents.check_states())


async def test_nothing_is_declared_again_after_a_restart(tmp_path: Path) -> None:
    write(tmp_path, "{name: web, run: 'false', after: 1, every: 1}")
    for wanted in (1, 2):
        async with open_runtime(tmp_path) as here:
            assert len(await first(here)) == 1

            async def failed(wanted: int = wanted, here: RuntimeFixture = here) -> bool:
                return await failures(here) >= wanted

            await until(failed)
            notices = await here.runtime.context.store.incidents.notices()
            declared = [one for one in notices if one.kind == "declared"]
            assert [one.channel for one in declared] == ["terminal", "log"]
    log = tmp_path / "home" / "incidents" / "notices.log"
    assert log.read_text().count("[inc-1/declared/1]") == 1


async def test_a_home_without_checks_makes_nothing_of_it(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as here:
        assert not here.runtime.incidents.busy
        assert "scheduler" not in vars(here.runtime.incidents)
        assert (await runtime_status(here.runtime))["watch"]["checks"] == 0


# routes


@asynccontextmanager
async def api(here: RuntimeFixture) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(build_app(here.runtime, lambda: None))
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        yield client


async def test_a_person_declares_looks_and_closes(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as here, api(here) as client:
        body = {"title": "the shop is slow", "service": "shop", "severity": "P1"}
        declared = (await client.post("/v1/incidents", json=body)).json()
        assert (declared["id"], declared["severity"]) == ("inc-1", "P1")
        again = (await client.post("/v1/incidents", json=body)).json()
        assert (again["id"], again["signals"]) == ("inc-1", 2)
        whole = (await client.get("/v1/incidents/inc-1")).json()
        assert whole["timeline"][0]["kind"] == "declared"
        assert {one["channel"] for one in whole["notices"]} >= {"terminal", "log"}
        assert (
            await client.post("/v1/incidents/inc-1/close", json={"why": " "})
        ).status_code == 400
        closed = await client.post(
            "/v1/incidents/inc-1/close", json={"why": "planned", "by": "ann"}
        )
        assert closed.json()["state"] == "closed"
        twice = await client.post("/v1/incidents/inc-1/close", json={"why": "x"})
        assert "is closed already" in twice.json()["error"]
        (row,) = (await client.get("/v1/incidents", params={"open": "false"})).json()
        assert row["id"] == "inc-1"
        assert (await client.get("/v1/incidents", params={"open": "true"})).json() == []
        assert (await client.get("/v1/incidents/inc-9")).status_code == 404
        assert (await client.post("/v1/incidents", json={"title": ""})).status_code == 400


async def test_the_timeline_is_waited_for(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as here, api(here) as client:
        await client.post("/v1/incidents", json={"title": "slow"})
        params: dict[str, Any] = {"after": 10_000, "wait": 0.3}
        found = (await client.get("/v1/incidents/inc-1/timeline", params=params)).json()
        assert found["timeline"] == []
        found = (await client.get("/v1/incidents/inc-1/timeline", params={"wait": 5})).json()
        assert found["timeline"][0]["number"] == 1


async def test_alerts_of_others_become_incidents(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as here, api(here) as client:
        senders = {"alertmanager": ALERTMANAGER, "grafana": GRAFANA, "pagerduty": PAGERDUTY}
        for number, (kind, body) in enumerate(senders.items(), 1):
            taken = await client.post(f"/v1/signals/{kind}", json=body)
            assert taken.status_code == 202
            await client.post(f"/v1/signals/{kind}", json=body)
            incidents = await here.runtime.context.store.incidents.incidents()
            assert [one.source for one in incidents] == list(senders)[:number][::-1]
            bad = await client.post(f"/v1/signals/{kind}", content=b"{")
            assert (bad.status_code, bool(bad.json()["hint"])) == (400, True)


async def test_a_drill_raises_a_signal_with_its_terminal(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as here, api(here) as client:
        body = {
            "title": "slow", "service": "shop", "source": "drill", "terminal": "drill-1",
            "policy": "drill", "check": {"name": "c", "check": {"run": "true"}},
        }  # fmt: skip
        assert (await client.post("/v1/signals", json=body)).json()["new"]
        incident = await here.runtime.context.store.incidents.incident("inc-1")
        assert (incident.source, incident.terminal, incident.policy) == (
            "drill", "drill-1", "drill"
        )  # fmt: skip
        assert incident.checks[0].check.run == "true"
        notices = await here.runtime.context.store.incidents.notices()
        assert {one.channel for one in notices} == {"terminal", "log"}


async def test_what_is_raised_while_the_store_is_asked_for_work_is_not_forgotten(
    tmp_path: Path,
) -> None:
    async with open_runtime(tmp_path) as here:
        service = here.runtime.incidents
        service._store_checked = False  # as at the start
        asking = asyncio.ensure_future(service._is_wanted())
        await asyncio.sleep(0)
        assert not asking.done()
        service.wake()
        assert await asking


async def test_a_setting_that_is_changed_counts_without_a_restart(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path / "home", {})
    await runtime.start()
    try:
        text = json.dumps({"watch": {"listen": "127.0.0.1:0", "token": "X"}})
        (tmp_path / "home" / "config.yaml").write_text(text)

        async def told() -> bool:
            return bool(runtime.incidents.troubles)

        await until(told)
        assert "no secret called 'X'" in runtime.incidents.troubles[0]
    finally:
        await runtime.stop()


# the network


@asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[tuple[RuntimeFixture, httpx.AsyncClient]]:
    (folder / "home").mkdir(parents=True, exist_ok=True)
    secrets = folder / "home" / ".env"
    secrets.write_text(f"ALERT_TOKEN={TOKEN}\n")
    secrets.chmod(0o600)
    watch = WatchSettings(listen="127.0.0.1:0", token="ALERT_TOKEN")
    async with open_runtime(folder, watch=watch) as here:
        server = here.runtime.incidents

        async def up() -> bool:
            return bool(server.listener.address)

        await until(up)
        url = f"http://{server.listener.address}"
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as client:
            yield here, client


async def test_alerts_are_taken_over_the_network_from_those_who_know_the_token(
    tmp_path: Path,
) -> None:
    async with listening(tmp_path) as (here, client):
        basic = base64.b64encode(f"hermes:{TOKEN}".encode()).decode()
        wrong = [{"Authorization": words} for words in ("Bearer wrong", TOKEN, "Basic x", "")]
        for header in ({}, *wrong, {"X-PagerDuty-Signature": "v1=00"}):
            refused = await client.post(
                "/v1/signals/alertmanager", json=ALERTMANAGER, headers=header
            )
            assert refused.status_code == 401
        assert await here.runtime.context.store.incidents.incidents() == []
        for place, header in enumerate((f"Bearer {TOKEN}", f"Basic {basic}")):
            taken = await client.post(
                "/v1/signals/alertmanager", json=ALERTMANAGER, headers={"Authorization": header}
            )
            assert (taken.status_code, taken.json()["taken"][0]["new"]) == (202, place == 0)
        body = json.dumps(PAGERDUTY).encode()
        signed = hmac.new(TOKEN.encode(), body, hashlib.sha256).hexdigest()
        taken = await client.post(
            "/v1/signals/pagerduty", content=body,
            headers={"X-PagerDuty-Signature": f"v1=aa,v1={signed}"},
        )  # fmt: skip
        assert taken.status_code == 202
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        own = await client.post("/v1/signals", json={"title": "cron failed"}, headers=bearer)
        assert own.json()["new"]
        assert (await runtime_status(here.runtime))["watch"][
            "listening"
        ] == here.runtime.incidents.listener.address


async def test_nothing_else_is_open_to_the_network(tmp_path: Path) -> None:
    async with listening(tmp_path) as (_here, client):
        headers = {"Authorization": f"Bearer {TOKEN}"}
        for method, path in (("GET", "/v1/status"), ("POST", "/v1/messages"),
                             ("GET", "/v1/incidents"), ("POST", "/v1/stop")):  # fmt: skip
            assert (await client.request(method, path, headers=headers)).status_code == 404
        evil = {"title": "x", "check": {"name": "c", "check": {"run": "id"}}}
        refused = await client.post("/v1/signals", json=evil, headers=headers)
        assert refused.status_code == 400
        large = await client.post("/v1/signals/grafana", content=b" " * 1_100_000, headers=headers)
        assert large.status_code == 413
        many = await client.post(
            "/v1/signals/grafana", json={"alerts": [{}] * 501}, headers=headers
        )
        assert (many.status_code, "501 alerts" in many.json()["error"]) == (413, True)
        bad = await client.post("/v1/signals/grafana", content=b"[]", headers=headers)
        assert (bad.status_code, "not a valid grafana message" in bad.json()["error"]) == (
            400,
            True,
        )


UNFINISHED = (
    b"POST /v1/signals HTTP/1.1\r\nHost: x\r\nX-PagerDuty-Signature: v1=00\r\n"
    b"Content-Length: 9\r\n\r\n1"
)


async def test_a_crowd_that_says_nothing_makes_room_for_those_who_ask(tmp_path: Path) -> None:
    unfinished = (
        b"",
        b"POST /v1/signals HTTP/1.1\r\nHost:",
        UNFINISHED,
    )
    async with listening(tmp_path) as (here, client):
        host, _, port = here.runtime.incidents.listener.address.rpartition(":")
        headers = {"Authorization": f"Bearer {TOKEN}", "Connection": "close"}
        with ExitStack() as crowd:
            for start in unfinished:
                for _ in range(MAX_PARALLEL + 1):
                    one = crowd.enter_context(socket.create_connection((host, int(port)), PATIENCE))
                    one.sendall(start)
                taken = await client.post("/v1/signals", json={"title": "disk"}, headers=headers)
                assert taken.status_code == 202, start


async def test_an_answer_is_sent_at_once_and_not_held_back_for_more() -> None:
    accepted: asyncio.Future[socket.socket]

    class Seen(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.set_result(transport.get_extra_info("socket"))

    for listening in (_bound("127.0.0.1:0"), _listen("127.0.0.1", 0)):
        accepted = asyncio.get_running_loop().create_future()
        server = await asyncio.get_running_loop().create_server(Seen, sock=listening)
        async with server:
            with socket.create_connection(listening.getsockname(), PATIENCE):
                assert (await accepted).getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def _hears(connection: socket.socket) -> bytes:
    """What somebody hears who is hung up on."""
    with suppress(ConnectionResetError):
        return connection.recv(1)
    return b""


async def test_a_request_that_never_comes_is_not_waited_for() -> None:
    class Hasty(LimitedHttpProtocol):
        patience = 0.05

    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        raise AssertionError

    config = uvicorn.Config(app, log_config=None, lifespan="off")
    config.load()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Hasty(config, ServerState(), {}), "127.0.0.1", 0)
    async with server:
        with socket.create_connection(server.sockets[0].getsockname(), PATIENCE) as slow:
            slow.sendall(b"POST /v1/signals HTTP/1.1\r\nHost:")
            assert await asyncio.to_thread(_hears, slow) == b""


async def test_strangers_do_not_learn_why_no_alerts_are_taken(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".env").write_text(f"ALERT_TOKEN={TOKEN}\n")
    (home / ".env").chmod(0o600)
    (home / "config.yaml").write_text("watch: {listen: '127.0.0.1:0', token: ALERT_TOKEN}")
    runtime = Runtime(home, {})
    await runtime.start()
    try:

        async def up() -> bool:
            return bool(runtime.incidents.listener.address)

        await until(up)
        (home / ".env").write_text("")
        runtime.context.refresh_settings()
        url = f"http://{runtime.incidents.listener.address}/v1/signals"
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            refused = await client.post(url, json={"title": "x"})
        assert (refused.status_code, "ALERT_TOKEN" in refused.text) == (503, False)
        assert "ALERT_TOKEN" in runtime.incidents.troubles[0]
    finally:
        await runtime.stop()


async def test_nobody_outside_speaks_for_a_check(tmp_path: Path) -> None:
    async with listening(tmp_path) as (here, client):
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        said = {"title": "web", "fingerprint": "check:web"}
        await client.post("/v1/signals", json=said, headers=bearer)
        (incident,) = await here.runtime.context.store.incidents.incidents()
        assert incident.fingerprint == "person:check:web"


@pytest.mark.parametrize(
    ("watch", "said"),
    [
        (WatchSettings(listen="127.0.0.1:0"), "watch.token is not set"),
        (WatchSettings(listen="127.0.0.1:0", token="NO_TOKEN"), "no secret called 'NO_TOKEN'"),
        (WatchSettings(listen="nonsense", token="ALERT_TOKEN"), "not a valid address: 'nonsense'"),
        (WatchSettings(listen="127.0.0.1:99999", token="ALERT_TOKEN"), "not a valid address"),
    ],
)
async def test_what_keeps_it_from_listening_is_said(
    tmp_path: Path, watch: WatchSettings, said: str
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".env").write_text(f"ALERT_TOKEN={TOKEN}\n")
    (tmp_path / "home" / ".env").chmod(0o600)
    async with open_runtime(tmp_path, watch=watch) as here:

        async def told() -> bool:
            return bool(here.runtime.incidents.troubles)

        await until(told)
        assert said in here.runtime.incidents.troubles[0]


async def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".env").write_text(f"ALERT_TOKEN={TOKEN}\n")
    (tmp_path / "home" / ".env").chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as other:
        watch = WatchSettings(listen=f"127.0.0.1:{other.getsockname()[1]}", token="ALERT_TOKEN")
        async with open_runtime(tmp_path, watch=watch) as here:

            async def told() -> bool:
                return bool(here.runtime.incidents.troubles)

            await until(told)
            assert "cannot listen on" in here.runtime.incidents.troubles[0]


async def test_the_team_hears_of_it_by_the_gateway_once(tmp_path: Path) -> None:
    watch = WatchSettings(notify=("ntfy:ops", "ntfy", "nowhere"))
    channels = {"ntfy": {"topic": "ops", "home": "ops"}}
    async with open_runtime(tmp_path, watch=watch, channels=channels) as here:
        incidents, ledger = here.runtime.incidents, here.runtime.context.store.gateway
        await incidents.intake.raise_signal(Signal("person", "p:1", "shop is down", "shop"))

        async def told() -> bool:
            return bool(await ledger.deliveries(key="incident/"))

        await until(told)
        await incidents.notices.send_due()
        (delivery,) = await ledger.deliveries(key="incident/")
        assert delivery.outgoing.chat == Chat("ntfy", "ops")
        assert delivery.outgoing.kind == "notice"
        assert delivery.outgoing.text.startswith("P2 DECLARED: shop is down, ")
        errors = [
            one.error for one in await here.runtime.context.store.incidents.notices() if one.error
        ]
        assert errors == ["no channel called 'nowhere'"]
