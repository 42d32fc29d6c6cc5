"""Programs that mean harm, each in a real sandbox: contained, ended in time, and told."""

import asyncio
import os
import resource
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_agent.core.tool_results import ToolResult
from tests.support.code_sandbox import SMALL, Shop
from tests.support.sandboxes import SECRET, SECRETS, Kind, marked

BOTH: tuple[Kind, ...] = ("bubblewrap", "landlock")
SOON = msgspec.structs.replace(SMALL, seconds=1.0)


@pytest.fixture(params=BOTH)
def either(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    made = Shop(tmp_path, request.param)
    yield made
    assert made.left() == []


HANGS = {
    "a loop that hears nothing": (
        "import signal\n"
        "for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    signal.signal(number, signal.SIG_IGN)\n"
        "while True: pass"
    ),
    "in C": "import ctypes\nctypes.PyDLL(None).sleep(600)",
    "in a child": "import subprocess\nsubprocess.run(['sleep', '600'], start_new_session=True)",
    "stopped": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass",
    "a thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()",
    "at its exit": "import atexit, time\natexit.register(time.sleep, 600)",
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("how", HANGS)
async def test_a_program_that_hangs_is_ended(either: Shop, how: str) -> None:
    worked = await either.run(HANGS[how], SOON)
    assert (worked.ok, worked.limit, worked.trouble) == (False, "time", "it ran longer than 1 s")


BOMBS = {
    "a fork bomb": "import os\nwhile True: os.fork()",
    "threads": (
        "import threading, time\n"
        "while True: threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
    ),
    "children": "import subprocess\nkept = [subprocess.Popen(['sleep', '600']) for _ in range(99)]",
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("how", BOMBS)
async def test_a_program_that_multiplies_is_contained(either: Shop, how: str) -> None:
    worked = await either.run(BOMBS[how], msgspec.structs.replace(SMALL, processes=16))
    assert (worked.ok, worked.limit) == (False, "processes")
    assert worked.trouble.startswith("it started more than 16 processes\nTraceback")


GLUTTONS = {
    "at once": "x = bytearray(1 << 30)",
    "bit by bit": "x = []\nwhile True: x.append(bytearray(1 << 16))",
    "objects": "x = []\nwhile True: x.append([x])",
    "in C": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.malloc.restype = ctypes.c_void_p\n"
        "while at := libc.malloc(1 << 20): ctypes.memset(at, 1, 1 << 20)\n"
        "raise MemoryError"
    ),
    "with others": (
        "import os\nfor _ in range(4): os.fork()\nx = bytearray(100 << 20)\nwhile True: pass"
    ),
    "shared": (
        "import mmap\nkept = []\n"
        "while True:\n    kept.append(mmap.mmap(-1, 8 << 20))\n    kept[-1].write(bytes(8 << 20))"
    ),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("how", GLUTTONS)
async def test_a_program_that_fills_the_memory_is_told_so(either: Shop, how: str) -> None:
    worked = await either.run(GLUTTONS[how], SMALL)
    assert (worked.ok, worked.limit) == (False, "memory")
    assert worked.trouble.startswith("it needed more than 128 MB of memory")


WITHOUT_GROUPS = 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"'
HOST = """
import asyncio, pathlib, sys
from tests.support.code_sandbox import Shop

shop = Shop(pathlib.Path(sys.argv[1]), sys.argv[2])
print(asyncio.run(shop.run(sys.argv[3])).limit)
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize("how", ["with others", "shared"])
@pytest.mark.parametrize("kind", BOTH)
async def test_memory_is_watched_where_there_are_no_control_groups(
    tmp_path: Path, kind: Kind, how: str
) -> None:
    host = await asyncio.create_subprocess_exec(
        *("unshare", "--map-root-user", "--mount", "sh", "-c", WITHOUT_GROUPS, "sh"),
        *(sys.executable, "-c", HOST, str(tmp_path), kind, GLUTTONS[how]),
        stdout=asyncio.subprocess.PIPE,
    )
    assert await host.communicate() == (b"memory\n", None)


async def test_no_memory_can_be_kept_that_nobody_has_mapped(either: Shop) -> None:
    worked = await either.run(
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.shmget(0, 1 << 20, 0o1600), libc.memfd_create(b'x', 0))"
    )
    assert worked.output == "-1 -1\n"


async def test_a_program_that_prints_without_end_is_cut_short(either: Shop) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    worked = await either.run(
        "import os\nblock = b'x' * (1 << 20)\n"
        "for _ in range(1024):\n    os.write(1, block)\n"
        "os.write(1, b'end')"
    )
    assert (worked.ok, worked.limit) == (True, "output")
    said = "\n[the rest was dropped: it printed more than 20000 bytes]"
    assert worked.output == "x" * 20_000 + said
    assert "".join(either.heard) == "x" * 20_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


DISK = """
import os
def fill(folder):
    for n in range(99):
        with open(os.path.join(folder, str(n)), "wb") as file:
            for _ in range(8):
                file.write(bytes(1 << 20))
for folder in (".", "/dev/shm"):
    try:
        fill(folder)
    except OSError as error:
        print(type(error).__name__, error.strerror)
"""


async def test_a_program_cannot_fill_the_disk(either: Shop) -> None:
    free = os.statvfs(either.box.person)
    # More memory than it can fill: where temporary files are in memory, both would be used up.
    worked = await either.run(DISK, msgspec.structs.replace(SMALL, memory_mb=2048))
    if "programs" in either.box.environ["PATH"]:  # Landlock: the files are on the disk
        assert (worked.ok, worked.limit) == (False, "disk")
    else:
        assert worked.output == "OSError No space left on device\n" * 2
    now = os.statvfs(either.box.person)
    assert (free.f_bavail - now.f_bavail) * free.f_frsize < 1 << 30


async def test_folders_without_end_are_removed_too(either: Shop) -> None:
    worked = await either.run(
        "import os\n"
        "for n in range(3000):\n    os.mkdir('x' * 9)\n    os.chdir('x' * 9)\n"
        "os.chmod('..', 0)"
    )
    assert worked.limit in ("", "disk")


async def test_one_file_is_no_larger_than_all_may_be(either: Shop) -> None:
    worked = await either.run("open('x', 'wb').truncate(1 << 40)")
    assert "File too large" in worked.trouble


DEATHS = {
    "without a word": "import os\nos._exit(0)",
    "by its own hand": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "by a fault": "import ctypes\nctypes.string_at(1)",
    "with its parent": (
        "import os, signal, time\n"
        "os.kill(os.getppid(), signal.SIGKILL)\n"
        "try: os.kill(os.getppid(), signal.SIGTERM)\nexcept OSError: pass  # it has another one\n"
        "time.sleep(0.3)\nos._exit(3)"
    ),
    "with all": (
        "import os, signal\ntry: os.kill(-1, signal.SIGKILL)\nexcept OSError: pass\nos._exit(3)"
    ),
    "by closing all": "import os, time\nos.closerange(0, 4096)\nwhile True: time.sleep(1)",
    "by taking over all": (
        "import os, time\n"
        "for file in range(3, 256):\n"
        "    try: os.dup2(1, file)\n"
        "    except OSError: pass\n"
        "while True: time.sleep(1)"
    ),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("how", DEATHS)
async def test_a_program_that_dies_is_told_so(either: Shop, how: str) -> None:
    worked = await either.run(DEATHS[how], SMALL)
    assert (worked.ok, worked.limit) == (False, "died")
    assert worked.trouble.startswith(("it died without a message", "it closed its connection"))


SEND = """
import json, os, struct, time
def send(data):
    for file in range(3, 256):
        try: os.write(file, data)
        except OSError: pass
def frame(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    send(struct.pack("<I", len(data)) + data)
"""
FORGED = {
    "noise": "send(os.urandom(100_000))",
    "a frame too large": "send(struct.pack('<I', 0xFFFFFFFF) + b'x' * 100_000)",
    "no JSON": "frame(b'{')",
    "no text": "frame(b'\\xff\\xfe')",
    "another kind": "frame({'type': 'quit'})",
    "wrong types": "frame({'type': 'call', 'id': 'x', 'tool': 1, 'arguments': []})",
    "too deep": "frame(b'[' * 1_000_000)",
    "deep arguments": (
        'frame(b\'{"type":"call","id":1,"tool":"x","arguments":{"a":\' + b\'[\' * 100_000)'
    ),
    "a number too large": (
        "frame({'type': 'call', 'id': 1 << 60, 'tool': 'terminal', 'arguments': {}})"
    ),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("what", FORGED)
async def test_nonsense_to_the_runtime_ends_the_program(either: Shop, what: str) -> None:
    worked = await either.run(f"{SEND}\n{FORGED[what]}\ntime.sleep(600)")
    assert (worked.ok, worked.limit) == (False, "died")
    assert worked.trouble == "it sent the runtime an invalid message"
    assert either.called == []


async def test_forged_calls_get_no_further_than_others(either: Shop) -> None:
    worked = await either.run(
        f"{SEND}\n"
        "for n in range(1000, 1300):\n"
        "    tool = ('terminal', 'execute_code', 'rm')[n % 3]\n"
        "    frame({'type': 'call', 'id': n, 'tool': tool, 'arguments': {'n': n}})\n"
        "frame({'type': 'end', 'ok': True, 'value': 'mine'})\n"
        "print(terminal(check=False))"
    )
    assert [tool for tool, _ in either.called] == ["terminal"] * SMALL.calls
    assert "more than 5 calls cannot be made" in worked.output


async def test_a_program_that_does_not_listen_to_answers_is_ended(either: Shop) -> None:
    worked = await either.run(
        f"{SEND}\nfiller = 'x' * 500_000\n"
        "while True: frame({'type': 'call', 'id': 1, 'tool': filler, 'arguments': {}})",
        SOON,
    )
    assert (worked.ok, worked.limit) == (False, "time")


async def test_a_large_answer_is_cut_and_a_large_call_refused(either: Shop) -> None:
    async def call(tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult("y" * 10_000_000, {"more": "z" * 10_000_000})

    worked = await either.run(
        "said = terminal()\nprint(len(said) < 1_000_000, said[-30:], said.data)\n"
        "terminal(command='x' * 5_000_000)",
        call=call,
    )
    assert worked.output == "True [cut: the result is too large] {}\n"
    assert "bytes are too many" in worked.trouble


LOOK = """
import os, subprocess
seen = []
for root in ROOTS:
    for folder, folders, files in os.walk(root):
        for name in files:
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    if SECRET in file.read(100_000):
                        seen.append(name)
            except OSError:
                pass
print(seen)
for path in PATHS:
    try:
        print(path, os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(99))
    except OSError as error:
        print("hidden")
"""


async def test_a_program_that_looks_for_secrets_finds_none(
    either: Shop, tmp_path_factory: pytest.TempPathFactory
) -> None:
    beside = tmp_path_factory.mktemp("another")
    (beside / "note").write_text(SECRET)
    (either.box.workspace / "mine").write_text(SECRET)
    person = either.box.person
    private = [str(person / name) for name in SECRETS]
    paths = [
        *private, str(person), str(either.box.workspace), str(beside), "/etc/shadow", "/etc/ssh",
        "/var", "/srv", "/opt", "/mnt", "/media", "/run", "/home", "/boot", "/sys",
        str(Path.cwd() / "pyproject.toml"), str(either.folder),
    ]  # fmt: skip
    # The way to the package itself is seen, wherever this was checked out; nothing beside it.
    seen = [path for path in paths if Path.cwd().is_relative_to(path)]
    paths = [path for path in paths if Path(path).exists() and path not in seen]
    source = LOOK.replace("PATHS", repr(paths)).replace("SECRET", repr(SECRET.encode()))
    worked = await either.run(source.replace("ROOTS", repr(["/tmp", str(person)])))
    first, *rest = worked.output.splitlines()
    assert first == "[]"
    assert rest == ["hidden"] * len(paths)


async def test_a_program_has_no_secret_in_its_environment(either: Shop) -> None:
    worked = await either.run(
        "import os\n"
        "print(dict(os.environ))\n"
        "for pid in ('self', os.getppid(), 1):\n"
        "    try: print(open(f'/proc/{pid}/environ').read())\n"
        "    except OSError: pass"
    )
    assert SECRET not in worked.output
    assert str(either.box.person) not in worked.output.replace(str(either.folder), "")


NETWORK = """
import socket
def attempt(what):
    try:
        what()
        print("reached")
    except OSError as error:
        print(type(error).__name__)
def tcp():
    socket.create_connection(("127.0.0.1", PORT), timeout=5).close()
def udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b"x", ("127.0.0.1", PORT))
def unix():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(PATH)
def abstract():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(ABSTRACT)
def listen():
    socket.create_server(("127.0.0.1", 0)).close()
def names():
    socket.getaddrinfo("example.com", 80)
def raw():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
for what in (tcp, udp, unix, abstract, listen, names, raw):
    attempt(what)
"""


async def test_a_program_reaches_no_network_and_no_socket(either: Shop) -> None:
    path = str(either.box.workspace / "socket")
    abstract = f"\0hermes-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as named,
    ):
        unix.bind(path)
        unix.listen()
        named.bind(abstract)
        named.listen()
        source = NETWORK.replace("PORT", str(tcp.getsockname()[1]))
        source = source.replace("PATH", repr(path)).replace("ABSTRACT", repr(abstract))
        worked = await either.run(source)
    said = worked.output.split()
    assert (len(said), worked.ok) == (7, True)
    assert set(said) <= {"PermissionError", "gaierror"}


async def test_a_program_neither_reads_nor_ends_other_processes(either: Shop) -> None:
    mark = f"592.{os.getpid()}"
    other = await asyncio.create_subprocess_exec("sleep", mark, env={"SOME_TOKEN": SECRET})
    worked = await either.run(
        "import os, signal\n"
        f"for pid in ({other.pid}, {os.getpid()}):\n"
        "    for name in ('environ', 'mem', 'maps', 'fd/0', 'root/etc/shadow', 'cwd/.'):\n"
        "        try: print(open(f'/proc/{pid}/{name}', 'rb').read(100))\n"
        "        except OSError: pass\n"
        "    try: os.kill(pid, signal.SIGKILL)\n"
        "    except OSError as error: print(type(error).__name__)"
    )
    assert set(worked.output.split()) <= {"ProcessLookupError", "PermissionError"}
    assert len(marked(mark)) == 1
    other.kill()
    await other.wait()


async def test_links_lead_nowhere_and_the_system_cannot_be_written(either: Shop) -> None:
    secret = either.box.person / SECRETS[0]
    targets = ["/usr/bin/hermes-was-here", "/etc/passwd", str(either.folder / "x"), "/x", "/dev/x"]
    worked = await either.run(
        "import os, site, sys\n"
        f"os.symlink({str(secret)!r}, 'link')\nos.symlink('/proc/1/root', 'root')\n"
        f"for path in ('link', 'root{secret}', '/proc/self/root{secret}', '/proc/1/cwd/x'):\n"
        "    try: print(open(path).read())\n"
        "    except OSError: pass\n"
        f"for path in {targets!r} + [os.__file__, sys.executable]:\n"
        "    try:\n        open(path, 'a').write('x')\n        print(path)\n"
        "    except OSError: pass\n"
        "for act in (lambda: os.link('/etc/passwd', 'a'), lambda: os.mknod('b', 0o60666, 2048),\n"
        "            lambda: os.chroot('.'), lambda: os.setuid(1)):\n"
        "    try:\n        act()\n        print(act)\n"
        "    except OSError: pass\n"
    )
    assert (worked.output, worked.trouble) == ("", "")
