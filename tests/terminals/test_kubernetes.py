"""Pods of a real cluster. The suites of transports and of terminals go over them too."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import yaml

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import KubernetesPlace, Limits
from hermes_agent.terminals.kubernetes import transport as kubernetes
from hermes_agent.terminals.kubernetes.cluster import Cluster
from hermes_agent.terminals.kubernetes.pod import name_of, pod_of
from hermes_agent.terminals.kubernetes.transport import KubernetesTransport
from tests.support.cluster import cluster, place

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SESSION_KEY = "hermes-agent/session"
Make = Callable[..., KubernetesTransport]


@pytest.fixture
def session() -> str:
    return uuid.uuid4().hex


@pytest.fixture
async def make(session: str) -> AsyncIterator[Make]:
    """Transports of one session; what they made is removed afterwards."""
    made: list[KubernetesTransport] = []

    def transport(where: KubernetesPlace | None = None, **more: Any) -> KubernetesTransport:
        made.append(KubernetesTransport(where or place(), session, {}, **more))
        return made[-1]

    yield transport
    for each in made:
        await each.close()
    last = KubernetesTransport(place(), session, {})
    await last.destroy()


@pytest.fixture
async def seen() -> AsyncIterator[Cluster]:
    """The cluster, with the eyes of its administrator."""
    administrator = Cluster(place(), {})
    yield administrator
    await administrator.close()


async def said(pod: KubernetesTransport, script: str) -> str:
    return (await pod.call(["bash", "-c", f"exec 2>&1; {script}"])).stdout.decode()


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    while not await is_so():
        await asyncio.sleep(0.1)


async def test_commands_have_no_privileges(make: Make) -> None:
    pod = make()
    await pod.ready()
    status = await said(pod, "cat /proc/self/status")
    for line in ("Uid:\t1000\t1000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000",
                 "NoNewPrivs:\t1", "Seccomp:\t2"):  # fmt: skip
        assert line in status
    assert "Read-only file system" in await said(pod, "touch /bin/x")
    assert await said(pod, "touch /tmp/x ~/x /workspace/x && pwd && ls -d ~") == (
        "/workspace\n/home/hermes\n"
    )
    assert "No such file" in await said(pod, "ls /var/run/secrets")


async def test_the_limit_on_memory_bites(make: Make) -> None:
    pod = make(place(limits=Limits(memory_mb=64)))
    await pod.ready()
    hungry = 'x=$(head -c 200000000 /dev/zero | tr "\\0" x); echo ate ${#x}'
    assert b"ate 200000000" not in (await pod.call(["bash", "-c", hungry])).stdout


async def test_words_that_are_no_text_arrive_as_they_are(make: Make) -> None:
    pod = make()
    await pod.ready()
    assert (await pod.call(["printf", "%s", "a\udcff'b"])).stdout == b"a\xff'b"


async def test_orphans_of_commands_are_buried(make: Make) -> None:
    pod = make()
    await pod.ready()
    await pod.call(["bash", "-c", "for i in 1 2 3; do (true &); done"])
    while "State:\tZ" in (status := await said(pod, "cat /proc/[0-9]*/status")):
        await asyncio.sleep(0.1)
    assert "State:\tS" in status


async def test_a_policy_cuts_the_pod_off_before_it_is_made_and_goes_with_it(
    make: Make, seen: Cluster, session: str
) -> None:
    pod = make()
    await pod.ready()
    policy = await seen.policy(name_of(session))
    assert policy is not None
    assert policy.labels[SESSION_KEY] == name_of(session)
    await pod.destroy()
    assert await seen.policy(name_of(session)) is None
    granted = make(place(network=True))
    await granted.ready()
    assert await seen.policy(name_of(session)) is None


async def test_a_policy_that_was_removed_by_hand_is_laid_on_again(
    make: Make, seen: Cluster, session: str
) -> None:
    await make().ready()
    policy = await seen.policy(name_of(session))
    assert policy is not None
    await seen.remove_policy(name_of(session), policy.uid)
    await make().ready()
    assert await seen.policy(name_of(session)) is not None


async def test_some_that_come_at_once_share_one_pod(make: Make) -> None:
    pods = [make() for _ in range(3)]
    await asyncio.gather(*(pod.ready() for pod in pods))
    await pods[0].call(["touch", "mark"])
    for pod in pods[1:]:
        assert (await pod.call(["ls"])).stdout == b"mark\n"


async def test_a_pod_that_was_removed_by_hand_is_made_anew(
    make: Make, seen: Cluster, session: str
) -> None:
    pod = make()
    await pod.ready()
    found = await seen.pod(name_of(session))
    assert found is not None
    await seen.remove_pod(name_of(session), found.uid, 1)
    await pod.ready()
    assert (await pod.call(["echo", "hi"])).stdout == b"hi\n"
    anew = await seen.pod(name_of(session))
    assert anew is not None
    assert anew.uid != found.uid


async def test_a_call_to_a_pod_that_is_gone_says_that_the_way_is_cut(make: Make) -> None:
    with pytest.raises(ConnectionError, match="the cluster answers 404"):
        await make().call(["true"])


async def test_a_container_that_ends_comes_back_with_its_files(make: Make) -> None:
    pod = make()
    await pod.ready()
    await pod.call(["bash", "-c", "echo kept > /workspace/a; echo kept > ~/b"])
    channel = await pod.start(["bash", "-c", "kill 1; cat"])
    while await channel.read():
        pass
    await channel.close()
    await until(lambda: ended_once(pod))
    assert await said(pod, "cat /workspace/a ~/b") == "kept\nkept\n"


async def ended_once(pod: KubernetesTransport) -> bool:
    """The cluster may not have noticed yet that the container ended."""
    await pod.ready()
    try:
        return (await pod.call(["true"])).code == 0
    except ConnectionError:
        return False


async def test_a_pod_that_is_there_is_gone_into_and_left_there(
    make: Make, seen: Cluster, session: str
) -> None:
    await make().ready()
    there = place(image="", pod=name_of(session))
    guest = make(there)
    await guest.ready()
    assert (await guest.call(["echo", "hi"])).stdout == b"hi\n"
    await guest.destroy()
    found = await seen.pod(name_of(session))
    assert found is not None
    assert not found.leaving


async def test_a_pod_or_container_that_is_not_there_is_named(make: Make, session: str) -> None:
    await make().ready()
    with pytest.raises(HermesError, match=r"has no container 'other'\nhint: it has: hermes"):
        await make(place(image="", pod=name_of(session), container="other")).ready()
    with pytest.raises(HermesError, match="no pod 'nothing'"):
        await make(place(image="", pod="nothing")).ready()


async def test_a_pod_of_somebody_else_is_neither_used_nor_removed(
    make: Make, seen: Cluster, session: str
) -> None:
    foreign = pod_of(place(), session)
    del foreign["metadata"]["labels"]
    await seen.make_pod(foreign)
    with pytest.raises(HermesError, match="not created for this session"):
        await make().ready()
    await make().destroy()
    found = await seen.pod(name_of(session))
    assert found is not None
    assert not found.leaving
    await seen.remove_pod(name_of(session), found.uid, 0)


async def test_an_image_that_cannot_be_had_is_named_and_no_pod_is_left(
    make: Make, seen: Cluster, session: str
) -> None:
    with pytest.raises(HermesError, match=r"does not start: ErrImageNeverPull.*no-such-image"):
        await make(place(image="localhost/no-such-image:1")).ready()
    await until(lambda: is_leaving(seen, session))
    pod = make()
    await pod.ready()
    assert (await pod.call(["true"])).code == 0


async def is_leaving(seen: Cluster, session: str) -> bool:
    found = await seen.pod(name_of(session))
    return found is None or found.leaving


async def test_a_pod_that_no_node_takes_is_given_up_after_a_while(make: Make) -> None:
    unscheduled: dict[str, object] = {}
    with pytest.raises(HermesError, match=r"not running after 0\.5 seconds"):
        await make(place(manifest=unscheduled), patience=0.5).ready()


async def test_what_the_cluster_finds_wrong_with_the_manifest_is_said(make: Make) -> None:
    wrong: dict[str, object] = {"restartPolicy": "Sometimes"}
    with pytest.raises(HermesError, match=r"refuses to create pods: .*Sometimes"):
        await make(place(manifest=wrong)).ready()


async def test_what_is_forbidden_is_named_with_the_right_that_is_missing(make: Make) -> None:
    stranger = place(kubeconfig=str(cluster() / "stranger"))
    with pytest.raises(HermesError, match=r"forbids get pods .*\nhint: .*get pods"):
        await make(stranger).ready()
    with pytest.raises(HermesError, match="forbids get pods/exec"):
        await make(stranger).call(["true"])
    missing = await kubernetes.check(stranger, {})
    for right in ("create pods/exec", "get pods/exec", "create pods", "create networkpolicies"):
        assert right in missing


async def test_credentials_that_are_not_accepted_are_said_to_be_so(tmp_path: Any) -> None:
    described = yaml.safe_load((cluster() / "admin").read_text())
    described["users"][0]["user"]["token"] = "wrong"
    config = tmp_path / "config"
    config.write_text(yaml.safe_dump(described))
    assert "rejects the credentials" in await kubernetes.check(place(kubeconfig=str(config)), {})


async def test_a_place_that_can_be_used_has_nothing_missing() -> None:
    assert await kubernetes.check(place(), {}) == ""
    assert await kubernetes.check(None, {"KUBECONFIG": str(cluster() / "admin")}) == ""
