"""The gateway as a whole: channels come and go with the settings, and what is wrong is said."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from hermes_agent.cli.manage.gateway.command import status_lines
from hermes_agent.core.gateway import Chat, InboundMessage, NewDelivery, OutboundMessage, Person
from hermes_agent.gateway.channel import ChannelContext, Manifest, SettingField, Settings
from hermes_agent.gateway.gateway import Gateway
from hermes_agent.gateway.registry import ChannelRegistry
from hermes_agent.runtime import doctor
from hermes_agent.runtime.api.app import build_app, runtime_status
from hermes_agent.runtime.runtime import Runtime
from hermes_agent.runtime.services import Domains
from tests.support.awake_loop import no_time
from tests.support.fake_time import until
from tests.support.loop_channel import LoopChannel, manifest
from tests.support.loop_platform import LoopPlatform
from tests.support.patience import PATIENCE

SECRET = SettingField("token", "what it is let in with", secret=True, required=True)


def make(settings: Settings, surroundings: ChannelContext) -> "CalledChannel":
    return CalledChannel(settings, surroundings)


class CalledChannel(LoopChannel):
    """One that is called by the door, too."""

    async def called(self, request: Request, rest: str) -> Response:
        return Response(f"{request.method} {rest}")


def book() -> ChannelRegistry:
    lacking = replace(manifest("lacking"), packages=("no_such_package",))
    secret = manifest("secret", fields=(*manifest("x").fields, SECRET))
    called = replace(manifest("called"), module=__name__)
    plain = [manifest(name) for name in ("alpha", "beta")]
    return ChannelRegistry({one.name: one for one in (*plain, lacking, secret, called)})


class Desk:
    def __init__(self, home: Path, platform: LoopPlatform) -> None:
        self.home = home
        self.platform = platform
        self.gateway: Gateway
        self.runtime: Runtime
        script = home.parent / "echo.json"
        script.write_text(
            json.dumps({"turns": [{"when": "", "replies": [{"say": "You said ", "echo": True}]}]})
        )
        self.config: dict[str, Any] = {
            "model": f"scripted/{script}",
            "gateway": {"probe_seconds": 60.0, "restarts": 1},
        }

    def set(self, **channels: dict[str, Any]) -> None:
        draft = self.home / "config.new"
        draft.write_text(json.dumps({**self.config, "channels": channels}))
        draft.replace(self.home / "config.yaml")

    def account(self, name: str, **more: Any) -> dict[str, Any]:
        return self.platform.settings(name, allow=["p1"], **more)

    async def becomes(self, channel: str, state: str) -> dict[str, Any]:
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            shown = (await self.gateway.status())["channels"].get(channel, {})
            if shown.get("state") == state:
                return dict(shown)
            assert asyncio.get_running_loop().time() < deadline, shown
            await asyncio.sleep(0.01)

    async def dead_letters(self, channel: str) -> int:
        """The number of a message that could not be dealt with; nobody looks for new ones
        meanwhile, and deals with it."""
        arrived = InboundMessage("m", Chat(channel, "c1"), Person("p1"), "aside")
        with no_time():
            kept = await self.gateway.ledger.add_inbound(arrived)
            assert kept is not None
            await self.gateway.ledger.dealt(kept.number, "dead", "it failed")
        return kept.number

    async def hears(self, account: str, chat: str, text: str) -> None:
        await until(lambda: text in self.platform.texts(account, chat), f"{text!r}")


@asynccontextmanager
async def desk(
    tmp_path: Path, *channels: str, made_of: ChannelRegistry | None = None
) -> AsyncIterator[Desk]:
    home = tmp_path / "home"
    home.mkdir()
    async with LoopPlatform() as platform:
        one = Desk(home, platform)
        one.set(**{name: one.account(name) for name in channels})

        def face(domains: Domains) -> Gateway:
            one.gateway = Gateway(domains, registry=made_of or book())
            return one.gateway

        one.runtime = runtime = Runtime(home, {}, services=(face,))
        await runtime.start()
        try:
            yield one
        finally:
            await runtime.stop()


async def test_a_message_is_answered_and_the_runtime_stays_awake_for_more(tmp_path: Path) -> None:
    async with desk(tmp_path, "alpha") as one:
        one.platform.say("alpha", "c1", "hello")
        await one.hears("alpha", "c1", "You said hello")
        assert one.gateway.busy
        while (shown := await one.becomes("alpha", "up"))["waiting"]:
            await asyncio.sleep(0.01)
        assert (shown["new"], shown["dead"]) == (0, 0)


async def test_channels_follow_the_settings_without_a_restart(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        assert await one.gateway.status() == {"channels": {}}
        assert not one.gateway.busy
        one.set(alpha=one.account("alpha"), beta=one.account("beta"))
        await one.becomes("alpha", "up")
        await one.becomes("beta", "up")
        first, kept = one.gateway.channel("alpha"), one.gateway.channel("beta")
        one.set(alpha=one.account("alpha", colour="red"), beta=one.account("beta", home="c9"))
        await until(lambda: one.gateway.channel("alpha") not in (None, first))
        assert one.gateway.channel("beta") is kept
        one.set(beta=one.account("beta", enabled=False))
        await until(lambda: not one.gateway.busy)
        assert one.gateway.channel("alpha") is None


async def test_what_a_channel_lacks_is_said_and_the_others_go_on(tmp_path: Path) -> None:
    async with desk(tmp_path, "alpha", "lacking", "unheard") as one:
        one.set(
            alpha=one.account("alpha"),
            beta={"account": "beta"},
            lacking=one.account("lacking"),
            secret=one.account("secret", token="NO_SUCH_TOKEN"),
            unheard={},
        )
        await one.becomes("alpha", "up")
        lacking = await one.becomes("lacking", "missing")
        assert "no-such-package, which is not installed" in lacking["error"]
        assert "hermes add lacking" in lacking["hint"]
        assert "channels.beta.address is not set" in (await one.becomes("beta", "missing"))["error"]
        secret = await one.becomes("secret", "missing")
        assert "NO_SUCH_TOKEN" in secret["error"]
        unheard = await one.becomes("unheard", "missing")
        assert "alpha, beta" in unheard["hint"]
        (one.home / ".env").write_text("NO_SUCH_TOKEN=0123456789abcdef\n")
        (one.home / ".env").chmod(0o600)
        await one.becomes("secret", "up")


async def test_settings_that_cannot_be_read_change_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path, "alpha") as one:
        await one.becomes("alpha", "up")
        channel = one.gateway.channel("alpha")
        (one.home / "config.yaml").write_text("channels: [")
        await one.gateway.apply_settings()
        assert one.gateway.channel("alpha") is channel


async def test_a_deaf_channel_is_announced_on_another_and_again_when_it_hears(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as one:
        one.config["gateway"]["probe_seconds"] = 1.0
        one.set(alpha=one.account("alpha"), beta=one.account("beta", home="ops"))
        await one.becomes("alpha", "up")
        await until(lambda: one.gateway.supervisor("alpha").liveness.proof.proven)
        one.platform.deaf.add("alpha")
        await until(lambda: one.platform.texts("beta", "ops"))
        (told,) = one.platform.texts("beta", "ops")
        assert told.startswith("Alpha is not receiving messages: no answer to the probe within 1 s")
        shown = (await one.gateway.status())["channels"]["alpha"]
        assert shown["announced"]
        assert "failed" in shown["says"]
        one.platform.deaf.clear()
        await until(lambda: len(one.platform.texts("beta", "ops")) == 2)
        assert one.platform.texts("beta", "ops")[1].startswith("Alpha is receiving messages again")


@pytest.mark.parametrize("named", [["beta:first", "gamma:x", "beta:second"], ["alpha:x"]])
async def test_where_it_is_announced_can_be_said(tmp_path: Path, named: list[str]) -> None:
    async with desk(tmp_path) as one:
        one.config["gateway"]["announce"] = named
        one.set(alpha=one.account("alpha"), beta=one.account("beta", home="ops"))
        await until(lambda: one.gateway.channel("beta"))
        told = await one.gateway.announce("alpha", "deaf/alpha/1", "alpha is deaf")
        again = await one.gateway.announce("alpha", "deaf/alpha/1", "alpha is deaf")
        assert again == told
        if named == ["alpha:x"]:
            assert told == []
        else:
            await one.hears("beta", "first", "alpha is deaf")
            assert one.platform.texts("beta", "first") == ["alpha is deaf"]


async def test_routes_show_prove_and_try_again(tmp_path: Path) -> None:
    async with desk(tmp_path, "alpha", "beta") as one:
        await one.becomes("alpha", "up")
        app = build_app(one.runtime, lambda: None)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://home") as api:
            tested = (await api.post("/v1/gateway/alpha/test")).json()
            assert (tested["proven_now"], tested["error"]) == (True, "")
            assert (await api.post("/v1/gateway/nowhere/test")).status_code == 404
            one.platform.refused.add("beta")
            one.gateway.supervisor("beta").connection.restart()
            await one.becomes("beta", "refused")
            tested = (await api.post("/v1/gateway/beta/test")).json()
            assert (tested["proven_now"], tested["state"]) == (False, "refused")
            assert (await api.get("/v1/gateway")).json()["channels"]["beta"]["state"] == "refused"
            ledger, hi = one.gateway.ledger, OutboundMessage(Chat("alpha", "c"), "hi")
            with no_time():  # else alpha may look, and send it
                (row,) = await ledger.enqueue(NewDelivery("k/1", hi))
                await ledger.sending(row.id, 0)
                await ledger.not_sent(row.id, "no such chat", None, doubtful=False)
            await one.dead_letters("alpha")
            dead = (await api.get("/v1/gateway/dead")).json()
            assert [found["error"] for found in dead["deliveries"]] == ["no such chat"]
            assert [found["why"] for found in dead["arrived"]] == ["it failed"]
            for found in (*dead["deliveries"], *dead["arrived"]):
                assert (await api.post(f"/v1/gateway/again/{found['id']}")).status_code == 200
            assert (await api.post("/v1/gateway/again/in-77")).status_code == 404
            assert (await api.post("/v1/gateway/again/x")).status_code == 400
            await one.hears("alpha", "c", "hi")
            await one.hears("alpha", "c1", "You said aside")
            sent = (await api.get("/v1/gateway/deliveries?key=k/")).json()["deliveries"]
            assert [found["text"] for found in sent] == ["hi"]


async def test_a_platform_that_calls_reaches_its_channel_and_no_other(tmp_path: Path) -> None:
    async with desk(tmp_path, "alpha", "called") as one:
        await one.becomes("called", "up")
        ((_, _, handler), _) = one.gateway.public()

        def request(channel: str) -> Request:
            scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
            return Request({**scope, "path_params": {"channel": channel, "rest": "a/b"}})

        assert (await handler(request("called"))).body == b"POST a/b"
        for other in ("alpha", "nowhere"):
            answer = await handler(request(other))
            assert (answer.status_code, answer.body) == (404, b"")


async def test_a_channel_whose_proof_is_old_is_not_called_well(tmp_path: Path) -> None:
    async with desk(tmp_path, "alpha") as one:
        await one.becomes("alpha", "up")
        supervisor = one.gateway.supervisor("alpha")
        await supervisor.liveness.test(PATIENCE)
        proven = supervisor.liveness.proof.proven
        assert proven is not None
        assert supervisor.status(None, proven + 5.0)["well"]
        late = supervisor.status(None, proven + 86_400.0)
        assert (late["well"], late["state"]) == (False, "up")
        assert "1 d ago" in late["says"] or "24 h ago" in late["says"]


class CountingBook(ChannelRegistry):
    asked = 0

    def manifest(self, name: str) -> Manifest:
        self.asked += 1
        return super().manifest(name)


async def test_channels_are_looked_at_only_when_the_settings_have_changed(tmp_path: Path) -> None:
    terminals = CountingBook({"alpha": manifest("alpha")})
    async with desk(tmp_path, "alpha", made_of=terminals) as one:
        await one.becomes("alpha", "up")
        asked = terminals.asked
        for _ in range(5):
            one.gateway.context.refresh_settings()
            await one.gateway.apply_settings()
        assert terminals.asked == asked
        one.set(alpha=one.account("alpha", home="ops"))
        await until(lambda: terminals.asked > asked)


async def test_what_a_removed_channel_has_left_is_named_and_can_be_dropped(tmp_path: Path) -> None:
    async with desk(tmp_path, "alpha", "beta") as one:
        await one.becomes("alpha", "up")
        one.set(beta=one.account("beta"))
        await until(lambda: one.gateway.channel("alpha") is None)
        ledger = one.gateway.ledger
        first, second = await ledger.enqueue(
            *(
                NewDelivery(f"k/{at}", OutboundMessage(Chat("alpha", "c"), f"hi {at}"))
                for at in (1, 2)
            )
        )
        await ledger.not_sent(first.id, "no such chat", None, doubtful=False)
        status = await runtime_status(one.runtime)
        assert status["gateway"]["left"] == {"alpha": {"waiting": 1, "dead": 1, "set_aside": 0}}
        said = status_lines(status["gateway"])
        assert any("alpha: not set up, with 1 waiting, 1 undeliverable" in line for line in said)
        told = list(doctor.check_channels(one.gateway.context.settings, status))
        assert any("alpha is no longer configured" in what for _, what, _ in told)
        transport = httpx.ASGITransport(build_app(one.runtime, lambda: None))
        async with httpx.AsyncClient(transport=transport, base_url="http://home") as api:
            listed = (await api.get("/v1/gateway/dead")).json()
            assert [row["id"] for row in listed["left"]] == [str(second.id)]
            assert [row["id"] for row in listed["deliveries"]] == [str(first.id)]
            dropped = await api.delete(f"/v1/gateway/dead/{first.id}")
            assert dropped.json() == {"dropped": [str(first.id)]}
            assert (await api.delete(f"/v1/gateway/dead/{first.id}")).status_code == 404
            number = await one.dead_letters("beta")
            both = (await api.delete("/v1/gateway/dead/all")).json()["dropped"]
            assert sorted(both) == sorted([str(second.id), f"in-{number}"])
        assert "left" not in await one.gateway.status()
