"""Where keys come from, what is done with them, and that nobody else sees them."""

import asyncio
import os
import stat
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import keyring
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as FailingKeyring
from keyring.errors import KeyringLocked

from hermes_agent.core.errors import ModelError, UsageError
from hermes_agent.core.settings.services import DeviceLogin, ModelService
from hermes_agent.models.keys.command import CommandSource
from hermes_agent.models.keys.login import Token
from hermes_agent.models.keys.sources import KeyOrigin, described, sources
from hermes_agent.models.keys.storage import forget_key, store_key
from hermes_agent.models.keys.tokens import save_token
from hermes_agent.models.wires.base import Credential
from hermes_agent.policy.secrets import Secrets, parse
from tests.support.awake_loop import pass_time, stand_still
from tests.support.fake_time import until
from tests.support.patience import PATIENCE

SERVICE = ModelService(key_variables=("TEST_API_KEY", "TEST_KEY"))
LOGIN = DeviceLogin("https://x.test/device", "https://x.test/token", "client")


class MemoryKeyring(KeyringBackend):
    """A keyring of the library's own kind, for the time of a test."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}
        self.reads = 0

    def get_password(self, service: str, username: str) -> str | None:
        self.reads += 1
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.entries[service, username]


class LockedKeyring(MemoryKeyring):
    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringLocked("the backend quotes secret-1")


@pytest.fixture
def ring() -> Iterator[MemoryKeyring]:
    memory = MemoryKeyring()
    keyring.set_keyring(memory)
    yield memory
    keyring.set_keyring(FailingKeyring())


class World:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.learned: list[tuple[str, str]] = []
        self.now = 1000.0

    def learn(self, label: str, secret: str) -> None:
        self.learned.append((label, secret))

    def clock(self) -> float:
        return self.now

    def sources(
        self,
        *written: str,
        service: ModelService = SERVICE,
        environ: Mapping[str, str] | None = None,
    ) -> tuple[KeyOrigin, ...]:
        given = {"PATH": os.environ["PATH"], **(environ or {})}
        return sources("test", service, written, given, self.home, self.learn, self.clock)

    def command(self, text: str, limit: float = PATIENCE) -> CommandSource:
        environ = {"PATH": os.environ["PATH"]}
        return CommandSource(
            "command 1 of test", text, environ, self.home, self.learn, self.clock, limit
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def only(found: Sequence[KeyOrigin]) -> Credential:
    (source,) = found
    return await source.credential()


# the usual places


async def test_the_first_variable_that_is_set_is_the_key(world: World) -> None:
    environ = {"TEST_API_KEY": " ", "TEST_KEY": "sk-1,2"}
    found = world.sources(environ=environ)
    assert await only(found) == Credential("sk-1,2", label="TEST_KEY")
    assert world.learned == [("TEST_KEY", "sk-1,2")]


def test_without_anything_there_is_no_source(world: World, ring: MemoryKeyring) -> None:
    ring.entries["hermes", "test"] = "not asked for"
    assert world.sources() == ()
    assert world.sources(service=ModelService(wire="bedrock"), environ={"HOME": "/nowhere"}) == ()
    assert ring.reads == 0


async def test_a_kept_login_counts_where_no_variable_is_set(world: World) -> None:
    service = ModelService(key_variables=("TEST_KEY",), login=LOGIN)
    save_token(world.home, "test", Token("access-1"))
    assert (await only(world.sources(service=service))).secret == "access-1"
    environ = {"TEST_KEY": "sk-1"}
    assert (await only(world.sources(service=service, environ=environ))).secret == "sk-1"


async def test_a_key_that_hermes_put_into_the_keyring_is_found_there(
    world: World, ring: MemoryKeyring
) -> None:
    said = store_key("test", SERVICE, "sk-1", "keyring", world.home)
    assert "hermes/test" in said
    assert ring.entries == {("hermes", "test"): "sk-1"}
    assert (await only(world.sources())).secret == "sk-1"
    assert world.learned == [("keyring:hermes/test", "sk-1")]


async def test_bedrock_takes_a_bearer_token_before_aws_credentials(world: World) -> None:
    service = ModelService(wire="bedrock", key_variables=("AWS_ACCESS_KEY_ID",))
    environ = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "s", "HOME": "/nowhere"}
    signed = await only(world.sources(service=service, environ=environ))
    assert (signed.id, signed.secret) == ("AKIA", "s")
    environ["AWS_BEARER_TOKEN_BEDROCK"] = "bearer"
    plain = await only(world.sources(service=service, environ=environ))
    assert (plain.id, plain.secret) == ("", "bearer")


# what the settings name


async def test_several_entries_are_a_pool_in_their_order(world: World, ring: MemoryKeyring) -> None:
    ring.entries |= {("hermes", "spare"): "k-1", ("mine", "user/x"): "k-2"}
    found = world.sources(
        "env:A", "keyring:spare", "keyring:mine/user/x", "command:echo k-3", "env:A",
        environ={"A": "k-0"},
    )  # fmt: skip
    assert [(await source.credential()).secret for source in found] == ["k-0", "k-1", "k-2", "k-3"]
    assert len({source.label for source in found}) == 4
    assert [secret for _, secret in world.learned] == ["k-0", "k-1", "k-2", "k-3"]


async def test_a_named_variable_that_is_not_set_says_what_to_write(world: World) -> None:
    with pytest.raises(ModelError, match=r"write MISSING=… into the `.env`") as caught:
        await only(world.sources("env:MISSING"))
    assert caught.value.kind == "auth"


@pytest.mark.parametrize("written", ["sk-secret-1", "env:", "vault:secret-1", "login:secret-1", ""])
def test_an_entry_that_names_no_source_is_not_shown(world: World, written: str) -> None:
    with pytest.raises(UsageError, match=r"entry 1 of models\.keys\.test") as caught:
        world.sources(written)
    assert "secret-1" not in str(caught.value)


def test_a_login_is_refused_for_a_service_that_has_none(world: World) -> None:
    with pytest.raises(UsageError, match="logging in with a code"):
        world.sources("login")
    (found,) = world.sources("login", service=ModelService(login=LOGIN))
    assert found.label == "the login of test"


def test_a_service_cannot_be_named_out_of_the_home(world: World) -> None:
    for name in ("../x", "a/b", "", ".x"):
        with pytest.raises(UsageError, match="cannot be the name of a service"):
            sources(name, SERVICE, (), {}, world.home, world.learn, world.clock)


# secrets stay secret

BAD_KEYS = ["secret 1", "secret-1\n", "secrét-1", "secret-1\t", "secret\x00-1", "“secret-1”"]


@pytest.mark.parametrize("secret", BAD_KEYS)
async def test_a_key_with_characters_that_no_key_has_is_refused_by_its_source(
    world: World, ring: MemoryKeyring, secret: str
) -> None:
    ring.entries["hermes", "spare"] = secret
    for found in world.sources("env:A", "keyring:spare", environ={"A": secret}):
        with pytest.raises(ModelError) as caught:
            await found.credential()
        assert caught.value.kind == "auth"
        assert found.label in str(caught.value)
        shown = "".join(traceback.format_exception(caught.value))
        assert secret.strip() not in shown
    assert {learned for _, learned in world.learned} == {secret}


async def test_no_description_of_anything_holds_the_key(world: World, ring: MemoryKeyring) -> None:
    ring.entries["hermes", "spare"] = "secret-1"
    save_token(world.home, "test", Token("secret-1", "secret-1"))
    found = world.sources(
        "env:A", "keyring:spare", "command:echo secret-1", "login",
        service=ModelService(login=LOGIN), environ={"A": "secret-1"},
    )  # fmt: skip
    for source in found:
        credential = await source.credential()
        assert credential.secret == "secret-1"
        assert "secret-1" not in f"{credential} {credential!r} {source!r} {source.label}"
    assert "secret-1" not in f"{described(found)}"


def test_sources_are_described_without_running_or_asking_anything(
    world: World, ring: MemoryKeyring
) -> None:
    found = world.sources(
        "env:A", "env:B", "keyring:x", "command:touch ran", "login",
        service=ModelService(login=LOGIN), environ={"A": "k"},
    )  # fmt: skip
    rows = [(row.label, row.present, row.where) for row in described(found)]
    assert rows == [
        ("A", True, "the environment"),
        ("B", False, "the environment"),
        ("keyring:hermes/x", None, "the system's keyring"),
        ("command 4 of test", None, "a command"),
        ("the login of test", False, "the home"),
    ]
    assert ring.reads == 0
    assert list(world.home.iterdir()) == []


# the keyring


async def test_the_keyring_is_asked_once_and_again_after_a_refusal(
    world: World, ring: MemoryKeyring
) -> None:
    ring.entries["hermes", "x"] = "k-1"
    (found,) = world.sources("keyring:x")
    await found.credential()
    await found.credential()
    assert ring.reads == 1
    ring.entries["hermes", "x"] = "k-2"
    found.refused()
    assert (await found.credential()).secret == "k-2"


async def test_a_missing_entry_and_a_locked_keyring_say_what_to_do(
    world: World, ring: MemoryKeyring
) -> None:
    (found,) = world.sources("keyring:x")
    with pytest.raises(ModelError, match="no entry hermes/x"):
        await found.credential()
    for broken in (LockedKeyring(), FailingKeyring()):
        keyring.set_keyring(broken)
        with pytest.raises(ModelError, match="cannot be used") as caught:
            await found.credential()
        assert "secret-1" not in "".join(traceback.format_exception(caught.value))
        with pytest.raises(UsageError, match="cannot be used"):
            forget_marked(world)


def forget_marked(world: World) -> None:
    (world.home / "credentials").mkdir(exist_ok=True)
    (world.home / "credentials" / "test.keyring").touch()
    forget_key("test", SERVICE, world.home)


# commands


async def test_a_command_runs_in_a_shell_and_its_first_line_is_the_key(world: World) -> None:
    found = world.command("printf 'k-1\\nnot this\\n' | cat")
    assert (await found.credential()) == Credential("k-1", label="command 1 of test")


async def test_a_command_may_print_a_whole_credential(world: World) -> None:
    found = world.command(
        """echo '{"secret": "s", "id": "i", "session": "t", "expires": 5000, "more": 1}'"""
    )
    credential = await found.credential()
    assert (credential.secret, credential.id, credential.session) == ("s", "i", "t")
    assert [secret for _, secret in world.learned] == ["s", "t"]


def counting(world: World, printed: str = "k") -> tuple[CommandSource, Callable[[], int]]:
    runs = world.home / "runs"
    found = world.command(f"echo x >> {runs}; {printed}")
    return found, lambda: len(runs.read_text().splitlines())


async def test_a_command_runs_once_for_all_who_ask(world: World) -> None:
    found, runs = counting(world, "echo k")
    await asyncio.gather(*[found.credential() for _ in range(5)])
    world.now += 1e6
    await found.credential()
    assert runs() == 1


async def test_a_command_runs_again_after_a_refusal_but_not_at_once(world: World) -> None:
    found, runs = counting(world, "echo k")
    await found.credential()
    found.refused()
    await found.credential()
    assert runs() == 1
    world.now += 6
    await found.credential()
    await found.credential()
    assert runs() == 2


@pytest.mark.parametrize("expires", ["4600", '"1970-01-01T01:16:40+00:00"'])
async def test_a_command_runs_again_when_its_key_expires(world: World, expires: str) -> None:
    found, runs = counting(world, f"""echo '{{"secret": "s", "expires": {expires}}}'""")
    await found.credential()
    world.now = 4530
    await found.credential()
    assert runs() == 1
    world.now = 4550
    await found.credential()
    assert runs() == 2


async def test_a_command_that_failed_is_tried_again_after_a_while(world: World) -> None:
    found, runs = counting(world, "test -e here && echo k")
    for _ in range(2):
        with pytest.raises(ModelError, match=r"failed \(exit 1\)"):
            await found.credential()
    assert runs() == 1
    (world.home / "here").touch()
    world.now += 6
    assert (await found.credential()).secret == "k"


async def test_a_command_that_fails_says_its_complaint_without_what_it_printed(
    world: World,
) -> None:
    found = world.command("echo secret-1; echo 'vault is sealed for secret-1' >&2; exit 3")
    with pytest.raises(ModelError) as caught:
        await found.credential()
    assert "(exit 3): vault is sealed for [key]" in caught.value.message


@pytest.mark.parametrize(
    "printed",
    ["true", "echo", "echo '{\"secret\": 5}'", "echo '{\"key\": \"secret-1\"}'", "echo '{secret-1'",
     "echo 'secret-1 two'", "echo '{\"secret\": \"a\", \"expires\": \"secret-1\"}'",
     "echo '{\"secret\": \"a\", \"expires\": \"2030-01-01\"}'"],
)  # fmt: skip
async def test_a_command_that_prints_no_key_is_refused_without_quoting_it(
    world: World, printed: str
) -> None:
    with pytest.raises(ModelError) as caught:
        await world.command(printed).credential()
    assert caught.value.kind == "auth"
    assert "secret-1" not in "".join(traceback.format_exception(caught.value))


async def test_a_command_that_takes_too_long_is_killed_with_what_it_started(
    world: World,
) -> None:
    pid = world.home / "pid"
    found = world.command(f"sleep 6000 & echo $! > {pid}; wait", limit=1000)
    asking = asyncio.create_task(found.credential())
    await until(lambda: pid.exists() and pid.read_text().strip())
    await pass_time(2000)
    with pytest.raises(ModelError, match=r"no key in 1000 seconds"):
        await asking
    await gone(int(pid.read_text()))


async def test_a_key_that_was_printed_while_we_stood_still_is_taken(world: World) -> None:
    go = world.home / "go"
    found = world.command(f"touch {go}.begun; until [ -e {go} ]; do sleep 0.01; done; echo k")
    asking = asyncio.create_task(found.credential())
    await until((world.home / "go.begun").exists)
    stand_still(2 * PATIENCE)
    go.touch()
    assert (await asking).secret == "k"


async def test_a_command_that_nobody_waits_for_is_killed(world: World) -> None:
    pid = world.home / "pid"
    command = world.command(f"echo $$ > {pid}; sleep 6000", limit=6000)
    asking = asyncio.create_task(command.credential())
    await until(lambda: pid.exists() and pid.read_text().strip())
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await gone(int(pid.read_text()))


async def gone(pid: int) -> None:
    """Wait until the process has ended; whoever adopted it may not have buried it yet."""

    def ended() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    await until(ended, "the end of the process")


async def test_a_command_reads_nothing_from_the_terminal(world: World) -> None:
    with pytest.raises(ModelError, match=r"failed \(exit 1\)"):
        await world.command("read answer").credential()


# keeping and forgetting


def test_a_key_is_written_to_env_beside_the_other_lines(world: World) -> None:
    file = world.home / ".env"
    file.write_text("# mine\nOTHER=1\nexport TEST_API_KEY = 'old'\n\nTEST_KEY=kept\n")
    file.chmod(0o644)
    said = store_key("test", SERVICE, "sk-1#2", "env-file", world.home)
    assert said == f"TEST_API_KEY in {str(file)!r}"
    assert file.read_text() == "# mine\nOTHER=1\n\nTEST_KEY=kept\nTEST_API_KEY=sk-1#2\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert Secrets({}, world.home).get("TEST_API_KEY") == "sk-1#2"
    assert [path.name for path in world.home.iterdir()] == [".env"]


@given(secret=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_every_key_comes_back_from_env_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, secret: str
) -> None:
    home = tmp_path_factory.mktemp("home")
    store_key("test", SERVICE, secret, "env-file", home)
    assert parse((home / ".env").read_text(), ".env") == {"TEST_API_KEY": secret}


def test_a_link_to_the_env_file_stays_a_link(world: World) -> None:
    real = world.home / "elsewhere"
    real.write_bytes(b"RAW=\xff\n")
    (world.home / ".env").symlink_to(real)
    store_key("test", SERVICE, "sk-1", "env-file", world.home)
    assert (world.home / ".env").is_symlink()
    assert real.read_bytes() == b"RAW=\xff\nTEST_API_KEY=sk-1\n"


def test_a_key_that_is_none_is_not_kept(world: World) -> None:
    for secret in ("", "secret 1"):
        with pytest.raises(UsageError) as caught:
            store_key("test", SERVICE, secret, "env-file", world.home)
        assert "secret 1" not in str(caught.value)
    with pytest.raises(UsageError, match="no variable is known"):
        store_key("test", ModelService(), "sk-1", "env-file", world.home)
    assert list(world.home.iterdir()) == []


def test_all_that_is_kept_for_a_service_is_forgotten(world: World, ring: MemoryKeyring) -> None:
    store_key("test", SERVICE, "sk-1", "env-file", world.home)
    store_key("test", SERVICE, "sk-2", "keyring", world.home)
    save_token(world.home, "test", Token("access"))
    with (world.home / ".env").open("a") as file:
        file.write("OTHER=1\n")
    assert len(forget_key("test", SERVICE, world.home)) == 3
    assert (world.home / ".env").read_text() == "OTHER=1\n"
    assert ring.entries == {}
    assert list((world.home / "credentials").iterdir()) == []
    assert forget_key("test", SERVICE, world.home) == ()
    assert world.sources() == ()
