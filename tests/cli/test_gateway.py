"""`hermes gateway` and `hermes send`, with a real runtime and a channel whose platform answers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Cli, Hermes
from tests.support.patience import PATIENCE
from tests.support.platforms.telegram import TOKEN, TelegramPlatform

pytestmark = pytest.mark.sample_file(4)


async def until(met: Callable[[], Any]) -> Any:
    async with asyncio.timeout(PATIENCE):
        while not (found := met()):
            await asyncio.sleep(0.02)
    return found


async def until_said(cli: Cli, words: str, *command: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while words not in await cli.good(*command):
            await asyncio.sleep(0.1)


@pytest.fixture
async def telegram(tmp_path: Path) -> AsyncIterator[TelegramPlatform]:
    platform = TelegramPlatform()
    await platform.start(tmp_path)
    yield platform
    await platform.stop()


async def test_a_channel_is_set_up_tried_and_talked_on(
    hermes: Hermes, telegram: TelegramPlatform
) -> None:
    cli = Cli(hermes)
    listed = await cli.json("gateway", "setup")
    assert "telegram" in {row["name"] for row in listed}
    home = telegram.chat().chat
    out = await cli.good(
        "gateway", "setup", "telegram", "--set", f"address={telegram.settings()['address']}",
        "--home", home, input=f"{TOKEN}\n",
    )  # fmt: skip
    assert "verified just now" in out
    assert TOKEN not in (hermes.home / "config.yaml").read_text()
    assert f"TELEGRAM_TOKEN={TOKEN}" in (hermes.home / ".env").read_text()
    assert "last verified" in await cli.good("gateway", "status")

    await telegram.say("let me in")
    while "ignored on telegram: 1 stranger" not in await cli.good("gateway", "status"):
        await asyncio.sleep(0.05)
    told = await cli.good("gateway", "pair", "telegram", "--role", "owner", "--name", "ada")
    await telegram.say(told.splitlines()[0])
    await until(lambda: any("Welcome" in one.text for one in telegram.sent()))
    assert "stranger" not in await cli.good("gateway", "status")
    await telegram.say("hello")
    await until(lambda: any("Good day to you" in one.text for one in telegram.sent()))
    (person,) = await cli.json("gateway", "people")
    assert (person["name"], person["role"], person["by"]) == ("ada", "owner", "code")
    (session,) = await cli.json("sessions", "list")
    assert session["source"] == "telegram"

    file = hermes.work / "report.txt"
    file.write_text("all is well")
    rows = await cli.json("send", "telegram", "The", "backup", "--file", str(file), "--wait")
    assert [row["state"] for row in rows] == ["sent"]
    await until(lambda: any("The backup" in one.text for one in telegram.sent()))
    out = await cli.good("send", f"telegram:{home}", input="from a pipe")
    assert "queued" in out
    await until(lambda: any("from a pipe" in one.text for one in telegram.sent()))
    assert "no undeliverable messages" in await cli.good("gateway", "dead")
    assert "deleted: nothing" in await cli.good("gateway", "dead", "--drop", "all", "--yes")
    code, _, err = await cli.run("gateway", "dead", "--drop", "4711", "--yes")
    assert (code, "no undeliverable message 4711" in err) == (1, True)

    await cli.good("gateway", "block", "ada")
    before = len(telegram.sent())
    await telegram.say("still there?")
    assert (await cli.json("gateway", "people"))[0]["role"] == "blocked"
    await cli.good("gateway", "remove", "ada", "--yes")
    assert await cli.json("gateway", "people") == []
    assert len(telegram.sent()) == before


async def test_a_token_that_is_refused_is_replaced_by_a_new_one(
    hermes: Hermes, telegram: TelegramPlatform
) -> None:
    cli = Cli(hermes)
    setup = ("gateway", "setup", "telegram", "--set", f"address={telegram.settings()['address']}")
    code, out, err = await cli.run(*setup, input="110201543:MISTYPED\n")
    assert (code, out) == (1, "")
    assert "telegram: Telegram rejected the bot's token; nothing was changed" in err
    assert "get a new one from @BotFather with /token" in err
    assert not (hermes.home / ".env").exists()
    assert not (hermes.home / "config.yaml").exists()
    await cli.good(*setup, "--no-test", input="110201543:MISTYPED\n")
    await until_said(cli, "refused", "gateway", "status")
    code, out, _ = await cli.run("doctor")
    assert code == 1
    assert "telegram: refused: Telegram rejected the bot's token" in out
    assert "hint: get a new one from @BotFather with /token" in out
    code, out, err = await cli.run(*setup, input=f"{TOKEN}\n")
    assert code == 0, out + err
    assert "verified just now" in out
    assert "token: replaced" in err
    kept = (hermes.home / ".env").read_text()
    assert kept == f"TELEGRAM_TOKEN={TOKEN}\n"
    code, _, err = await cli.run(*setup, input="110201543:MISTYPED\n")
    assert (code, "nothing was changed" in err) == (1, True)
    assert (hermes.home / ".env").read_text() == kept
    await cli.good(*setup)
    assert (hermes.home / ".env").read_text() == kept
    done = await asyncio.to_thread(
        hermes.run, *setup, input="110201543:OTHER\n", TELEGRAM_TOKEN="1"
    )
    assert done.returncode == 2
    assert "TELEGRAM_TOKEN is set in the environment" in done.stderr


async def test_the_chat_of_the_first_owner_becomes_the_home(
    hermes: Hermes, telegram: TelegramPlatform
) -> None:
    cli = Cli(hermes)
    address = f"address={telegram.settings()['address']}"
    out = await cli.good("gateway", "setup", "telegram", "--set", address, input=f"{TOKEN}\n")
    assert "your chat becomes its home" in out
    assert "no one can approve requests" in await cli.good("gateway", "status")
    await cli.good("config", "set", "channels.telegram.onwers", "[4711]")
    await until_said(cli, "unknown setting 'onwers'", "gateway", "status")
    told = await cli.good("doctor")
    assert "no setting is called channels.telegram.onwers" in told
    assert "hint: `hermes gateway pair telegram --role owner`" in told
    told = await cli.good("gateway", "pair", "telegram", "--role", "owner")
    assert "becomes the channel's home" in told
    await telegram.say(told.splitlines()[0])
    await until(lambda: any("home of telegram" in one.text for one in telegram.sent()))
    home = await cli.json("config", "get", "channels.telegram.home")
    assert home["value"] == "4711"
    assert "no one can approve" not in await cli.good("status")
    assert "telegram: last verified" in await cli.good("doctor")
    await cli.good("down")
    assert "not listening on telegram: the runtime is not running" in await cli.good("doctor")
    assert "home" not in await cli.good("gateway", "pair", "telegram", "--role", "owner")


async def test_settings_that_every_channel_has_are_set_up_with_it(
    hermes: Hermes, telegram: TelegramPlatform
) -> None:
    cli = Cli(hermes)
    person = telegram.chat().chat
    pairs = (f"address={telegram.settings()['address']}", "policy=observe",
             f"owners={person},815", "listen=all", "enabled=true")  # fmt: skip
    words = [word for pair in pairs for word in ("--set", pair)]
    await cli.good("gateway", "setup", "telegram", *words, input=f"{TOKEN}\n")
    kept = (await cli.json("config", "get", "channels.telegram.owners"))["value"]
    assert kept == [person, "815"]
    off = await cli.good("gateway", "setup", "telegram", "--set", "enabled=false")
    assert "and switched off\nhint: `hermes gateway setup telegram --set enabled=true`" in off
    await cli.good("gateway", "setup", "telegram", "--set", "enabled=true")
    await telegram.say("hello")
    await until(lambda: any("Good day to you" in one.text for one in telegram.sent()))
    (session,) = await cli.json("sessions", "list")
    assert session["policy"] == "observe"


async def test_what_cannot_be_is_said_with_a_way_out(hermes: Hermes) -> None:
    cli = Cli(hermes)
    for words, said in (
        (("gateway", "setup", "pigeon"), "no channel called 'pigeon'"),
        (("gateway", "setup", "telegram", "--set", "colour=blue"), "no field 'colour'"),
        (("gateway", "setup", "telegram", "--set", "onwers=1"), "did you mean owners?"),
        (("gateway", "setup", "telegram", "--set", "policy=obsrve"), "'obsrve'"),
        (("gateway", "setup", "telegram", "--set", "listen=none"), "listen cannot be 'none'"),
        (("gateway", "setup", "telegram"), "token is required"),
        (("gateway", "setup", "--set", "policy=observe"), "which channel?"),
        (("gateway", "pair", "telegram"), "no channel called 'telegram'"),
        (("gateway", "test", "telegram"), "not set up"),
        (("gateway", "block", "nobody-i-know"), "nobody is called"),
        (("gateway", "again", "x"), "not a valid id"),
        (("send", "telegram", "hi"), "no channel called 'telegram'"),
        (("send", "telegram"), "nothing to send"),
        (("send", "telegram", "--file", "none.pdf"), "cannot read none.pdf"),
    ):
        code, out, err = await cli.run(*words)
        assert code in (1, 2), (words, out)
        assert said in err, (words, err)
        assert "Traceback" not in err
    assert "no channel is set up" in await cli.good("gateway", "status")
