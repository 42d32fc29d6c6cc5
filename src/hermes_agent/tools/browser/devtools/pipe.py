"""Finds Chromium, starts it with a pipe and its own profile, and makes sure that it ends."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.browser.executables import BROWSERS

MESSAGE_BYTES = 128 * 1024 * 1024
CLOSE_SECONDS = 3.0
SCRATCH = "hermes-scratch"
"""A folder in the profile for uploads."""
_WORDS = 4096
WIDTH, HEIGHT = 1280, 900

_WITHOUT = (
    "AutofillServerCommunication",
    "HttpsUpgrades",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "Translate",
)
_FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--proxy-bypass-list=<-loopback>",
    # The browser resolves no names itself; the proxy's address needs no lookup.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--disable-quic",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    f"--disable-features={','.join(_WITHOUT)}",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--mute-audio",
    "--hide-scrollbars",
    "--password-store=basic",
    "--use-mock-keychain",
    f"--window-size={WIDTH},{HEIGHT}",
)

# The shell outlives the browser to remove the profile, also when we are killed: the browser ends
# when its pipe does.
_KEEPER = 'exec 3<&0 4>&1 </dev/null >&2; profile=$1; shift; "$@"; rm -rf "$profile"'


class PipeWire:
    """NUL-terminated messages on the browser's file descriptors 3 and 4."""

    def __init__(
        self, process: asyncio.subprocess.Process, profile: Path, errors: IO[bytes]
    ) -> None:
        self._process = process
        self._errors = errors
        self.profile = profile

    @property
    def pid(self) -> int:
        """Of the shell; the browser is in its process group."""
        return self._process.pid

    async def send(self, message: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(message + b"\0")
        await self._process.stdin.drain()

    async def receive(self) -> bytes:
        assert self._process.stdout is not None
        return (await self._process.stdout.readuntil(b"\0"))[:-1]

    async def close(self) -> None:
        """Close the pipe, then kill the process group and remove the profile."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._process.wait()
        except TimeoutError:
            pass
        finally:
            self._kill()
        await self._process.wait()
        # A process being killed may have written while the shell removed the profile.
        await asyncio.to_thread(shutil.rmtree, self.profile, ignore_errors=True)
        self._errors.close()

    def _kill(self) -> None:
        """Zygotes briefly outlive the browser, so the group is always killed."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def last_words(self) -> str:
        """The last line of its output."""
        size = os.fstat(self._errors.fileno()).st_size
        text = os.pread(self._errors.fileno(), _WORDS, max(0, size - _WORDS)).decode(
            errors="replace"
        )
        rows = [row for row in text.splitlines() if row.strip()]
        return rows[-1][:300] if rows else "it exited without a message"


def program(named: str) -> str:
    """The browser of the settings, or the first that is installed."""
    for name in [named] if named else BROWSERS:
        if found := shutil.which(name):
            return found
    what = f"no browser at {named!r}" if named else "no Chromium is installed"
    raise ToolError(what, "install chromium, or set browser.program or browser.address", "never")


def flags(proxy: str, profile: Path, *, root: bool) -> Sequence[str]:
    """The command line. Chromium's own sandbox does not work for root."""
    own = (f"--proxy-server=http://{proxy}", f"--user-data-dir={profile}")
    return (*_FLAGS, *own, *(["--no-sandbox"] if root else []), "about:blank")


async def started(named: str, proxy: str) -> PipeWire:
    """Start a browser that reaches the network only through the proxy."""
    path = program(named)
    profile = Path(tempfile.mkdtemp(prefix="hermes-browser-"))
    arguments = flags(proxy, profile, root=os.geteuid() == 0)
    # Only these variables are passed on: others may hold secrets.
    keep = ("PATH", "LANG", "LC_ALL", "TZ", "FONTCONFIG_PATH", "FONTCONFIG_FILE")
    environment = {name: os.environ[name] for name in keep if name in os.environ}
    (profile / SCRATCH).mkdir()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the browser
    try:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", _KEEPER, "sh", str(profile), path, *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={**environment, "HOME": str(profile), "TMPDIR": str(profile)},
            limit=MESSAGE_BYTES,
            start_new_session=True,
        )  # fmt: skip
    except BaseException:
        errors.close()
        shutil.rmtree(profile, ignore_errors=True)
        raise
    return PipeWire(process, profile, errors)
