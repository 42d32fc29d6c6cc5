"""The incident commander's night: a real Alertmanager reports a vital service, the team follows on
Telegram, and the next time is quicker, because the runtime knows what helped."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.settings.root import WatchSettings
from hermes_agent.gateway.gateway import Gateway
from hermes_agent.incidents.response.stability import ROUND_SECONDS, ROUNDS
from tests.support.alertmanager import alertmanager, raise_alerts
from tests.support.incident_fixture import (
    SAW,
    Response,
    act,
    prevention,
    resolve,
    response,
)
from tests.support.platforms.telegram import TOKEN, TelegramPlatform
from tests.support.runtime_fixture import until
from tests.support.subagents import call, children, delegated, say, shell

DAY = 86_400.0
ALERT = "token-of-the-alertmanager"
HOME = TelegramPlatform().chat().chat
LOOK, MEND = shell("cat {work}/shop.log"), shell("touch {work}/shop.up")
CLAIM = act(
    "hypothesis", claim="the disk is full", component="shop", category="disk-full",
    confidence=0.8, evidence=[SAW],
)  # fmt: skip
END = resolve(component="shop", category="disk-full")
SKILL = {
    "calls": [
        call("write_skill", name="disk-full-shop", why="it was full",
             files=prevention("disk-full-shop"))
    ]
}  # fmt: skip
PAUSE = shell("until test -e {work}/go; do sleep 0.05; done")
"""The first night lasts until the test has seen what the team is told meanwhile."""
FIRST = [
    delegated("a child of it: the log", "a child of it: the disks"), PAUSE, LOOK, CLAIM,
    shell("touch {work}/not-enough"), act("verify"), MEND, act("verify"), END, say("mended"),
]  # fmt: skip
AGAIN = [{"calls": [*LOOK["calls"], *MEND["calls"]]}, END, say("mended")]


class Time:
    """The clock of the runtime. It ticks when it is read, and what the commander waits for passes
    at once."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC).timestamp()
        self.waits: list[float] = []

    def __call__(self) -> float:
        self.now += 0.001
        return self.now

    async def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


class Night:
    def __init__(self, h: Response, api: str, time: Time, telegram: TelegramPlatform) -> None:
        self.h, self.api, self.time, self.telegram = h, api, time, telegram

    async def alert(self, **more: Any) -> None:
        labels = {"alertname": "ShopDown", "severity": "critical", "namespace": "prod",
                  "pod": "shop-7d9f8b6c54-x2k9z"}  # fmt: skip
        notes = {"summary": "Checkout does not work"}
        await asyncio.to_thread(
            raise_alerts, self.api, [{"labels": labels, "annotations": notes, **more}]
        )

    async def break_shop(self) -> None:
        """Returns when the alert has opened an incident."""
        store = self.h.runtime.context.store.incidents
        before = len(await store.incidents())
        (self.h.work / "shop.up").unlink(missing_ok=True)
        (self.h.work / "shop.log").write_text(f"starting\n{SAW}\n")
        await self.alert()

        async def opened() -> bool:
            return len(await store.incidents()) > before

        await until(opened)

    async def told(self, words: str) -> str:
        """The first message on Telegram that begins with these words."""
        found: list[str] = []

        async def seen() -> bool:
            found[:] = [one.text for one in self.telegram.sent() if one.text.startswith(words)]
            return bool(found)

        await until(seen)
        return found[0]

    async def cleared(self) -> None:
        """Alertmanager says that it is over."""
        await self.alert(endsAt=datetime.now(UTC).isoformat())

        async def quiet() -> bool:
            store = self.h.runtime.context.store.incidents
            seen = await store.signals()
            return not any(one.firing for one in seen if one.source == "alertmanager")

        await until(quiet)

    async def figures(self, id: str) -> tuple[int, int, float]:
        """Replies of models until it was resolved, subagents, and seconds waited."""
        incident, session = await self.h.incident(id), await self.h.session(id)
        below = await children(self.h, session)
        spoken = [
            one
            for each in (session, *below)
            for one in await self.h.runtime.context.store.events(each.id)
            if isinstance(one.event, ev.Replied) and one.time <= (incident.ended or 0.0)
        ]
        waited = sum(self.time.waits)
        self.time.waits.clear()
        return len(spoken), len(below), waited


@asynccontextmanager
async def night(folder: Path) -> AsyncIterator[Night]:
    telegram, time = TelegramPlatform(), Time()
    await telegram.start(folder)
    home, work = folder / "home", folder / "work"
    (home / "checks").mkdir(parents=True)
    check = {"name": "shop-answers", "service": "shop", "run": f"test -e {work}/shop.up",
             "every": 3600, "owner": "payments", "vital": True}  # fmt: skip
    (home / "checks" / "shop.yaml").write_text(json.dumps(check))
    (home / ".env").write_text(f"ALERT_TOKEN={ALERT}\nTELEGRAM_TOKEN={TOKEN}\n")
    (home / ".env").chmod(0o600)
    work.mkdir()
    (work / "shop.up").touch()
    more = {
        "services": (Gateway,),
        "watch": WatchSettings(
            listen="127.0.0.1:0", token="ALERT_TOKEN", notify=(f"telegram:{HOME}",)
        ),
        "channels": {"telegram": {**telegram.settings(), "token": "TELEGRAM_TOKEN"}},
    }
    turns = {"known": AGAIN, "child": [LOOK, say("it is full")], "begin": FIRST}
    try:
        async with response(
            folder, quick=False, clock=time, more=more, **turns, over=[SKILL, say("done")]
        ) as h:
            server = h.runtime.incidents
            server.backend.sleep = time.wait

            async def listening() -> bool:
                return bool(server.listener.address)

            await until(listening)
            url = f"http://{server.listener.address}/v1/signals/alertmanager"
            with alertmanager(folder, url, ALERT) as api:
                yield Night(h, api, time, telegram)
    finally:
        await telegram.stop()


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_the_second_night_is_short_because_the_first_taught_the_runtime(
    tmp_path: Path,
) -> None:
    async with night(tmp_path) as here:
        h = here.h
        await here.break_shop()
        declared = await here.told("P0 DECLARED: Checkout does not work (shop), since ")
        assert "check: shop-answers" in declared
        assert "owner: payments" in declared
        here.time.now += 61
        h.runtime.incidents.wake_notices()
        assert "state: " in await here.told("P0 ONGOING for 1 min")
        (h.work / "go").touch()
        found = await h.over()
        assert (found.state, found.service, found.severity) == ("resolved", "shop", "P0")
        assert [check.name for check in found.checks] == ["shop-answers"]
        resolved = await here.told("P0 RESOLVED after 1 min ")
        assert "cause: shop: disk-full" in resolved
        notices = await h.runtime.context.store.incidents.notices(incident="inc-1")
        first = [one for one in notices if one.kind == "declared"]
        assert all(one.sent is not None and one.sent - found.opened < 60 for one in first)
        replies, subagents, waited = await here.figures("inc-1")
        assert (subagents, waited) == (2, ROUNDS * ROUND_SECONDS)
        memory = (tmp_path / "home" / "memories" / "MEMORY.md").read_text()
        for part in ("shop: once", "disk-full in shop", f"Fixed by `touch {h.work}/shop.up`",
                     f"Did not help: `touch {h.work}/not-enough`"):  # fmt: skip
            assert part in memory
        await here.cleared()

        here.time.now += DAY
        await here.break_shop()
        found = await h.over("inc-2")
        assert found.state == "resolved"
        again = await here.figures("inc-2")
        assert again == (2, 0, waited)
        assert replies > 3 * again[0]
        memory = (tmp_path / "home" / "memories" / "MEMORY.md").read_text()
        assert "shop: 2 times" in memory
        assert "disk-full in shop (2x)" in memory
        await here.cleared()

        await _a_known_remedy_asks_like_any_other(here)


async def _a_known_remedy_asks_like_any_other(here: Night) -> None:
    """A policy that does not allow the remedy is asked first, however well it is known."""
    h = here.h
    path = h.runtime.context.home.path / "checks" / "shop.yaml"
    path.write_text(json.dumps({**json.loads(path.read_text()), "policy": "careful"}))
    here.time.now += DAY
    await here.break_shop()

    async def asked() -> bool:
        incident = await h.incident("inc-3")
        journal = await h.runtime.context.store.events(incident.session) if incident.session else ()
        return any(isinstance(one.event, ev.QuestionAsked) for one in journal)

    await until(asked)
    assert not (h.work / "shop.up").exists()
