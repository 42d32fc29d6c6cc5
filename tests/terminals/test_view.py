"""Commands that may only look: the kernel holds them to it, whatever they try."""

import fcntl
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from hermes_agent.core.protocols import CommandState, ShellCommand
from hermes_agent.terminals.sandbox import seccomp, secret_scan
from hermes_agent.terminals.sandbox.secret_scan import SecretScan
from tests.support.terminals import LocalPlace, lives, until


class Looker:
    """Runs texts in one of the views, and others as the user."""

    def __init__(self, folder: Path, **environ: str) -> None:
        home = folder / "home"
        home.mkdir()
        (home / "state.db").write_text("journal")
        self.home = home
        self.place = LocalPlace(folder)
        self.place.spool = home / "terminals" / "session" / "local"
        self.terminal = self.place.open({**os.environ, **environ})
        self._number = 0

    async def look(self, text: str, **more: object) -> CommandState:
        return await self._run(text, confinement="read-only", **more)

    async def build(self, text: str, **more: object) -> CommandState:
        return await self._run(text, confinement="workspace", **more)

    async def act(self, text: str) -> CommandState:
        return await self._run(text)

    async def _run(self, text: str, **more: object) -> CommandState:
        self._number += 1
        return await self.terminal.run(ShellCommand(f"run-{self._number}", text, **more))  # type: ignore[arg-type]


@pytest_asyncio.fixture
async def looker(tmp_path: Path) -> AsyncIterator[Looker]:
    made = Looker(tmp_path)
    yield made
    await made.terminal.destroy()


async def test_a_database_file_can_be_read_and_whatever_sqlite_is_told_nothing_is_written(
    looker: Looker,
) -> None:
    with sqlite3.connect(looker.place.workspace / "db") as file:
        file.executescript("create table t (a); insert into t values (1)")
    told = await looker.look(
        "sqlite3 db 'select a from t'; sqlite3 db 'delete from t'; sqlite3 db '.shell touch x'; ls"
    )
    assert told.stdout == "1\ndb\n"
    assert "readonly" in told.stderr


async def test_nothing_can_be_written_but_scratch(looker: Looker) -> None:
    work = looker.place.workspace
    (work / "kept").write_text("as it was")
    tried = await looker.look(
        "echo new > made; echo more >> kept; rm kept; mv kept away; chmod 777 kept; touch kept;"
        f"ln -s / link; mkfifo pipe; echo x > {looker.home}/state.db; echo x > /proc/self/comm;"
        "echo y > $TMPDIR/note && cat $TMPDIR/note"
    )
    assert tried.stdout == "y\n"
    assert sorted(path.name for path in work.iterdir()) == ["kept"]
    assert (work / "kept").read_text() == "as it was"
    assert (looker.home / "state.db").read_text() == "journal"


@pytest.fixture
def outside() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"], env={"TOKEN": "secret-of-another"}) as process:
        yield process
        process.kill()


async def test_no_process_outside_is_reached_though_all_are_seen(
    looker: Looker, outside: subprocess.Popen[bytes]
) -> None:
    pid = outside.pid
    tried = await looker.look(
        f"kill -9 {pid}; kill -TERM -- -1; kill -0 {pid} || echo deaf; cat /proc/{pid}/environ;"
        f"cat /proc/{pid}/fd/0; readlink /proc/{pid}/exe; ps -o args= -p {pid}"
    )
    assert (tried.code, tried.stdout) == (0, "deaf\nsleep 1000\n")
    assert outside.poll() is None
    assert "secret" not in tried.stdout + tried.stderr


async def test_no_socket_leads_anywhere(looker: Looker, tmp_path: Path) -> None:
    with socket.socket() as inet, socket.socket(socket.AF_UNIX) as unix:
        inet.bind(("127.0.0.1", 0))
        unix.bind(str(tmp_path / "door"))
        for listener in (inet, unix):
            listener.listen()
            listener.setblocking(False)
        port = inet.getsockname()[1]
        tried = await looker.look(
            f"echo x > /dev/tcp/127.0.0.1/{port}; echo x > /dev/udp/127.0.0.1/{port};"
            f"python3 -c 'import socket; socket.socket(1).connect(\"{tmp_path}/door\")'"
        )
        assert tried.code != 0
        for listener in (inet, unix):
            with pytest.raises(BlockingIOError):
                listener.accept()


async def test_secrets_and_our_own_files_are_not_there(looker: Looker) -> None:
    work, home = looker.place.workspace, looker.home
    (work / ".env").write_text("KEY=secret-in-work")
    (work / "plain").write_text("plain")
    (home / "results" / "session").mkdir(parents=True)
    (home / "results" / "session" / "1.txt").write_text("a result")
    (home / "results" / "other").mkdir()
    tried = await looker.look(
        f"cat plain .env; cat /etc/shadow; cat {home}/state.db; ls {home}/results;"
        f"cat {home}/results/session/1.txt; ls -A {home}/terminals/session/local/private"
    )
    assert tried.stdout == "plainsession\na result"
    # Beginning with what went before, which the agent may read again:
    again = await looker.look(f"cat {home}/terminals/session/local/run-1.o")
    assert again.stdout == "plainsession\na result"


async def test_the_folder_and_named_variables_carry_over_both_ways(looker: Looker) -> None:
    (looker.place.workspace / "sub").mkdir()
    await looker.act("shared=before; export SEEN=yes; helper() { echo helped; }")
    looked = await looker.look("echo $shared $SEEN; helper; cd sub; shared='a  b'; export NEW=x")
    assert looked.stdout == "before yes\nhelped\n"
    acted = await looker.act('echo "$shared" $NEW $SEEN; pwd; env | grep -c "^NEW="')
    assert acted.stdout == f"a  b x yes\n{looker.place.workspace}/sub\n0\n"
    assert (await looker.look('echo "$shared"; pwd')).stdout.endswith("/sub\n")


async def test_what_comes_back_is_never_more_than_a_value(looker: Looker, tmp_path: Path) -> None:
    await looker.act("declare -i number=1; declare -a list=(1); fixed=1; readonly fixed")
    bad = f"a[$(touch {tmp_path}/escaped)]"
    await looker.look(
        f"number() {{ :; }}; unset number; number='{bad}'; declare +i number; number='{bad}';"
        "PATH=/tmp/evil; IFS=x; BASH_ENV=/tmp/evil; LD_PRELOAD=/tmp/evil.so; fixed=2;"
        "list='x'; ls() { echo evil; }; alias cat=evil; trap 'echo evil' DEBUG; set -o errexit"
    )
    after = await looker.act(
        'echo $number $fixed ${list[0]} "$IFS"; echo ${BASH_ENV-} ${LD_PRELOAD-}; type -t ls; '
        "false; echo on; case $PATH in *evil*) echo evil ;; esac"
    )
    assert after.stdout == "1 1 1  \t\n\n\nfile\non\n"
    assert not (tmp_path / "escaped").exists()


async def test_how_others_run_and_what_devices_are_cannot_be_changed(
    looker: Looker, outside: subprocess.Popen[bytes]
) -> None:
    mode = Path("/dev/null").stat().st_mode
    tried = await looker.look(
        f"prlimit --pid {outside.pid} --cpu=1:1; renice -n 5 -p {outside.pid};"
        f"taskset -p 1 {outside.pid}; chrt -b -p 0 {outside.pid}; ionice -c 3 -p {outside.pid};"
        "chmod 644 /dev/null; chmod 644 /proc/$$/fd/1; nice true && echo own",
    )
    assert tried.stdout.splitlines()[-1] == "own"
    assert Path("/dev/null").stat().st_mode == mode
    assert os.getpriority(os.PRIO_PROCESS, outside.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    assert outside.poll() is None


OF_A_USER = """
import ctypes, errno, os, socket
call = ctypes.CDLL(None, use_errno=True)
try:  # to less is denied as such if it is passed on, and then changes nothing
    os.setpriority(os.PRIO_USER, 0, -20)
except OSError as error:
    print(errno.errorcode[error.errno])
call.syscall({"x86_64": 251, "aarch64": 30}[os.uname().machine], 3, 0, 7 << 13)  # no such class
print(errno.errorcode[ctypes.get_errno()])
try:
    socket.socketpair(socket.AF_INET)
except OSError as error:
    print(errno.errorcode[error.errno])
print(len(socket.socketpair()))
"""


async def test_not_even_all_processes_of_a_user_are_changed_at_once(looker: Looker) -> None:
    (looker.place.workspace / "all.py").write_text(OF_A_USER)
    tried = await looker.look(f"{sys.executable} -IS all.py")
    assert tried.stdout.split() == ["EPERM", "EPERM", "EPERM", "2"]


SET_ID = """
import ctypes, errno, os, platform
import pyseccomp
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *words):
    number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
    if number >= 0 and libc.syscall(number, *words) >= 0:
        print("made by", name)
    elif number >= 0 and ctypes.get_errno() != (errno.ENOSYS if name == "openat2" else errno.EPERM):
        print(name, errno.errorcode[ctypes.get_errno()])
at, file = -100, os.open("plain", os.O_CREAT | os.O_RDWR, 0o700)
how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0)
call("openat2", at, b"new", how, 24)
for mode in (0o4755, 0o2755, 0o6755):
    call("chmod", b"plain", mode)
    call("fchmod", file, mode)
    call("fchmodat", at, b"plain", mode)
    call("fchmodat2", at, b"plain", mode, 0)
    call("creat", b"new", mode)
    call("mknod", b"new", 0o100000 | mode, 0)
    call("mknodat", at, b"new", 0o100000 | mode, 0)
    for flags, where in ((os.O_CREAT | os.O_WRONLY, b"new"), (os.O_TMPFILE | os.O_RDWR, b".")):
        call("open", where, flags, mode)
        call("openat", at, where, flags, mode)
    os.mkdir(f"folder-{mode}", mode)
    assert os.stat(f"folder-{mode}").st_mode & 0o6000 == 0
libc.syscall(pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, "openat"), at, b"plain", 0, 0o4755)
os.chmod("plain", 0o1755)
print(oct(os.stat("plain").st_mode), sorted(os.listdir()))
"""


async def test_no_program_is_made_that_runs_as_its_owner(looker: Looker) -> None:
    (looker.place.workspace / "try.py").write_text(SET_ID)
    tried = await looker.build(f"mkdir in && cd in && {sys.executable} -I ../try.py")
    folders = [f"folder-{mode}" for mode in (0o2755, 0o4755, 0o6755)]
    assert (tried.stdout, tried.stderr) == (f"0o101755 {[*sorted(folders), 'plain']}\n", "")


async def test_files_are_copied_with_their_modes(looker: Looker) -> None:
    done = await looker.build(
        "set -e; mkdir a; echo x > a/run; chmod 750 a/run; touch -d 2020-01-01 a/run;"
        "cp -a a b; tar -cf - a | (mkdir c; tar -xpf - -C c); install -m 750 a/run d;"
        "git init -q r 2>&1; cp -p a/run r; git -C r add run; git clone -q r s;"
        "stat -c '%a %Y' a/run b/run c/a/run; stat -c %a d"
    )
    assert done.code == 0, done.stderr
    assert done.stdout.split() == ["750", "1577836800"] * 3 + ["750"]


SIGNALLING = """
import ctypes, fcntl, os, sys
filter = ctypes.create_string_buffer(open(sys.argv[1], "rb").read())
class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("text", ctypes.c_void_p)]
given = Program((len(filter) - 1) // 8, ctypes.addressof(filter))
call = ctypes.CDLL(None, use_errno=True)
assert call.prctl(38, 1, 0, 0, 0) == 0 and call.prctl(22, 2, ctypes.byref(given), 0, 0) == 0
read, _ = os.pipe()
for command, value in ((8, os.getpid()), (10, 9), (fcntl.F_SETFD, 0)):
    try:
        fcntl.fcntl(read, command, value)
        print("done")
    except PermissionError:
        print("refused")
"""


def test_without_landlock_the_kernel_is_not_told_to_signal_either(tmp_path: Path) -> None:
    (tmp_path / "filter").write_bytes(seccomp.program(signals=False))
    words = [sys.executable, "-IS", "-c", SIGNALLING, str(tmp_path / "filter")]
    said = subprocess.run(words, capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["refused", "refused", "done"]


async def test_no_core_is_dumped_not_even_in_the_background(looker: Looker) -> None:
    assert (await looker.look("ulimit -c")).stdout == "0\n"
    begun = await looker.look("ulimit -c", background=True)

    async def told() -> bool:
        return (await looker.terminal.follow(begun.id)).stdout == "0\n"

    await until(told)


async def test_the_first_command_of_a_view_is_in_its_control_groups(looker: Looker) -> None:
    told = await looker.look("cat /proc/self/cgroup")
    groups = (looker.place.spool / "read-only.limits").read_text().splitlines()[1:]
    assert [group for group in groups if Path(group).name not in told.stdout] == []


async def test_nobody_in_a_view_hands_it_commands(looker: Looker) -> None:
    into = looker.place.spool / "read-only.look" / "in"
    tried = await looker.look(f"echo 'renew /tmp/evil' > {into} || echo refused; echo on")
    assert tried.stdout == "refused\non\n"
    assert (await looker.look("echo again")).stdout == "again\n"


async def test_what_is_left_when_a_view_ends_ends_as_well(looker: Looker) -> None:
    ended = await looker.look("(setsid sleep 1000 & echo $!); kill -9 $$")
    assert ended.code == 126
    assert "the confined shell ended" in ended.stderr
    assert (await looker.look("echo again")).stdout == "again\n"


async def test_a_command_whose_view_ends_never_seems_to_have_succeeded(looker: Looker) -> None:
    for _ in range(10):
        assert (await looker.look("true")).code == 0
        assert (await looker.look("kill -9 $$")).code == 126


async def test_a_look_sets_only_what_it_assigns_by_name(looker: Looker) -> None:
    out = looker.place.spool / "read-only.look" / "out"
    await looker.look(
        "named=1; { printf 'set PATH=/evil\\0set LD_PRELOAD=/evil.so\\0'; "
        f"printf 'set %s=2\\0' other; }} > {out}"
    )
    after = await looker.act('echo $named "${other-}" "${LD_PRELOAD-}"; echo $PATH')
    assert after.stdout == f"1  \n{os.environ['PATH']}\n"


async def test_a_file_that_the_shell_has_open_leads_out_of_nothing(looker: Looker) -> None:
    work = looker.place.workspace
    await looker.act("exec 5>open 6<>other; echo first >&5")
    await looker.look("echo second >&5; echo third >&6; echo x > /proc/self/fd/5; ls /proc/$$/fd/")
    assert (work / "open").read_text() == "first\n"
    assert (work / "other").read_text() == ""


async def test_what_a_look_leaves_running_ends_with_it(looker: Looker) -> None:
    left = await looker.look("(setsid sleep 1000 & echo $!) ; sleep 1000 & echo $!")
    pids = [int(word) for word in left.stdout.split()]
    assert len(pids) == 2
    assert not any(lives(pid) for pid in pids)
    assert (await looker.look("echo again")).stdout == "again\n"


MANY = """
import os, time
made = 0
try:
    while made < 1500:
        if os.fork() == 0:
            time.sleep(1000)
        made += 1
except OSError:
    pass
print(made)
"""


async def test_a_look_that_starts_too_many_processes_is_held_and_all_end(looker: Looker) -> None:
    (looker.place.workspace / "many.py").write_text(MANY)
    many = await looker.look(f"{sys.executable} -IS many.py", timeout=60)
    limit = (looker.place.spool / "read-only.limits").read_text()
    held = limit.startswith("-") or os.geteuid() != 0  # only a control group limits root
    assert int(many.stdout) == 1500 or held
    assert int(many.stdout) < 1000 or not held
    assert (await looker.look("pgrep -cf many[.]py")).stdout == "0\n"


async def test_a_look_can_be_stopped_and_the_next_one_runs(looker: Looker) -> None:
    stopped = await looker.look("echo $BASHPID; trap '' INT TERM; sleep 1000", timeout=1.0)
    assert stopped.state == "timeout"
    await until(lambda: not lives(int(stopped.stdout)))
    assert (await looker.look("echo again; exit 7")).code == 7
    assert [(await looker.look("exit 3")).code for _ in range(3)] == [3, 3, 3]
    assert (await looker.look("echo again")).stdout == "again\n"


async def test_a_look_in_the_background_is_held_as_well(looker: Looker) -> None:
    begun = await looker.look("touch made; echo looked; sleep 1000", background=True)

    async def looked() -> bool:
        return "looked" in (await looker.terminal.follow(begun.id)).stdout

    await until(looked)
    ended = await looker.terminal.stop(begun.id)
    assert ended.state == "stopped"
    assert "Read-only file system" in ended.stderr
    assert list(looker.place.workspace.iterdir()) == []


async def test_a_look_outlives_the_runtime_and_its_view_goes_with_the_shell(
    looker: Looker,
) -> None:
    await looker.look("true")
    shells = [looker.place.daemon(), looker.place.spine()]
    view = int(Path(f"/proc/{shells[1]}/task/{shells[1]}/children").read_text().split()[0])
    other = looker.place.open()
    assert (await other.run(ShellCommand("other", "pwd", confinement="read-only"))).code == 0
    assert lives(view)
    os.kill(shells[1], 9)
    await until(lambda: not lives(view))
    assert (await looker.look("echo again")).stdout == "again\n"


async def test_a_large_output_comes_through_whole(looker: Looker) -> None:
    large = await looker.look("seq 1 200000; seq 1 1000 >&2; exit 3")
    assert large.code == 3
    assert Path(large.spool).read_text().split()[-1] == "200000"
    assert large.stderr_size == len("".join(f"{number}\n" for number in range(1, 1001)))


async def test_a_build_can_write_the_workspace_and_nothing_else(
    looker: Looker, tmp_path: Path
) -> None:
    work, elsewhere = looker.place.workspace, tmp_path / "elsewhere"
    elsewhere.mkdir()
    (work / "link").symlink_to(elsewhere)
    (work / ".git" / "hooks").mkdir(parents=True)
    (work / ".env").write_text("KEY=secret-in-work")
    tried = await looker.build(
        f"echo new > made; mkdir sub; rm -r sub; echo x > {elsewhere}/made; echo x > link/made;"
        f"mv made {elsewhere}/; echo x > .git/hooks/pre-commit; echo x > {looker.home}/state.db;"
        "cat .env; echo y > $TMPDIR/note && cat $TMPDIR/note; cat made"
    )
    assert tried.stdout == "y\nnew\n"
    assert list(elsewhere.iterdir()) == []
    assert list((work / ".git" / "hooks").iterdir()) == []
    assert (looker.home / "state.db").read_text() == "journal"
    assert (work / ".env").read_text() == "KEY=secret-in-work"


async def test_a_link_that_is_changed_while_it_writes_leads_nowhere(
    looker: Looker, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    await looker.build(
        "mkdir inside; ln -s inside place; for n in $(seq 200); do"
        f" ln -sfn {elsewhere} place & echo x > place/made 2>/dev/null; ln -sfn inside place; done"
    )
    assert list(elsewhere.iterdir()) == []


async def test_a_build_reaches_hosts_but_no_service_of_the_machine(looker: Looker) -> None:
    service = Path("/run/hermes-test-service")
    if os.geteuid() != 0:
        service = looker.home / "service"
    with socket.socket() as inet, socket.socket(socket.AF_UNIX) as unix:
        inet.bind(("127.0.0.1", 0))
        unix.bind(str(service))
        for listener in (inet, unix):
            listener.listen()
            listener.setblocking(False)
        try:
            await looker.build(
                f"echo x > /dev/tcp/127.0.0.1/{inet.getsockname()[1]};"
                f"python3 -c 'import socket; socket.socket(1).connect(\"{service}\")'"
            )
        finally:
            service.unlink()
        inet.accept()[0].close()
        with pytest.raises(BlockingIOError):
            unix.accept()


async def test_both_views_and_the_shell_share_a_folder_and_variables(looker: Looker) -> None:
    (looker.place.workspace / "sub").mkdir()
    await looker.act("first=1")
    await looker.look("second=$first.2; cd sub")
    built = await looker.build("echo $first $second; basename $PWD; third=3")
    assert built.stdout == "1 1.2\nsub\n"
    assert (await looker.look("echo $third; cd ..")).stdout == "3\n"
    assert (await looker.build("basename $PWD; exit 4")).stdout == "work\n"
    assert (await looker.act("echo $second $third; basename $PWD")).stdout == "1.2 3\nwork\n"


def test_files_that_may_hold_secrets_are_found_outside_of_the_workspace(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    hidden = ("shop/.env", "shop/conf/server.key", ".aws/credentials", "notes/credentials")
    shown = ("shop/.env.example", "lib/secrets.py", "shop/app.conf", "notes/keys.txt")
    for name in (*hidden, *shown):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("KEY=x")
    work.mkdir()
    found = {path for path, _ in SecretScan([str(home)], str(work), wide=True).found()}
    inside = {path.removeprefix(f"{home}/") for path in found if path.startswith(f"{home}/")}
    assert inside == {*hidden}


def test_a_certificate_is_no_secret_wherever_its_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "root.crt").write_text("-----BEGIN CERTIFICATE-----")
    (tmp_path / "both.crt").write_text("-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----")
    for name in ("root", "both"):
        (tmp_path / f"{name}.pem").symlink_to(f"{name}.crt")
    found = SecretScan((), str(tmp_path), wide=True).in_workspace()
    assert {Path(path).name for path, _ in found} == {"both.crt"}


async def test_a_secret_that_is_made_or_replaced_later_is_not_there_either(looker: Looker) -> None:
    work = looker.place.workspace
    (work / "plain").write_text("plain")
    assert (await looker.look("cat plain .env")).stdout == "plain"
    (work / ".env").write_text("KEY=secret-in-work")
    assert (await looker.look("cat plain .env")).stdout == "plain"
    (work / ".env.new").write_text("KEY=another-secret")
    (work / ".env.new").rename(work / ".env")
    (work / "sub").mkdir()
    (work / "sub" / "secrets.yaml").write_text("key: secret")
    assert (await looker.look("cat plain .env sub/secrets.yaml")).stdout == "plain"
    assert (await looker.build("cat plain .env sub/secrets.yaml")).stdout == "plainkey: secret"


async def test_a_secret_that_is_made_again_under_the_number_of_the_old_one_is_not_there(
    looker: Looker,
) -> None:
    work = looker.place.workspace
    first, second = work / ".env", work / ".env.new"
    first.write_text("KEY=first")
    assert (await looker.look("cat .env")).stdout == ""
    for _ in range(20):  # file systems give numbers anew, sooner or later
        number = first.stat().st_ino
        for _ in range(2):
            second.write_text("KEY=replaced")
            second.rename(first)
        if first.stat().st_ino == number:
            break
        assert (await looker.look("cat .env")).stdout == ""
    assert (await looker.look("cat .env")).stdout == ""


async def test_a_secret_that_is_replaced_or_comes_again_is_not_there(looker: Looker) -> None:
    secret, other = looker.place.workspace / ".env", looker.place.workspace / "other"
    secret.write_text("KEY=first")
    assert (await looker.look("cat .env")).stdout == ""
    other.write_text("KEY=second")
    other.rename(secret)
    assert (await looker.look("cat .env")).stdout == ""
    secret.unlink()
    assert (await looker.look("cat .env")).stdout == ""
    secret.write_text("KEY=third")
    assert (await looker.look("cat .env")).stdout == ""


async def test_what_a_secret_name_leads_to_is_not_there_whatever_it_is_called(
    looker: Looker, tmp_path: Path
) -> None:
    work, shared = looker.place.workspace, tmp_path / "shared"
    shared.mkdir()
    for target in (shared / "production", shared / "sample.env.example", work / "settings"):
        target.write_text("KEY=value")
    (work / ".env").symlink_to(shared / "production")
    (work / "server.key").symlink_to("settings")
    (work / ".env.local").symlink_to(shared / "sample.env.example")
    (work / ".env.none").symlink_to("/dev/null")
    (work / "id_rsa").symlink_to("id_rsa")
    text = f"cat .env server.key settings {shared}/production; cat .env.local .env.none; echo on"
    assert (await looker.look(text)).stdout == "KEY=valueon\n"
    (shared / "new").write_text("KEY=new")
    (shared / "new").rename(shared / "production")
    assert (await looker.look("cat .env; echo on")).stdout == "on\n"


async def test_secrets_of_other_applications_are_not_there(tmp_path: Path) -> None:
    user = tmp_path / "user"
    (user / "app" / "config").mkdir(parents=True)
    (user / "app" / "config" / ".env").write_text("KEY=secret")
    (user / "app" / "main.py").write_text("plain")
    made = Looker(tmp_path, HOME=str(user))
    looked = await made.look(f"cd {user}/app; cat main.py config/.env")
    await made.terminal.destroy()
    assert looked.stdout == "plain"


def test_secrets_of_other_applications_are_found_deep_inside(
    tmp_path: Path,
) -> None:
    inner = tmp_path / "shop" / "releases" / "7" / "shared" / "config"
    inner.mkdir(parents=True)
    (inner / ".env").write_text("KEY=secret")
    scan = SecretScan([], str(tmp_path / "work"), wide=True)
    found = scan._applications(str(tmp_path), secret_scan.ELSEWHERE_LEVELS)
    assert str(inner / ".env") in {path for path, _ in found}


async def test_locks_in_a_view_keep_nobody_waiting(looker: Looker) -> None:
    kept = looker.place.workspace / "kept"
    kept.write_text("")
    held = await looker.look("exec 7< kept; flock -n 7; echo $?; sleep 1000", background=True)

    async def locked() -> bool:
        return (await looker.terminal.follow(held.id)).stdout == "0\n"

    await until(locked)
    with kept.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where it is locked
    assert (await looker.terminal.stop(held.id)).state == "stopped"


async def test_a_look_can_make_only_so_many_files(looker: Looker) -> None:
    made = await looker.look(
        f"cd $TMPDIR; {sys.executable} -IS -c 'for n in range(20000): open(str(n), \"w\")';"
        "ls | wc -l"
    )
    assert 10_000 < int(made.stdout) < 17_000


async def test_a_build_connects_to_no_socket_and_changes_no_device(
    looker: Looker, tmp_path: Path
) -> None:
    mode = Path("/dev/null").stat().st_mode
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "door"))
        unix.listen()
        unix.setblocking(False)
        tried = await looker.build(
            f"python3 -c 'import socket; socket.socket(1).connect(\"{tmp_path}/door\")';"
            "chmod 600 /dev/null || echo refused"
        )
        with pytest.raises(BlockingIOError):
            unix.accept()
    assert tried.stdout == "refused\n"
    assert Path("/dev/null").stat().st_mode == mode


async def test_a_repository_that_a_build_makes_is_set_aside(looker: Looker) -> None:
    made = await looker.build("git init -q; ls -d .git")
    assert made.stdout == ".git\n"
    assert "was moved" in made.stderr
    assert not (looker.place.workspace / ".git").exists()


async def test_the_repository_is_held_however_it_comes_to_be_there(looker: Looker) -> None:
    work = looker.place.workspace
    (work / "real" / "hooks").mkdir(parents=True)
    held = "echo x > .git/hooks/made || echo held"
    await looker.build("true")
    for make in ("git init -q", "rm -rf .git; git init -q", "rm -rf .git; ln -s real .git"):
        await looker.act(make)
        assert (await looker.build(held)).stdout == "held\n", make
    await looker.build("rm .git; mkdir .git; echo x > .git/config")
    assert not (work / ".git").exists()


async def test_a_repository_may_be_a_link_to_elsewhere(looker: Looker, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (looker.place.workspace / ".git").symlink_to(tmp_path / "elsewhere")
    assert (await looker.build("echo x > .git/made || echo held")).stdout == "held\n"


async def test_a_repository_that_a_file_names_is_held(looker: Looker) -> None:
    for repository in ("inner.git", "$PWD/other.git"):
        await looker.act(f"rm -f .git; git init -q --separate-git-dir={repository}")
        held = f"echo x > {repository}/hooks/made || echo held; echo x > .git || echo held"
        assert (await looker.build(held)).stdout == "held\nheld\n"


async def test_a_repository_does_not_uncover_what_is_hidden(looker: Looker) -> None:
    for named in (str(looker.home), "/", ".git", "."):
        (looker.place.workspace / ".git").write_text(f"gitdir: {named}\n")
        assert (await looker.build(f"cat {looker.home}/state.db; echo x > made")).stdout == ""
        assert (await looker.act("rm made")).code == 0


async def test_programs_of_a_build_share_memory(looker: Looker) -> None:
    code = "import multiprocessing; print(multiprocessing.Pool(2).map(abs, [-1]))"
    made = await looker.build(f"python3 -c '{code}'; echo x > /dev/shm/made; echo x > /dev/made")
    assert made.stdout == "[1]\n"
    assert not Path("/dev/shm/made").exists()
    assert "/dev/made: Read-only file system" in made.stderr
