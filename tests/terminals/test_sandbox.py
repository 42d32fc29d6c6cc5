"""What commands in a sandbox cannot do, each tried from inside. They are tried as root too."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pyseccomp
import pytest

from hermes_agent.core.settings.terminals import Limits, SandboxPlace
from hermes_agent.terminals.sandbox.launch import PYTHON
from hermes_agent.terminals.sandbox.mounts import rules, sight_of
from tests.support.sandboxes import SECRET, SECRETS, Box, Kind, marked
from tests.support.terminals import until

BOTH: tuple[Kind, ...] = ("bubblewrap", "landlock")
Make = Callable[..., Box]
Other = subprocess.Popen[bytes]


@pytest.fixture
async def boxes(tmp_path: Path) -> AsyncIterator[Make]:
    made: list[Box] = []

    def make(kind: Kind = "bubblewrap", **settings: object) -> Box:
        made.append(Box(tmp_path, kind, SandboxPlace(**settings)))
        return made[-1]

    yield make
    for box in made:
        await box.transport.destroy()


@pytest.fixture
async def box(boxes: Make) -> Box:
    made = boxes()
    await made.transport.ready()
    return made


@pytest.fixture(params=BOTH)
async def either(boxes: Make, request: pytest.FixtureRequest) -> Box:
    made = boxes(request.param)
    await made.transport.ready()
    return made


@pytest.fixture
def other() -> Iterator[Other]:
    """A process of this machine that is none of a sandbox's business."""
    with subprocess.Popen(["sleep", "598.4711"], env={"SOME_TOKEN": SECRET}) as made:
        yield made
        made.kill()


async def test_nothing_outside_the_workspace_can_be_written(either: Box) -> None:
    beside = either.person / "notes"
    beside.write_text("mine")
    targets = [beside, either.person / "new", either.folder / "new", either.folder.parent / "new"]
    targets += [Path(folder, "hermes-was-here") for folder in ("/etc", "/usr", "/var/log", "/")]
    for target in targets:
        done = await either.runs(f"echo x > {target} && mkdir -p {target}.d && touch {target}")
        assert done.code != 0, target
    assert beside.read_text() == "mine"
    assert [path for path in targets[1:] if path.exists()] == []
    assert (await either.runs("echo mine > here; mkdir -p a/b; mv here a/b")).code == 0
    assert (either.workspace / "a/b/here").read_text() == "mine\n"


@pytest.mark.parametrize("name", SECRETS)
async def test_secrets_and_the_home_of_hermes_cannot_be_read(either: Box, name: str) -> None:
    done = await either.runs(f"cat {either.person / name}; ls -R {either.person / name}/..")
    assert done.code != 0
    assert SECRET.encode() not in done.stdout
    assert Path(name).name.encode() not in done.stdout


async def test_the_secrets_of_the_machine_cannot_be_read(either: Box) -> None:
    hidden = [path for path in ("/etc/shadow", "/etc/gshadow") if Path(path).exists()]
    for path in hidden:
        done = await either.runs(f"cat {path}")
        assert (done.code, done.stdout) == (1, b"")
    assert (await either.runs("cat /etc/passwd")).stdout == Path("/etc/passwd").read_bytes()


async def test_the_environment_holds_no_secret_and_a_home_of_its_own(either: Box) -> None:
    said = (await either.runs("env; echo kept > ~/note")).stdout.decode()
    assert SECRET not in said
    assert f"HOME={either.folder}/home" in said.splitlines()
    assert (either.folder / "home/note").read_text() == "kept\n"


async def test_there_is_room_for_temporary_files(either: Box) -> None:
    done = await either.runs('file=$(mktemp) && echo hi > "$file" && cat "$file"')
    assert (done.code, done.stdout) == (0, b"hi\n")


async def test_files_with_secrets_in_the_workspace_are_hidden(boxes: Make) -> None:
    box = boxes()
    inner = box.workspace / "service"
    (inner / ".ssh").mkdir(parents=True)
    for name in (".env", "service/.env.production", "service/.ssh/known", "service/server.key"):
        (box.workspace / name).write_text(SECRET)
    (inner / "ca.pem").write_text("-----BEGIN CERTIFICATE-----")
    (inner / "own.pem").write_text(f"-----BEGIN PRIVATE KEY----- {SECRET}")
    await box.transport.ready()
    done = await box.runs("grep -rs sesame . ; find . -type f -exec cat {} +; cat service/ca.pem")
    assert SECRET.encode() not in done.stdout
    assert done.stdout.endswith(b"-----BEGIN CERTIFICATE-----")
    assert (await box.runs("rm -f .env; echo x > .env")).code != 0
    assert (box.workspace / ".env").read_text() == SECRET


async def test_what_the_settings_hide_is_hidden_and_what_they_open_is_open(boxes: Make) -> None:
    box = boxes()
    for name in ("work/private", "shared"):
        (box.person / name).mkdir()
        (box.person / name / "file").write_text(SECRET)
    place = SandboxPlace(hide=("~/work/private",), write=("~/shared",))
    transport = box.open(place)
    await transport.ready()
    assert (await box.runs("cat private/file")).stdout == b""
    assert (await box.runs(f"echo new > {box.person}/shared/file")).code == 0
    assert (box.person / "shared/file").read_text() == "new\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", made], check=True)
    return made


async def test_what_others_run_in_the_workspace_is_read_only(boxes: Make, repository: Path) -> None:
    box = boxes()
    shutil.copytree(repository, box.workspace, dirs_exist_ok=True)
    (box.workspace / ".envrc").write_text("true")
    await box.transport.ready()
    for attempt in (
        "echo x > .git/hooks/pre-commit",
        "echo x >> .git/config",
        "git config core.hooksPath /tmp",
        "rm -rf .git/hooks",
        "mv .git aside",
        "mv .git/hooks .git/other",
        "echo x > .envrc",
        "mv .envrc old",
        "rm -f .envrc",
    ):
        assert (await box.runs(attempt)).code != 0, attempt
    commit = "git -c user.name=a -c user.email=a@b commit -qm second"
    done = await box.runs(f"echo x > file && git add file && {commit}")
    assert (done.code, done.stderr) == (0, b"")


async def test_a_link_in_the_workspace_leads_nowhere_that_may_be_written(either: Box) -> None:
    outside = either.person / "outside"
    outside.write_text("mine")
    (either.workspace / "there").symlink_to(outside)
    await either.runs(f"ln -s {outside} made; ln -s /etc etc; ln {outside} hard")
    for attempt in ("echo x > there", "echo x > made", "echo x > etc/hermes-was-here"):
        assert (await either.runs(attempt)).code != 0, attempt
    assert outside.read_text() == "mine"
    assert not Path("/etc/hermes-was-here").exists()


async def test_a_workspace_named_through_a_link_is_found(boxes: Make) -> None:
    box = boxes()
    (box.person / "alias").symlink_to(box.workspace)
    box.workspace = box.person / "alias"
    box.transport = box.open()
    await box.transport.ready()
    done = await box.runs(f"cd {box.workspace} && echo hi > file && cat {box.workspace}/file")
    assert (done.code, done.stdout) == (0, b"hi\n")


CONNECT = """
import socket, sys
kind, address = {kind}, {address!r}
with socket.socket(*kind) as made:
    made.settimeout(5)
    made.connect(address)
    made.send(b"x")
"""


async def test_the_network_is_out_of_reach(boxes: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0hermes-{os.getpid()}")
        abstract.listen()
        for kind in BOTH:
            box = boxes(kind)
            await box.transport.destroy()
            named = stack.enter_context(socket.socket(socket.AF_UNIX))
            monkeypatch.chdir(box.workspace)  # the whole path may be too long for a socket
            named.bind(kind)
            named.listen()
            await box.transport.ready()
            stream, datagram, unix = "(2, 1)", "(2, 2)", "(1, 1)"
            for family, address in (
                (stream, tcp.getsockname()),
                (stream, ("169.254.169.254", 80)),
                (unix, abstract.getsockname().decode()),
                (unix, kind),
                ("(40, 1)", (2, 22)),
            ):
                done = await box.python(CONNECT.format(kind=family, address=address))
                assert done.code != 0, (kind, address)
                assert b"Error" in done.stderr
            await box.python(CONNECT.format(kind=datagram, address=udp.getsockname()))
            with pytest.raises(BlockingIOError):
                udp.recv(1, socket.MSG_DONTWAIT)
            looked_up = await box.python("import socket; socket.getaddrinfo('example.com', 80)")
            assert looked_up.code != 0


@pytest.mark.parametrize("kind", BOTH)
async def test_the_network_is_there_when_it_is_granted(boxes: Make, kind: Kind) -> None:
    box = boxes(kind, network=True)
    await box.transport.ready()
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = await box.python(CONNECT.format(kind="(2, 1)", address=server.getsockname()))
        assert (done.code, done.stderr) == (0, b"")
        server.accept()[0].close()


async def test_other_processes_are_neither_read_nor_signalled(either: Box, other: Other) -> None:
    done = await either.runs(
        f"cat /proc/[0-9]*/environ; cat /proc/{other.pid}/mem; ls /proc/{other.pid}/fd;"
        f" ls -l /proc/{other.pid}/root/; kill -9 {other.pid}"
    )
    assert SECRET.encode() not in done.stdout
    assert other.poll() is None


async def test_other_processes_are_not_even_seen(box: Box, other: Other) -> None:
    assert b"598.4711" not in (await box.runs("ps aux; cat /proc/*/cmdline")).stdout
    await box.runs("kill -9 -1")
    assert other.poll() is None
    assert (await box.runs("echo still here")).stdout == b"still here\n"


REFUSED = """
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
for number in {numbers}:
    assert libc.syscall(number, 0, 0, 0, 0, 0) == -1, number
    assert ctypes.get_errno() == errno.EPERM, (number, ctypes.get_errno())
assert libc.unshare(0x10000000) == -1 and ctypes.get_errno() == errno.EPERM
"""


async def test_calls_that_lead_out_of_a_sandbox_are_refused(either: Box) -> None:
    names = ["mount", "umount2", "pivot_root", "chroot", "setns", "ptrace", "process_vm_writev",
             "keyctl", "add_key", "bpf", "perf_event_open", "kexec_load", "init_module",
             "finit_module", "delete_module", "open_by_handle_at", "userfaultfd", "move_mount",
             "fsopen", "syslog"]  # fmt: skip
    numbers = [pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) for name in names]
    done = await either.python(REFUSED.format(numbers=numbers))
    assert (done.code, done.stderr) == (0, b"")
    for attempt in ("unshare -U true", "unshare -m true", "mount -t tmpfs none /mnt"):
        assert (await either.runs(attempt)).code != 0


async def test_words_cannot_be_put_into_a_terminal(box: Box) -> None:
    done = await box.python(
        "import errno, fcntl, os, termios\n"
        "_, made = os.openpty()\n"
        "try: fcntl.ioctl(made, termios.TIOCSTI, b'x')\n"
        "except OSError as error: print(errno.errorcode[error.errno])"
    )
    assert (done.stdout, done.stderr) == (b"EPERM\n", b"")


async def test_no_program_gains_privileges(either: Box) -> None:
    said = (await either.runs("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")).stdout
    facts = dict(line.split(":\t") for line in said.decode().splitlines())
    assert facts.pop("NoNewPrivs") == "1"
    assert facts.pop("Seccomp") == "2"
    assert set(facts.values()) == {"0" * 16}


async def test_root_inside_changes_nothing_of_the_kernel(either: Box) -> None:
    writable = "-type f -writable ! -path '/proc/[0-9]*' ! -path '/proc/*self/*'"
    files = (await either.runs(f"find /proc /sys {writable}")).stdout.decode().splitlines()
    tried = " ".join(["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", *files])
    same = 'read -r text < $file; echo "$text" > $file && echo $file'
    done = await either.runs(f"for file in {tried}; do {same}; done")
    assert done.stdout == b""


FORKS = """
import os, time
made = 0
try:
    while made < 400:
        if os.fork() == 0:
            time.sleep(600)
        made += 1
except OSError:
    print(made, flush=True)
os.kill(0, 9)
"""


async def test_processes_are_limited_and_the_sandbox_lives_on(boxes: Make) -> None:
    box = boxes(limits=Limits(processes=24))
    await box.transport.ready()
    done = await box.python(FORKS)
    assert 0 < int(done.stdout) <= 24
    assert (await box.runs("echo still here")).stdout == b"still here\n"


async def test_a_fork_bomb_ends_with_its_sandbox(boxes: Make) -> None:
    box = boxes(limits=Limits(processes=16, cpus=0.2))
    await box.transport.ready()
    mark = f"bomb-{os.getpid()}-4711"
    bomb = "import os, sys, time\nwhile True:\n try: os.fork()\n except OSError: time.sleep(0.01)"
    assert await box.transport.start([PYTHON, "-I", "-S", "-c", bomb, mark])
    await until(lambda: len(marked(mark)) >= 10)
    assert len(marked(mark)) <= 16
    await box.transport.destroy()
    assert marked(mark) == []


@pytest.mark.parametrize("kind", BOTH)
async def test_memory_is_limited_and_the_sandbox_lives_on(boxes: Make, kind: Kind) -> None:
    box = boxes(kind, limits=Limits(memory_mb=64))
    await box.transport.ready()
    done = await box.python("print(len(bytearray(400_000_000)))")
    assert done.code != 0
    assert done.stdout == b""
    assert (await box.runs("echo still here")).stdout == b"still here\n"


ORDINARY = """
import asyncio, pathlib, sys
from tests.support.sandboxes import Box

async def main():
    box = Box(pathlib.Path(sys.argv[1]))
    await box.transport.ready()
    done = await box.runs(f"id -u; cat {box.person}/.ssh/*; echo x > /etc/x; echo x > file")
    await box.transport.destroy()
    print(done.code, done.stdout.decode().strip())

asyncio.run(main())
"""


def test_an_ordinary_user_can_make_one_too(tmp_path: Path) -> None:
    """In a user namespace where this process is nobody special."""
    user = ["unshare", "--user", "--map-user=1234", "--map-group=1234"]
    command = [*user, sys.executable, "-c", ORDINARY, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0 1234\n", "")


def test_the_files_of_the_table_are_hidden_wherever_a_home_is_shown(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "home" / "work"
    secret = [".cargo/credentials.toml", ".codex/auth.json", "work/.codex/auth.json",
              "work/deep/.mozilla/firefox/p/logins.json", ".config/gcloud/db", "work/.vault-token",
              ".mozilla/firefox/p/key4.db", "work/.docker/config.json"]  # fmt: skip
    shown = [".cargo/bin/tool", "work/notes", "work/.codex/config.toml"]
    for name in (*secret, *shown, ".cargo/lib/x"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    environ = {"HOME": str(home), "PATH": f"{home}/.cargo/bin:/usr/bin"}
    made = rules(SandboxPlace(), str(workspace), tmp_path / "a" / "b" / "c", environ, Path("/usr"))
    made |= {home: "read"}  # even if somebody shows it
    assert [name for name in secret if sight_of(made, home / name) != "hide"] == []
    assert [name for name in shown if sight_of(made, home / name) == "hide"] == []
    assert sight_of(made, Path("/etc/shadow")) == "hide"
