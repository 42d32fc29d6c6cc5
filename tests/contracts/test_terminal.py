"""What every terminal does, whatever machine it reaches. One suite for all of them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec
import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.protocols import CommandState, ShellCommand, Terminal
from tests.support.apptainer import apptainer_way
from tests.support.cluster import kubernetes_way
from tests.support.dockerd import docker_place
from tests.support.fake_transports import daytona_way, e2b_way, hosted_place, modal_way
from tests.support.podman import podman_place
from tests.support.sandboxes import sandbox_place
from tests.support.sshd import ssh_place
from tests.support.terminals import (
    Place,
    Shell,
    busybox_place,
    local_place,
    subprocess_place,
    until,
)

PLACES: dict[str, Callable[[Path], AbstractAsyncContextManager[Place]]] = {
    "local": local_place,
    "far": subprocess_place,
    "busybox": busybox_place,
    "sandbox": sandbox_place,
    "ssh": ssh_place,
    "docker": docker_place,
    "podman": podman_place,
    "kubernetes": hosted_place(kubernetes_way),
    "apptainer": hosted_place(apptainer_way),
    "modal": hosted_place(modal_way),
    "e2b": hosted_place(e2b_way),
    "daytona": hosted_place(daytona_way),
}
SLOW = {"podman", "kubernetes", "apptainer"}
"""Places that only `make test-all` goes to."""
PATIENT = (pytest.mark.slow, pytest.mark.timeout(400))


@pytest.fixture(
    params=[pytest.param(name, marks=PATIENT if name in SLOW else ()) for name in PLACES]
)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with PLACES[request.param](tmp_path) as made:
        yield made
        await made.destroy()


@pytest.fixture
def terminal(place: Place) -> Terminal:
    return place.open()


@pytest.fixture
def shell(terminal: Terminal) -> Shell:
    return Shell(terminal)


async def test_a_command_gives_its_output_and_exit_code_apart(shell: Shell) -> None:
    state = await shell("echo out; echo err >&2; (exit 7)")
    assert (state.state, state.code) == ("exited", 7)
    assert (state.stdout, state.stderr) == ("out\n", "err\n")
    assert (state.stdout_size, state.stderr_size) == (4, 4)
    assert not state.background


async def test_commands_start_in_the_workspace(shell: Shell, terminal: Terminal) -> None:
    assert (await shell.says("pwd")).strip() == terminal.workspace


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        ("cd /usr", "pwd", "/usr\n"),
        ("export WORD='a  b'", "sh -c 'echo \"$WORD\"'", "a  b\n"),
        ("twice() { echo $1$1; }", "twice x", "xx\n"),
        ("twice() { echo $1$1; }; export -f twice", "bash -c 'twice y'", "yy\n"),
        ("list=(a 'b c' d)", 'echo "${#list[@]} ${list[1]}"', "3 b c\n"),
        ("declare -A map=([k]=v)", 'echo "${map[k]}"', "v\n"),
        ("shopt -s nullglob", "echo no-such-*", "\n"),
        ("shopt -s expand_aliases; alias hi='echo hello'", "hi", "hello\n"),
        ("umask 027", "umask", "0027\n"),
        ("trap 'echo caught' USR1", "kill -USR1 $$", "caught\n"),
    ],
)
async def test_the_state_of_the_shell_lasts_also_when_the_shell_exits(
    shell: Shell, first: str, then: str, expected: str
) -> None:
    await shell.says(first)
    assert await shell.says(then) == expected
    assert (await shell("exit 3")).code == 3
    assert await shell.says(then) == expected


async def test_file_descriptors_opened_by_exec_stay_open(shell: Shell) -> None:
    await shell.says("exec 3>note 7<<<'kept'")
    assert await shell.says("echo written >&3; cat note; cat <&7") == "written\nkept\n"


async def test_a_job_of_the_shell_can_be_waited_for_later(shell: Shell) -> None:
    await shell.says("(exit 5) & job=$!")
    assert (await shell("wait $job")).code == 5


async def test_a_job_of_the_shell_does_not_hold_its_command_up(shell: Shell) -> None:
    await shell.says("mkfifo gate; { read < gate; echo late; } &")
    assert await shell.says("jobs -r | wc -l; echo > gate; wait") == "1\n"


async def test_late_output_of_a_job_is_not_mixed_into_later_results(shell: Shell) -> None:
    await shell.says("mkfifo gate; { read < gate; echo late; } &")
    assert await shell.says("echo > gate; wait; echo mine") == "mine\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("exit 3", 3),
        ("exit 0", 0),
        ("set -e; false; echo not reached", 1),
        ("set -u; echo $no_such_name", 1),
        ("exec sh -c 'exit 9'", 9),
        ("kill -KILL $$", 137),
        ("break 3", 0),
        ("for i in 1 2; do :; done; continue", 0),
        ("trap 'exit 4' DEBUG; true", 4),
    ],
)
async def test_a_command_that_ends_the_shell_keeps_its_code_and_the_state(
    shell: Shell, text: str, code: int
) -> None:
    await shell.says("kept=yes; cd /usr")
    state = await shell(text)
    assert (state.state, state.code, state.stdout) == ("exited", code, "")
    assert (await shell("set +eu; trap - DEBUG; echo $kept $PWD")).stdout == "yes /usr\n"


async def test_what_was_set_before_an_exit_in_the_same_command_is_kept(shell: Shell) -> None:
    await shell("new=1; cd /usr; exit 3")
    assert await shell.says("echo $new $PWD") == "1 /usr\n"


async def test_a_syntax_error_is_said_and_harms_nothing(shell: Shell) -> None:
    state = await shell("echo 'open")
    assert state.code == 2
    assert "unexpected EOF" in state.stderr
    assert await shell.says("echo fine") == "fine\n"


async def test_a_command_that_reads_standard_input_finds_it_empty(shell: Shell) -> None:
    assert await shell.says("cat; read line; echo done") == "done\n"
    assert await shell.says("echo next") == "next\n"


async def test_output_that_is_not_text_is_shown_with_marks(shell: Shell) -> None:
    state = await shell(r"printf 'a\377\000b'")
    assert (state.stdout, state.stdout_size) == ("a\ufffd\x00b", 4)


async def test_large_output_is_cut_in_the_middle_and_lies_whole_in_the_spool(
    terminal: Terminal, shell: Shell
) -> None:
    state = await shell("echo first; head -c 10000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert state.stdout_size == 10_000_012
    assert state.stdout.startswith("first\nxxx")
    assert state.stdout.endswith("xxx\nlast\n")
    assert "bytes left out" in state.stdout
    assert len(state.stdout) < 31_000
    assert len(await terminal.read(state.spool)) == 10_000_012


async def test_a_command_of_more_than_100_kb_works(shell: Shell) -> None:
    assert await shell.says(f": {'x' * 200_000}\necho end") == "end\n"


async def test_the_same_id_runs_once_however_often_it_is_handed_in(
    terminal: Terminal, shell: Shell
) -> None:
    command = shell.command("echo line >> log; echo out")
    first = await terminal.run(command)
    assert await terminal.run(command) == first
    assert await terminal.recover(command) == first
    assert await shell.says("cat log") == "line\n"


async def test_the_same_text_under_two_ids_runs_twice(shell: Shell) -> None:
    await shell.says("echo line >> log")
    await shell.says("echo line >> log")
    assert await shell.says("cat log") == "line\nline\n"


async def test_commands_handed_in_together_run_one_after_the_other(shell: Shell) -> None:
    texts = [f"echo start {n} >> log; sleep 0.01; echo end {n} >> log" for n in range(4)]
    await asyncio.gather(*(shell(text) for text in texts))
    expected = "".join(f"start {n}\nend {n}\n" for n in range(4))
    assert await shell.says("cat log") == expected


async def test_two_places_at_once_do_not_wait_for_each_other(shell: Shell) -> None:
    """A background command and a file come through while a foreground command holds the shell."""
    await shell.says("mkfifo gate")
    holding = asyncio.create_task(shell("read line < gate; echo $line"))
    state = await shell("echo free > gate", background=True)
    assert state.background
    assert (await holding).stdout == "free\n"


LONG = 600.0
"""A limit that no command here comes to."""


async def beyond_its_limit(
    place: Place, terminal: Terminal, command: ShellCommand, printed: str
) -> CommandState:
    """Run a command whose limit is over as soon as it has printed this, and not before: another
    terminal hands the same in with a short one, which counts from its true start."""
    told: list[str] = []
    running = asyncio.create_task(terminal.run(command, told.append))
    await until(lambda: "".join(told) == printed)
    state = await place.open().run(msgspec.structs.replace(command, timeout=0.1))
    assert await running == state
    return state


@pytest.mark.parametrize(
    "text",
    [
        "echo part; sleep 300; echo not reached",
        "echo part; while :; do :; done",
        "echo part; while :; do sleep 0.01; done",
        "echo part; x=$(sleep 300)",
        "echo part; sleep 300 | cat",
        "echo part; (trap '' INT; sleep 300)",
        "echo part; sh -c \"trap '' INT TERM; while :; do sleep 1; done\"",
        "echo part; trap '' INT URG; while :; do :; done",
    ],
)
async def test_a_command_beyond_its_limit_is_stopped_with_its_output_kept(
    place: Place, terminal: Terminal, shell: Shell, text: str
) -> None:
    await shell.says("kept=yes")
    state = await beyond_its_limit(place, terminal, shell.command(text, LONG), "part\n")
    assert (state.state, state.stdout) == ("timeout", "part\n")
    assert state.code is not None
    assert await shell.says("echo $kept") == "yes\n"


async def test_a_limit_spares_the_jobs_of_earlier_commands(shell: Shell) -> None:
    await shell.says("sleep 300 & job=$!")
    assert (await shell("sleep 300", limit=0.1)).state == "timeout"
    assert await shell.says("kill -0 $job && echo alive; kill $job") == "alive\n"


async def test_cancelling_stops_the_command_and_leaves_the_shell_usable(
    terminal: Terminal, shell: Shell
) -> None:
    await shell.says("kept=yes")
    command = shell.command("echo begun > begun; sleep 300; echo no > after")
    running = asyncio.create_task(terminal.run(command))
    await until(lambda: exists(terminal, "begun"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await terminal.follow(command.id)).state == "stopped"
    assert await terminal.stat("after") is None
    assert await shell.says("echo $kept") == "yes\n"


async def test_cancelling_a_command_that_still_waits_keeps_it_from_running(
    terminal: Terminal, shell: Shell
) -> None:
    await shell.says("mkfifo gate")
    holding = asyncio.create_task(shell("echo > held; read line < gate"))
    await until(lambda: exists(terminal, "held"))
    waiting = asyncio.create_task(shell("echo no > ran"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await shell("echo go > gate", background=True)
    assert (await holding).state == "exited"
    assert await shell.says("ls") == "gate\nheld\n"


async def test_new_output_is_told_while_a_command_runs(terminal: Terminal, shell: Shell) -> None:
    await shell.says("mkfifo gate")
    told: list[str] = []
    command = shell.command(r"printf 'h\303'; read < gate; printf '\251\n'; echo err >&2")
    running = asyncio.create_task(terminal.run(command, told.append))
    await until(lambda: bool(told))
    await shell("echo > gate", background=True)
    state = await running
    # The two streams are told as they come: the one may stand within a line of the other.
    assert sorted("".join(told)) == sorted("h\u00e9\nerr\n")
    assert state.stdout == "h\u00e9\n"


async def test_a_background_command_is_followed_to_its_end(
    terminal: Terminal, shell: Shell
) -> None:
    await shell.says("word=shared; say() { echo $word; }; cd /usr")
    state = await shell(
        f"read line; say; pwd; echo $line > {terminal.workspace}/got; exit 6", background=True
    )
    assert (state.state, state.code, state.background) == ("running", None, True)
    assert (await terminal.follow(state.id)).state == "running"
    await terminal.send(state.id, "typed\n")
    ended = await terminal.follow(state.id, wait=60)
    assert (ended.state, ended.code, ended.stdout) == ("exited", 6, "shared\n/usr\n")
    assert await terminal.read("got") == b"typed\n"


async def test_background_commands_are_listed_newest_first(
    terminal: Terminal, shell: Shell
) -> None:
    first = await shell("echo text; exit 1", background=True)
    await shell.says("true")
    second = await shell("sleep 300", background=True)
    await terminal.follow(first.id, wait=60)
    listed = await terminal.commands()
    assert [(one.id, one.state) for one in listed] == [
        (second.id, "running"),
        (first.id, "exited"),
    ]
    assert [one.stdout for one in listed] == ["", ""]
    assert [one.stdout_size for one in listed] == [0, 5]


async def test_a_background_command_can_be_stopped(terminal: Terminal, shell: Shell) -> None:
    state = await shell("echo begun; sh -c \"trap '' INT; echo > up; sleep 300\"", background=True)
    await until(lambda: exists(terminal, "up"))
    stopped = await terminal.stop(state.id)
    assert (stopped.state, stopped.stdout) == ("stopped", "begun\n")
    assert stopped.code is not None
    assert await terminal.stop(state.id) == stopped


async def test_background_commands_outlive_the_shell(terminal: Terminal, shell: Shell) -> None:
    state = await shell("read line; echo $line", background=True)
    await shell("exit 1")
    await shell("kill -KILL $$")
    await terminal.send(state.id, "still here\n")
    assert (await terminal.follow(state.id, wait=60)).stdout == "still here\n"


async def test_input_goes_only_to_a_background_command_that_runs(
    terminal: Terminal, shell: Shell
) -> None:
    ended = await shell("true")
    with pytest.raises(ToolError, match="accepts no input"):
        await terminal.send(ended.id, "x")


async def test_an_unknown_command_is_named_in_the_error(terminal: Terminal) -> None:
    for asking in (terminal.follow("nobody"), terminal.stop("nobody"), terminal.send("nobody", "")):
        with pytest.raises(ToolError, match="nobody"):
            await asking


async def test_a_strange_id_is_refused(terminal: Terminal) -> None:
    for id in ("", "a/b", "a b", "a\nb", "$(x)", "x" * 201, "é"):
        with pytest.raises(ToolError, match="not a valid command id"):
            await terminal.run(ShellCommand(id, "true"))


async def test_a_text_that_no_shell_can_take_is_refused(shell: Shell) -> None:
    for text in ("echo \0", "echo \ud800"):
        with pytest.raises(ToolError, match="the command"):
            await shell(text)
    assert await shell.says("echo fine") == "fine\n"


async def test_a_command_that_was_never_handed_in_is_known_not_to_have_run(
    place: Place, shell: Shell
) -> None:
    command = shell.command("echo ran")
    assert await place.open().recover(command) == "not-run"
    assert await place.open().recover(command) == "not-run"
    assert (await place.open().run(command)).stdout == "ran\n"


async def test_a_background_command_never_handed_in_is_known_not_to_have_run(
    place: Place, shell: Shell
) -> None:
    command = shell.command("echo ran", background=True)
    assert await place.open().recover(command) == "not-run"
    terminal = place.open()
    await terminal.run(command)
    assert (await terminal.follow(command.id, wait=60)).stdout == "ran\n"


async def test_a_new_terminal_on_the_same_place_finds_everything(
    place: Place, terminal: Terminal, shell: Shell
) -> None:
    await shell.says("kept=yes")
    done = shell.command("echo done")
    await terminal.run(done)
    job = shell.command("read line; echo $line", background=True)
    await terminal.run(job)
    await terminal.close()
    later = place.open()
    found = await later.recover(done)
    assert not isinstance(found, str)
    assert found is not None
    assert found.stdout == "done\n"
    going = await later.recover(job)
    assert not isinstance(going, str)
    assert going is not None
    assert going.state == "running"
    await later.send(job.id, "hello\n")
    assert (await later.follow(job.id, wait=60)).stdout == "hello\n"
    assert await Shell(later, "later").says("echo $kept") == "yes\n"


async def test_files_are_written_whole_and_read_back(terminal: Terminal) -> None:
    data = bytes(range(256)) * 100
    await terminal.write("new/folder/data.bin", data)
    assert await terminal.read("new/folder/data.bin") == data
    facts = await terminal.stat("new/folder/data.bin")
    assert facts is not None
    assert (facts.size, facts.kind) == (len(data), "file")
    assert facts.path == f"{terminal.workspace}/new/folder/data.bin"
    assert await terminal.stat("nothing") is None


async def test_writing_keeps_the_mode_and_leaves_nothing_else(
    terminal: Terminal, shell: Shell
) -> None:
    await shell.says("umask 022; echo old > tool; chmod 751 tool; ln -s tool link")
    await terminal.write("link", b"new\n")
    assert await shell.says("stat -c '%a %F' tool link; cat tool; ls -A") == (
        "751 regular file\n777 symbolic link\nnew\nlink\ntool\n"
    )


async def test_what_cannot_be_read_or_written_is_said(terminal: Terminal, shell: Shell) -> None:
    await shell.says("mkdir folder; touch plain; mkfifo fifo")
    for path in ("nothing", "folder", "plain/below", "fifo"):
        with pytest.raises(ToolError, match=path):
            await terminal.read(path)
    for path in ("folder", "plain/below", "/proc/none/x"):
        with pytest.raises(ToolError, match=path):
            await terminal.write(path, b"x")


async def test_a_resolved_path_that_became_a_link_is_refused(
    terminal: Terminal, shell: Shell
) -> None:
    await shell.says("mkdir real; echo kept > real/file; ln -s real folder; ln -s real/file link")
    for path in ("folder/file", "folder/new", "link"):
        there = f"{terminal.workspace}/{path}"
        with pytest.raises(ToolError, match="a link"):
            await terminal.write(there, b"lost")
        with pytest.raises(ToolError, match=r"a link|no file"):
            await terminal.read(there)
    assert await shell.says("cat real/file; ls -A real") == "kept\nfile\n"


async def test_paths_are_resolved_with_links_followed(terminal: Terminal, shell: Shell) -> None:
    await shell.says("mkdir -p real/deep; ln -s real/deep link; ln -s /etc outside")
    work = terminal.workspace
    assert await terminal.resolve("link/../x") == f"{work}/real/x"
    assert await terminal.resolve("not/there/../yet") == f"{work}/not/yet"
    assert await terminal.resolve("outside/passwd") == "/etc/passwd"
    assert await terminal.resolve("../..") == str(Path(work).parent.parent)
    assert await terminal.resolve("~") == (await shell.says("realpath ~")).strip()


@pytest.fixture
async def tree(terminal: Terminal, shell: Shell) -> Terminal:
    await shell.says(
        "mkdir -p src/deep .git node_modules __pycache__ .venv;"
        "echo 'def one(): pass' > src/one.py; echo 'two = 2' > src/deep/two.py;"
        "echo 'def three' > notes.md; printf 'def\\0binary' > data.py;"
        "for d in .git node_modules __pycache__ .venv; do echo 'def no' > $d/no.py; done;"
        "touch -d 2001-01-01 src/one.py; touch -d 2002-01-01 src/deep/two.py;"
        "touch -d 2003-01-01 data.py; touch -d 2004-01-01 notes.md"
    )
    return terminal


GLOBS = {
    "*.py": ["data.py", "src/deep/two.py", "src/one.py"],
    "*": ["notes.md", "data.py", "src/deep/two.py", "src/one.py"],
    "src/*.py": ["src/one.py"],
    "src/**/*.py": ["src/deep/two.py", "src/one.py"],
    "**/two.py": ["src/deep/two.py"],
    "*.{md,txt}": ["notes.md"],
    "[!a-n]*.p?": ["src/deep/two.py", "src/one.py"],
    "no.py": [],
}


async def test_files_are_found_by_glob_newest_first(tree: Terminal) -> None:
    found = {
        pattern: [
            one.path.removeprefix(f"{tree.workspace}/")
            for one in await tree.find(".", pattern, 100)
        ]
        for pattern in GLOBS
    }
    assert found == GLOBS


async def test_the_limit_of_a_search_keeps_the_newest(tree: Terminal) -> None:
    assert [Path(one.path).name for one in await tree.find(".", "*", 2)] == ["notes.md", "data.py"]


async def test_lines_are_found_by_regular_expression(tree: Terminal) -> None:
    found = await tree.grep(".", r"^def \w+", "*", 100)
    work = tree.workspace
    assert [(match.path, match.line, match.text) for match in found] == [
        (f"{work}/notes.md", 1, "def three"),
        (f"{work}/src/one.py", 1, "def one(): pass"),
    ]
    assert len(await tree.grep(".", "def", "*", 1)) == 1
    assert [match.line for match in await tree.grep("src", "=", "*.py", 9)] == [1]
    assert [match.text for match in await tree.grep("notes.md", "three", "*", 9)] == ["def three"]


async def test_searching_the_impossible_is_said(tree: Terminal) -> None:
    with pytest.raises(ToolError, match="regular expression"):
        await tree.grep(".", "(open", "*", 10)
    with pytest.raises(ToolError, match="nowhere"):
        await tree.grep("nowhere", "x", "*", 10)
    with pytest.raises(ToolError, match="nowhere"):
        await tree.find("nowhere", "*", 10)


SECRET = "s3cr3t value 'with' \"signs\"\nand lines"


async def test_a_secret_is_seen_by_its_command_alone(terminal: Terminal, shell: Shell) -> None:
    show = 'printf "%s" "$TOKEN"; sh -c \'printf "%s" "$TOKEN"\''
    state = await terminal.run(ShellCommand("with-1", show, 60, secrets={"TOKEN": SECRET, "B": ""}))
    assert state.stdout == SECRET * 2
    assert await shell.says('echo "[${TOKEN-none}${B-none}]"; env | grep -c TOKEN || :') == (
        "[nonenone]\n0\n"
    )
    job = ShellCommand("with-2", f"read; {show}", 60, background=True, secrets={"TOKEN": SECRET})
    await terminal.run(job)
    folder = str(Path(state.spool).parent)
    assert await shell.says(f"grep -l 's3cr3[t]' {folder}/*.[csv] {folder}/state.? || :") == ""
    await terminal.send(job.id, "\n")
    assert (await terminal.follow(job.id, wait=60)).stdout == SECRET * 2


@pytest.mark.parametrize("end", ["exit 3", "kill -KILL $$", "exec true", "set -e; false"])
async def test_a_secret_does_not_outlive_a_shell_that_ends(
    terminal: Terminal, shell: Shell, end: str
) -> None:
    await shell.says("kept=yes")
    state = await terminal.run(ShellCommand("with-1", end, 60, secrets={"TOKEN": SECRET}))
    assert await shell.says('set +e; echo "$kept ${TOKEN-none}"') == "yes none\n"
    folder = str(Path(state.spool).parent)
    assert await shell.says(f"grep -l 's3cr3[t]' {folder}/state.? || :") == ""
    assert await terminal.stat(f"{folder}/with-1.v") is None


async def test_a_secret_that_no_shell_could_hold_is_refused(terminal: Terminal) -> None:
    for name in ("", "A-B", "1A", "A B", "__hermes_id", "A="):
        with pytest.raises(ToolError, match="variable"):
            await terminal.run(ShellCommand("a", "true", secrets={name: "x"}))


async def test_where_the_shell_stands_is_known_also_when_it_has_ended(
    place: Place, terminal: Terminal, shell: Shell
) -> None:
    assert await terminal.where() == terminal.workspace
    await shell.says("mkdir 'a \"b\"'; cd 'a \"b\"'")
    here = f'{terminal.workspace}/a "b"'
    assert await terminal.where() == here
    await terminal.close()
    assert await terminal.where() == here
    assert await place.open().where() == here


async def test_paths_and_globs_are_traced_to_where_they_lead(
    terminal: Terminal, shell: Shell
) -> None:
    await shell.says(
        "mkdir -p real/deep; touch real/one.py real/two.py real/.hid.py 'real/[x].py';"
        "ln -s real link; ln -s /etc outside; ln -s gone broken; ln -s loop loop"
    )
    top = terminal.workspace
    given = [
        f"{top}/link/one.py", f"{top}/link/*.py", f"{top}/li*/t[wx]o.py", f"{top}/outside/pass?d",
        f"{top}/link/../x", f"{top}/none/*", f"{top}/link/.*.py", f"{top}/broken",
        f"{top}/real/[!to[]*.py", f"{top}/real/\\[x\\].py", f"{top}/*/deep", "/",
    ]  # fmt: skip
    assert [tuple(one) for one in await terminal.trace(given)] == [
        (f"{top}/real/one.py",),
        (f"{top}/real/[x].py", f"{top}/real/one.py", f"{top}/real/two.py"),
        (f"{top}/real/two.py",),
        ("/etc/passwd",),
        (f"{top}/x",),
        (f"{top}/none/*",),
        (f"{top}/real/.hid.py",),
        (f"{top}/gone",),
        (f"{top}/real/[!to[]*.py",),
        (f"{top}/real/[x].py",),
        (f"{top}/real/deep",),
        ("/",),
    ]
    assert list(await terminal.trace([])) == []
    assert len(await terminal.trace([f"{top}/loop"])) == 1


STRANGE = [
    "a b",
    "new\nline",
    "tab\t",
    "'q' \"d\" `x` $HOME \\",
    "!x!",
    "é漢",
    "\udcff\udcfe",
    "-n",
    "*",
]


@pytest.mark.parametrize("name", STRANGE)
async def test_strange_names_are_names_like_others(terminal: Terminal, name: str) -> None:
    path, data = f"{name}/{name}", b"one\ntwo \xff\n"
    await terminal.write(path, data)
    assert await terminal.read(path) == data
    whole = f"{terminal.workspace}/{path}"
    facts = await terminal.stat(path)
    assert facts is not None
    assert (facts.path, facts.size) == (whole, len(data))
    assert await terminal.resolve(path) == whole
    assert [one.path for one in await terminal.find(".", "*", 9)] == [whole]
    found = await terminal.grep(".", "two", "*", 9)
    assert [(one.path, one.line, one.text) for one in found] == [(whole, 2, "two \ufffd")]


async def test_files_of_any_size_and_bytes_come_back_as_they_were(terminal: Terminal) -> None:
    for size in (0, 1, 12_001, 300_000, 3_000_000):
        data = (bytes(range(256)) * (size // 256 + 1))[:size]
        await terminal.write("data", data)
        assert await terminal.read("data") == data


async def test_a_path_with_a_nul_byte_is_refused(terminal: Terminal) -> None:
    for asking in (terminal.read("a\0b"), terminal.write("a\0b", b""), terminal.stat("a\0b")):
        with pytest.raises(ToolError, match="NUL"):
            await asking


async def test_a_limit_ends_the_whole_tree_of_processes(
    place: Place, terminal: Terminal, shell: Shell
) -> None:
    tree = "sleep 300 & echo $! >> pids; (sleep 301 | sleep 302) & echo $! >> pids; echo up; wait"
    command = shell.command(f"echo $BASHPID > /dev/null; sh -c '{tree}'", LONG)
    assert (await beyond_its_limit(place, terminal, command, "up\n")).state == "timeout"
    assert await shell.says("wc -l < pids") == "2\n"
    count = "for pid in $(cat pids); do kill -0 $pid 2>/dev/null && echo alive; done; :"
    await until(lambda: silent(shell, count))


async def test_a_foreground_command_is_found_again_when_its_terminal_was_dropped(
    place: Place, terminal: Terminal, shell: Shell
) -> None:
    """As when the runtime dies: nobody closes anything."""
    await shell.says("mkfifo gate; kept=yes")
    command = shell.command("echo line >> log; echo > begun; read line < gate; echo $line $kept")
    running = asyncio.create_task(terminal.run(command))
    await until(lambda: exists(terminal, "begun"))
    terminal.leave()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    later = place.open()
    found = asyncio.create_task(later.recover(command))
    await Shell(later, "later")("echo back > gate", background=True)
    state = await found
    assert not isinstance(state, str)
    assert state is not None
    assert (state.state, state.stdout) == ("exited", "back yes\n")
    assert await later.read("log") == b"line\n"


async def test_a_command_that_nobody_asked_about_has_its_text_and_output_kept(
    place: Place, terminal: Terminal, shell: Shell
) -> None:
    text = "echo 'a\tb!'; head -c 5000 /dev/zero | tr '\\0' y"
    state = await shell(text)
    later = await place.open().follow(state.id)
    assert (later.text, later.stdout, later.code) == (text, state.stdout, 0)
    assert state.stdout == "a\tb!\n" + "y" * 5000


async def silent(shell: Shell, text: str) -> bool:
    return await shell.says(text) == ""


async def exists(terminal: Terminal, path: str) -> bool:
    return await terminal.stat(path) is not None


async def test_a_glob_that_fits_very_many_leads_nowhere(terminal: Terminal, shell: Shell) -> None:
    await shell.says("mkdir many; cd many; touch f{1..1001}")
    few, many = await terminal.trace(
        [f"{terminal.workspace}/many/f100*", f"{terminal.workspace}/many/*"]
    )
    assert len(few) == 3
    assert many == ()
