"""The views for commands that only look, or only change the workspace, on a far machine: tried when
one is first wanted over a connection, by a command in each that tries what it must not be able to
do."""

import asyncio
import base64
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from hermes_agent.core.effects import Confinement
from hermes_agent.core.errors import HermesError
from hermes_agent.core.protocols import ShellCommand
from hermes_agent.core.text.secret_files import SECRET_FILES, SECRET_KEYS
from hermes_agent.core.text.sensitive_paths import holds_secrets
from hermes_agent.terminals.command_backend import CommandReport, TerminalUnreachable
from hermes_agent.terminals.local.view import APART, COVERS, FILTER
from hermes_agent.terminals.remote.agent_client import RemoteAgentClient
from hermes_agent.terminals.sandbox import landlock, seccomp, secret_scan

Attempt = Callable[[ShellCommand, int], Awaitable[CommandReport]]

SCRATCH_BYTES = 64 << 20
PREPARE = Path(__file__).with_name("view.sh").read_text(encoding="utf-8")
TRIAL = r"""
LC_ALL=C
read -r _ _ pid _ <"$HERMES_SPOOL/view-$kind.s"
fails() { echo "$1" >&2; exit 1; }
{ : >>"$HERMES_SPOOL/written"; } 2>/dev/null && fails "files could be written"
{ : >>"$TMPDIR/written"; } 2>/dev/null || fails "scratch files could not be written"
{ kill -0 "$pid"; } 2>/dev/null && fails "other processes could be signalled"
{ read -r -d '' _ <"/proc/$pid/environ"; } 2>/dev/null && fails "other processes could be read"
[[ -e $HERMES_SPOOL/private/pause ]] && fails "Hermes' own files could be reached"
if [[ $kind == read-only ]]; then
  { : <>/dev/tcp/127.0.0.1/9; } 2>&1 | grep -q "not permitted" || fails "hosts could be reached"
  exit 0
fi
IFS= read -r -d '' work <"$HERMES_SPOOL/workspace.root"
[[ -w $work ]] || fails "not even the workspace could be written"
[[ -w $work/.git ]] && fails "the repository could be written"
exit 0
"""
"""The `pid` is of whoever runs the command, outside; the `kind` is put before it."""
TRIAL_LOOKS = 200
FIND = r"""
find / -maxdepth 0 -printf '' || exit
cd -- "$1" && timeout 10 find . -xdev -maxdepth 5 -type d \( "${@:2}" \) -prune -o \
  \( -type d -printf '%P/\0' -o -type f -printf '%P\0' \) 2>/dev/null | head -c 8000000
exit 0
"""
"""Lists the files and folders of a workspace, not the deepest ones."""


async def probe(client: RemoteAgentClient, attempt: Attempt) -> Mapping[Confinement, str]:
    """Why commands cannot be confined so there; empty if they can. Leaves views that are ready.
    `attempt` runs a command, and polls so often for its end."""
    why = seccomp.missing()
    if client.machine not in seccomp.MACHINES:
        why = f"there is no system call filter for {client.machine or 'that machine'}"
    elif not client.bubblewrap:
        why = "bubblewrap is not installed there"
    try:
        wide = why or await _prepare(client)
        looks, changes = await asyncio.gather(
            _trial("read-only", attempt, why), _trial("workspace", attempt, wide)
        )
        return {"read-only": looks, "workspace": changes}
    except TerminalUnreachable:
        raise
    except HermesError as error:
        return {"read-only": error.message, "workspace": error.message}


async def _prepare(client: RemoteAgentClient) -> str:
    """Why a view for the workspace would hold nothing; empty if it would."""
    prunes = " -o ".join(f"-name {name}" for name in sorted(secret_scan.SKIPPED)).split()
    listed = await client.script(FIND, client.workspace, *prunes)
    found = listed.decode("utf-8", "surrogateescape").split("\0")[:-1]
    rows = [*_rows(), *(f"{client.workspace}/{path}" for path in _secret(found))]
    said = await client.script(
        PREPARE, client.spool, client.workspace, client.bubblewrap, str(SCRATCH_BYTES),
        str(FILTER), str(COVERS),
        data=_input(client.machine, rows),
    )  # fmt: skip
    return said.decode("utf-8", "replace")


async def _trial(kind: Confinement, attempt: Attempt, why: str) -> str:
    if why:
        return why
    text = f"kind={kind}\n{TRIAL}"
    trial = ShellCommand(f"view-{kind}", text, background=True, confinement=kind)
    report = await attempt(trial, TRIAL_LOOKS)
    if report.facts.code == 0:
        return ""
    if report.facts.code is None:
        return "bubblewrap did not start there in time"
    said = report.stderr.head.decode("utf-8", "replace").strip().splitlines()[-1:]
    return f"bubblewrap does not work there ({''.join(said).removeprefix('bwrap: ')})"


def _input(machine: str, rows: list[str]) -> bytes:
    def made(families: frozenset[int], *, signals: bool = True, changes: bool = False) -> bytes:
        return seccomp.program(
            families, netlink=seccomp.SHOWN, signals=signals, changes=changes, machine=machine
        )

    netlink = frozenset({seccomp.NETLINK})
    # Sockets of services are not looked for there: none in the file system can be opened.
    hosts = seccomp.USUAL - {socket.AF_UNIX}
    filters = (made(netlink), made(netlink, signals=False), made(hosts, changes=True))
    guard = Path(landlock.__file__).read_text(encoding="utf-8")
    encoded = (base64.b64encode(one).decode() for one in filters)
    words = (*encoded, guard, *APART, "", *rows)
    return "".join(f"{word}\0" for word in words).encode("utf-8", "surrogateescape")


def _rows() -> Iterator[str]:
    rows = (*secret_scan.SYSTEM, *SECRET_FILES, *SECRET_KEYS)
    yield from (row.removesuffix("/**") for row in rows)


def _secret(paths: list[str]) -> Iterator[str]:
    """Those of a workspace that hold secrets, without what is in one of them."""
    above = ""
    for path in sorted(paths):
        if above and path.startswith(above):
            continue
        if path.endswith("/") and holds_secrets(f"{path}any"):
            above = path
            yield path.removesuffix("/")
        elif not path.endswith("/") and holds_secrets(str(PurePosixPath(path))):
            yield path
