"""A platform engineer schedules a check of a repository, and hears of it in Telegram."""

import asyncio
import json
import shutil
from pathlib import Path

from tests.stories.conftest import set_up_telegram
from tests.support.cli import Cli, Hermes
from tests.support.patience import PATIENCE
from tests.support.platforms.telegram import TelegramPlatform

PROMPT = (
    "Check the diff between infrastructure/apps/ in Git and the live cluster state. "
    "Flag anything not in Git. Send results to Telegram."
)
ADD = ("task", "add", "--cron", "0 */6 * * *", PROMPT)


async def until_sent(telegram: TelegramPlatform, words: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not any(words in one.text for one in telegram.sent()):
            await asyncio.sleep(0.02)


def install_kubectl(hermes: Hermes) -> None:
    """One that answers as if a cluster were there, and its configuration."""
    programs = hermes.work.parent / "programs"
    programs.mkdir()
    (programs / "kubectl").write_text("#!/bin/sh\necho deployment.apps/old-web\n")
    (programs / "kubectl").chmod(0o755)
    config = Path(hermes.environ["HOME"], ".kube", "config")
    config.parent.mkdir()
    config.write_text("{}")
    hermes.environ["PATH"] = f"{programs}:{hermes.environ['PATH']}"


async def test_the_job_runs_as_typed_and_its_result_arrives_in_telegram(
    hermes: Hermes, telegram: TelegramPlatform, repository: Path
) -> None:
    install_kubectl(hermes)
    look = {"tool": "terminal", "with": {"command": "git log --format=%s -1; ls infrastructure/*"}}
    replies = [{"calls": [look]}, {"say": "Not in Git: **old-web**."}]
    hermes.script.write_text(json.dumps({"turns": [{"when": "not in Git", "replies": replies}]}))
    cli = Cli(hermes)
    await set_up_telegram(hermes, telegram)

    target = f"telegram:{telegram.chat().chat}"
    shown = await cli.good(*ADD)
    assert "deliver    telegram" in shown
    assert f"results    sent to {target}" in shown
    (job,) = await cli.json("task", "list")
    assert (job["spec"]["folder"], job["spec"]["deliver"]) == (str(repository), ["telegram"])
    assert job["warnings"] == []

    assert "Not in Git: **old-web**." in await cli.good("task", "run", job["id"], "--follow")
    await until_sent(telegram, "Not in Git: old-web.")
    (run,) = await cli.json("task", "history")
    assert run["sent_to"] == [target]
    journal = [row["event"] for row in hermes.api.journal(run["session"])]
    (seen,) = [event["text"] for event in journal if event["kind"] == "call_finished"]
    assert "declare the web" in seen
    assert "web.yaml" in seen
    async with asyncio.timeout(PATIENCE):
        while f"[sent to {target}]" not in await cli.good("task", "history"):
            await asyncio.sleep(0.05)

    shutil.rmtree(repository / ".git")
    (row,) = await cli.json("task", "list")
    assert [f"{repository} is in no Git repository" in why for why in row["warnings"]] == [True]


async def test_a_job_whose_folder_is_gone_says_so_instead_of_running_in_an_empty_one(
    hermes: Hermes, telegram: TelegramPlatform, repository: Path
) -> None:
    cli = Cli(hermes)
    await set_up_telegram(hermes, telegram)
    folder = repository / "infrastructure"
    await cli.good(*ADD, "--folder", "infrastructure")
    shutil.rmtree(folder)
    code, _, told = await cli.run("task", "run", "job-1", "--follow")
    assert (code, f"its folder {folder} is gone" in told) == (1, True)
    await until_sent(telegram, f"its folder {folder} is gone")
    assert "hermes task edit job-1 --folder" in await cli.good("task", "show", "job-1")


async def test_what_the_job_lacks_is_said_when_it_is_added(hermes: Hermes) -> None:
    hermes.environ["HERMES_MODEL"] = ""
    added = await Cli(hermes).json(*ADD[:-1], f"{PROMPT} Then run `rm -rf /srv/cache`.")
    said = "\n".join(added["warnings"])
    for words in (
        "Telegram is not set up (`hermes gateway setup telegram`)",
        f"the prompt speaks of Git, but {hermes.work} is in no Git repository",
        "no model would answer",
        "under the policy careful, `rm -rf /srv/cache` needs approval, and there is no chat",
    ):
        assert words in said
    assert "kubectl" in said
    assert added["spec"]["deliver"] == ["telegram"]
    assert "warning: job-1: Telegram is not set up" in await Cli(hermes).good("task", "list")


async def test_a_kubeconfig_that_commands_would_not_see_is_said(hermes: Hermes) -> None:
    install_kubectl(hermes)
    usual = Path(hermes.environ["HOME"], ".kube", "config")
    other = usual.rename(usual.with_name("other"))
    hermes.environ["KUBECONFIG"] = str(other)
    cli = Cli(hermes)
    added = await cli.json(*ADD[:-1], "Look at the cluster.")
    assert "kubectl would find no cluster: ~/.kube/config does not exist" in str(added["warnings"])
    keep = ("terminal.keep_environment", "[KUBECONFIG]")
    await cli.good("config", "set", *keep)
    assert "KUBECONFIG" not in str((await cli.json("task", "show", "job-1"))["warnings"])
    other.unlink()
    gone = f"KUBECONFIG names no file: {other} (set it to one)"
    assert gone in (await cli.json("task", "show", "job-1"))["warnings"]
