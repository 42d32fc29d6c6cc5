"""Containers, on a real Docker engine and, in the slow suite, on a real Podman."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import docker
import pytest

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.settings.terminals import ContainerPlace, Limits
from hermes_agent.terminals.container import transport as container
from hermes_agent.terminals.container.address import locate
from hermes_agent.terminals.container.engine import ContainerEngine
from hermes_agent.terminals.container.spec import HOME, SESSION_LABEL, ContainerSpec
from hermes_agent.terminals.transport import Transport
from tests.support.dockerd import asked, docker_engine, private_docker
from tests.support.images import IMAGE, NAMED_NUMBERS, NAMED_USER
from tests.support.podman import podman_engine

pytestmark = pytest.mark.sample_file(16)

ENGINES = {"docker": docker_engine, "podman": podman_engine}


class Session:
    """One session at an engine: opens its transports, looks at what it made, removes all of it."""

    def __init__(self, engine: str, folder: Path) -> None:
        self.engine = engine
        self.id = uuid.uuid4().hex
        self.workspace = folder / "work"
        self.workspace.mkdir()
        self.place = ContainerPlace(IMAGE, engine)
        self.client: docker.DockerClient
        self._opened: list[Transport] = []

    def open(self, place: ContainerPlace | None = None) -> Transport:
        made = container.transport(
            place or self.place,
            session=self.id,
            workspace=str(self.workspace),
            folder=self.workspace,
            environ={},
        )
        self._opened.append(made)
        return made

    def spec(self, place: ContainerPlace | None = None) -> ContainerSpec:
        return ContainerSpec(place or self.place, self.id, str(self.workspace))

    def containers(self) -> list[str]:
        filters = {"label": f"{SESSION_LABEL}={self.id}"}
        return sorted(one.name for one in self.client.containers.list(all=True, filters=filters))

    def volumes(self) -> list[str]:
        filters = {"label": f"{SESSION_LABEL}={self.id}"}
        return sorted(one.name for one in self.client.volumes.list(filters=filters))

    async def destroy(self) -> None:
        for transport in [*self._opened, self.open()]:
            await transport.destroy()


@pytest.fixture(params=["docker", pytest.param("podman", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest) -> str:
    return ENGINES[request.param]()


@pytest.fixture
def client(engine: str) -> Iterator[docker.DockerClient]:
    with asked(engine) as made:
        yield made


@pytest.fixture
async def session(
    engine: str, client: docker.DockerClient, tmp_path: Path
) -> AsyncIterator[Session]:
    made = Session(engine, tmp_path)
    made.client = client
    yield made
    await made.destroy()


async def says(transport: Transport, text: str) -> str:
    done = await transport.call(["bash", "-c", text])
    assert (done.code, done.stderr) == (0, b"")
    return done.stdout.decode().strip()


async def test_a_command_has_no_power_over_the_machine(session: Session) -> None:
    transport = session.open()
    await transport.ready()
    status = dict(
        line.split(":\t", 1)
        for line in (await says(transport, "cat /proc/self/status")).splitlines()
        if ":\t" in line
    )
    nothing = {f"Cap{kind}": "0" * 16 for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")}
    assert {name: status[name] for name in nothing} == nothing
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert await says(transport, "echo $(id -u) $(id -g)") == "1000 1000"
    assert await says(transport, "ls /sys/class/net") == "lo"
    assert await says(transport, "find / -xdev -name '*.sock'") == ""


async def test_only_the_workspace_the_home_and_tmp_can_be_written(session: Session) -> None:
    transport = session.open()
    await transport.ready()
    assert await says(transport, "pwd; cd; pwd") == f"/workspace\n{HOME}"
    for folder in ("/workspace", HOME, "/tmp", "/dev/shm"):
        assert await says(transport, f"echo x > {folder}/note; cat {folder}/note") == "x"
    assert await says(transport, "cp /bin/busybox /tmp/ls; /tmp/ls -d /tmp") == "/tmp"
    for path in ("/note", "/etc/note", "/bin/note"):
        done = await transport.call(["touch", path])
        assert done.code != 0
        assert b"Read-only" in done.stderr


async def test_nothing_of_this_process_is_in_the_environment(session: Session) -> None:
    transport = session.open()
    await transport.ready()
    names = {line.split("=")[0] for line in (await says(transport, "env")).splitlines()}
    assert names <= {"PATH", "HOME", "HOSTNAME", "PWD", "SHLVL", "_", "TERM", "container"}


@pytest.mark.root
async def test_the_limits_bite(session: Session) -> None:
    transport = session.open(
        ContainerPlace(IMAGE, session.engine, limits=Limits(memory_mb=32, processes=24, cpus=0.5))
    )
    await transport.ready()
    eater = await transport.call(["bash", "-c", "x=$(head -c 90000000 /dev/zero | tr '\\0' x)"])
    assert eater.code != 0
    assert (await transport.call(["echo", "still here"])).stdout == b"still here\n"
    crowd = "i=0; while [ $i -lt 60 ]; do sleep 60 >/dev/null 2>&1 & i=$((i+1)); done"
    done = await transport.call(["sh", "-c", crowd])
    assert done.code != 0
    assert b"fork" in done.stderr
    (name,) = session.containers()
    host = session.client.api.inspect_container(name)["HostConfig"]
    assert (host["CpuQuota"], host["CpuPeriod"]) == (50_000, 100_000)


async def test_tmp_is_full_before_the_memory_is(session: Session) -> None:
    transport = session.open(ContainerPlace(IMAGE, session.engine, limits=Limits(memory_mb=32)))
    await transport.ready()
    done = await transport.call(["dd", "if=/dev/zero", "of=/tmp/big", "bs=1M", "count=24"])
    assert b"No space left" in done.stderr


async def test_a_user_can_be_given_by_name(session: Session) -> None:
    transport = session.open(ContainerPlace(IMAGE, session.engine, user=NAMED_USER))
    await transport.ready()
    uid, gid = NAMED_NUMBERS
    assert await says(transport, "echo $(id -u) $(id -g); echo > ~/x; echo > x") == f"{uid} {gid}"


async def test_files_survive_rest_and_processes_do_not(session: Session) -> None:
    transport = session.open()
    await transport.ready()
    await says(transport, "echo a > note; echo b > ~/note; sleep 3600 >/dev/null 2>&1 </dev/null &")
    await transport.rest()
    with pytest.raises(ConnectionError):
        await transport.call(["true"])
    await transport.ready()
    assert await says(transport, "cat note ~/note; pidof sleep | wc -w") == "a\nb\n1"


async def test_being_made_ready_by_many_at_once_makes_one_container(session: Session) -> None:
    transport = session.open()
    await asyncio.gather(*(transport.ready() for _ in range(4)))
    assert session.containers() == [session.spec().name]
    assert session.volumes() == sorted(session.spec().volumes.values())


async def test_a_container_removed_by_hand_is_made_anew_with_its_files(session: Session) -> None:
    transport = session.open()
    await transport.ready()
    await says(transport, "echo kept > note; chmod 755 .")
    session.client.containers.get(session.spec().name).remove(force=True)
    with pytest.raises(ConnectionError):
        await transport.call(["true"])
    await transport.ready()
    assert await says(transport, "cat note; echo more > other") == "kept"


@pytest.mark.root
async def test_a_paused_container_goes_on(session: Session) -> None:
    transport = session.open()
    await transport.ready()
    session.client.containers.get(session.spec().name).pause()
    with pytest.raises(ConnectionError):
        await transport.call(["true"])
    await transport.ready()
    assert await says(transport, "echo hi") == "hi"


async def test_a_killed_container_cuts_the_way_and_is_had_again(session: Session) -> None:
    transport = session.open()
    await transport.ready()
    channel = await transport.start(["cat"])
    assert channel is not None
    await channel.write(b"x")
    assert await channel.read() == b"x"
    waiting = asyncio.create_task(transport.call(["bash", "-c", "echo > begun; sleep 3600"]))
    while (await transport.call(["test", "-e", "begun"])).code:
        await asyncio.sleep(0.01)
    session.client.containers.get(session.spec().name).kill()
    with pytest.raises(ConnectionError):
        await waiting
    assert await channel.read() == b""
    with pytest.raises(ConnectionError):
        await channel.write(b"x")
    await transport.ready()
    assert await says(transport, "ls") == "begun"


async def test_a_container_that_was_made_but_never_begun_is_finished(session: Session) -> None:
    spec, engine = session.spec(), ContainerEngine(locate(session.engine, {}))
    for volume in spec.volumes.values():
        engine.make_volume(volume, spec.labels)
    engine.create(spec.options())
    engine.create(spec.seed_options())
    engine.close()
    transport = session.open()
    await transport.ready()
    assert await says(transport, "echo x > note; cat note") == "x"
    assert session.containers() == [spec.name]


async def test_destroying_leaves_nothing_of_the_session_and_all_else(session: Session) -> None:
    other = ContainerPlace(IMAGE, session.engine, limits=Limits(processes=99))
    for place in (session.place, other):
        await session.open(place).ready()
    assert len(session.containers()) == 2
    labels = {SESSION_LABEL: f"{session.id}-of-another"}
    client = session.client
    theirs = client.containers.create(IMAGE, ["true"], network_mode="none", labels=labels)
    kept = client.volumes.create(f"{session.id}-kept")
    try:
        await session.open().destroy()
        assert (session.containers(), session.volumes()) == ([], [])
        theirs.reload()
        assert client.volumes.get(kept.name).name == kept.name
    finally:
        theirs.remove(force=True)
        kept.remove()


async def test_a_container_that_hermes_did_not_make_is_left_alone(session: Session) -> None:
    name = session.spec().name
    theirs = session.client.containers.create(IMAGE, ["true"], name=name, network_mode="none")
    try:
        with pytest.raises(HermesError, match="did not create"):
            await session.open().ready()
        await session.open().destroy()
        theirs.reload()
        assert theirs.status == "created"
    finally:
        theirs.remove(force=True)


async def test_a_volume_that_hermes_did_not_make_is_left_alone(session: Session) -> None:
    theirs = session.client.volumes.create(f"{session.spec().name}-work")
    try:
        with pytest.raises(HermesError, match="did not create"):
            await session.open().ready()
        await session.open().destroy()
        assert session.client.volumes.get(theirs.name).name == theirs.name
    finally:
        theirs.remove()


async def test_a_mounted_workspace_is_the_sessions_own(session: Session) -> None:
    session.workspace.chmod(0o777)
    (session.workspace / "note").write_text("from here")
    place = ContainerPlace(IMAGE, session.engine, mount=True, workspace="/src")
    transport = session.open(place)
    await transport.ready()
    assert await says(transport, "pwd; cat note; echo 'from there' > answer") == "/src\nfrom here"
    assert (session.workspace / "answer").read_text() == "from there\n"
    assert session.volumes() == [f"{session.spec(place).name}-home"]
    await transport.destroy()
    assert (session.workspace / "note").exists()


async def test_a_mounted_workspace_that_cannot_be_written_is_told_each_time(
    session: Session,
) -> None:
    session.workspace.chmod(0o755)
    transport = session.open(ContainerPlace(IMAGE, session.engine, mount=True))
    for _ in range(2):
        with pytest.raises(HermesError, match="cannot write") as raised:
            await transport.ready()
        assert "user: 0:0" in raised.value.hint


async def test_a_workspace_with_the_engines_socket_is_not_mounted(session: Session) -> None:
    place = ContainerPlace(IMAGE, session.engine, mount=True)
    transport = container.transport(
        place, session=session.id, workspace="/", folder=session.workspace, environ={}
    )
    with pytest.raises(UsageError, match="socket"):
        await transport.ready()
    await transport.close()
    assert session.containers() == []


async def test_an_image_that_cannot_be_had_is_named_with_the_way_out(session: Session) -> None:
    missing = ContainerPlace("localhost:1/no/such:image", session.engine)
    with pytest.raises(HermesError, match="localhost:1/no/such:image") as raised:
        await session.open(missing).ready()
    assert "docker pull localhost:1/no/such:image" in raised.value.hint
    assert "docker pull localhost:1/no/such:image" in await container.check(missing, {})
    assert (session.containers(), session.volumes()) == ([], [])


async def test_an_engine_with_the_image_is_usable_now(session: Session) -> None:
    assert await container.check(session.place, {}) == ""
    assert await container.check(None, {"DOCKER_HOST": session.engine}) == ""


async def test_a_network_that_is_not_there_is_said(session: Session) -> None:
    with pytest.raises(HermesError, match="no-such-network"):
        await session.open(ContainerPlace(IMAGE, session.engine, network="no-such-network")).ready()


async def test_a_restarted_engine_gives_the_container_back(tmp_path: Path) -> None:
    with private_docker() as engine:
        session = Session(engine.url, tmp_path)
        transport = session.open()
        await transport.ready()
        await says(transport, "echo kept > note")
        channel = await transport.start(["cat"])
        assert channel is not None
        await channel.write(b"x")
        assert await channel.read() == b"x"
        engine.stop()
        assert await channel.read() == b""
        with pytest.raises(ConnectionError):
            await transport.call(["true"])
        for attempt in (transport.ready, transport.rest, session.open().destroy):
            with pytest.raises(HermesError) as raised:
                await attempt()
            assert "start Docker" in raised.value.hint
        engine.start()
        await transport.ready()
        assert await says(transport, "cat note") == "kept"
        await session.destroy()
