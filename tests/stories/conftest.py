"""A Hermes home, a Telegram server and a repository for each story."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.cli import Cli, Hermes
from tests.support.platforms.telegram import TOKEN, TelegramPlatform


@pytest.fixture
def hermes(tmp_path: Path) -> Iterator[Hermes]:
    """Under the policy that is the default, with nothing of the developer's in it."""
    made = Hermes(tmp_path / "hermes")
    user = tmp_path / "user"
    user.mkdir()
    made.environ |= {"HOME": str(user), "HERMES_POLICY": "careful"}
    yield made
    made.close()


@pytest.fixture
async def telegram(tmp_path: Path) -> AsyncIterator[TelegramPlatform]:
    platform = TelegramPlatform()
    await platform.start(tmp_path)
    yield platform
    await platform.stop()


@pytest.fixture
def repository(hermes: Hermes) -> Path:
    """The folder where commands are typed."""
    apps = hermes.work / "infrastructure" / "apps"
    apps.mkdir(parents=True)
    (apps / "web.yaml").write_text("kind: Deployment\n")
    author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "declare the web"]):
        subprocess.run(["git", "-C", str(hermes.work), *words], check=True, capture_output=True)
    return hermes.work


async def set_up_telegram(hermes: Hermes, telegram: TelegramPlatform) -> None:
    await Cli(hermes).good(
        "gateway", "setup", "telegram", "--set", f"address={telegram.settings()['address']}",
        "--home", telegram.chat().chat, input=f"{TOKEN}\n",
    )  # fmt: skip
