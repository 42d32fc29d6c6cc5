"""What every test gets: no environment of the developer's, and a check of what it journalled."""

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import certifi
import pytest
from hypothesis import settings, strategies

from hermes_agent.store.engine.connection import checksums
from tests.support.awake_loop import AwakeLoop
from tests.support.daemons import in_user_namespace
from tests.support.prompt_prefix import check_prefixes
from tests.support.sampling import sampled

# The same examples every time, so that a change is what turns a test red;
# HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("same", derandomize=True)
settings.register_profile("explore")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_configure() -> None:
    gc.set_threshold(20_000, 20, 20)  # thousands of tests are collected, and stay
    checksums()  # tests that change a database themselves keep its checksums
    # Who is begun in the background does not hear of Ctrl-C, nor do its children; tests press it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = sampled_out(items)
    if os.geteuid() != 0 or in_user_namespace():
        left_out |= {item for item in items if item.get_closest_marker("root")}
    # What reads the whole source first: so one worker does, before others take its work.
    whole = (item for item in items if item not in left_out)
    items[:] = sorted(whole, key=lambda item: item.path.parent.name != "shape")
    config.hook.pytest_deselected(items=list(left_out))


def pytest_collection_finish() -> None:
    gc.freeze()  # what was imported and collected stays; no collection need look at it again


def sampled_out(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """The cases of tests marked `sample(n)`, and the tests of files marked `sample_file(n)`, that
    are not among the `n` of this run."""
    groups: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        by_test, by_file = map(item.get_closest_marker, ("sample", "sample_file"))
        if by_test:
            groups.setdefault((item.nodeid.partition("[")[0], by_test.args[0]), []).append(item)
        elif by_file and not item.get_closest_marker("slow"):
            groups.setdefault((item.nodeid.partition("::")[0], by_file.args[0]), []).append(item)
    left_out: set[pytest.Item] = set()
    for (name, count), group in groups.items():
        left_out |= set(group) - set(sampled(group, count, name))
    return left_out


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """What has a time limit is not late because the machine stood still; tests let time pass."""
    return {"awake": AwakeLoop}


@pytest.fixture(scope="session", autouse=True)
def characters() -> None:
    """What Hypothesis knows of them takes it seconds to gather in a new checkout: not in the time
    of whichever example is drawn first."""
    strategies.text().validate()


@pytest.fixture(scope="session", autouse=True)
def clean_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    end = "-----END CERTIFICATE-----\n"
    authority = tmp_path_factory.mktemp("tls") / "authority.pem"
    authority.write_text(Path(certifi.where()).read_text().partition(end)[0] + end)
    with pytest.MonkeyPatch.context() as patch:
        # Nobody here speaks to the world, and to read all its authorities takes a client 40 ms.
        patch.setenv("SSL_CERT_FILE", str(authority))
        for name in list(os.environ):
            # A proxy would stand between the tests and the servers they start on this machine.
            ours = name.startswith(("HERMES_", "OPENAI_", "AWS_", "AZURE_"))
            if ours or name.endswith(("_API_KEY", "_TOKEN")) or name.lower().endswith("_proxy"):
                patch.delenv(name)
        yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home that this process and its children use."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(folder))
    return folder


@pytest.fixture(autouse=True)
def stable_prefixes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Two successive requests of one session share their prefix, in every store a test leaves."""
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    for database in folder.rglob("state.db") if folder else ():
        check_prefixes(database)
