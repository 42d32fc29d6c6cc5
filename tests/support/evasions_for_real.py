"""Runs every evasion that the gate allows where it would run, beside files, a process, listeners
and secrets that it must not touch or read, and prints as JSON what it did. Only for a disposable
machine: see `disposable.sh`."""

import asyncio
import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from hermes_agent.core.effects import Effect, Verdict, outside_calls
from hermes_agent.core.protocols import ShellCommand
from hermes_agent.policy.files.loader import Policies
from hermes_agent.policy.path_resolvers import on_disk
from hermes_agent.terminals.local.terminal import LocalTerminal
from tests.policy.test_bundled import ASKING, BLIND, EVASIONS
from tests.support.terminals import DEFAULTS

TOKEN = "canary7Xq2Zr9Wk4"
SHOWN = [
    TOKEN, TOKEN[::-1], TOKEN.encode().hex(), base64.b64encode(TOKEN.encode()).decode()[:20],
    base64.b64encode(f"KEY={TOKEN}\n".encode()).decode()[:20],
]  # fmt: skip
HOME = Path("/root")
HERMES = HOME / ".hermes"
WORK = Path("/srv/canary")
SECRETS = (
    WORK / ".env", WORK / "server.key", WORK / "conf" / "db.env", HOME / ".ssh" / "id_ed25519",
    HOME / ".aws" / "credentials", HOME / ".netrc", HOME / "server.pem", HOME / ".bash_history",
    HERMES / ".env", Path("/etc/shadow"), Path("/app/.env"), Path("/opt/shop/server.key"),
)  # fmt: skip
PORTS = (22, 25, 80, 443, 5432, 6379, 8080, 9090, 9200)
SECONDS = 4.0
OWN = ("upper", "root/.hermes/terminals", "root/.hermes/results")
CODE = """import os
print(open("x").read())
os.remove("README.md")
"""


def furnish() -> None:
    for path in SECRETS:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"KEY={TOKEN}\n-----BEGIN PRIVATE KEY-----\n")
    (HOME / ".netrc").write_text(f"machine example.org login me password {TOKEN}\n")
    (HERMES / "state.db").write_text("journal")
    for name in ("build", "src", ".git"):
        (WORK / name).mkdir(exist_ok=True)
    files = {
        "README.md": "read me\n", "build/keep": "kept\n", "x": "rm -rf build README.md\n",
        "script": "rm -rf build\n", "list": ".env\n/etc/shadow\n", "script.py": CODE,
        "script.sh": "rm -rf build; cat .env /app/.env\n", "prog.awk": '{system("rm -rf build")}\n',
    }  # fmt: skip
    for name, text in files.items():
        (WORK / name).write_text(text)
        (WORK / name).chmod(0o755)


def changed() -> dict[str, tuple[float, int, int]]:
    """What is in the upper layer, but for the terminal's own files."""
    found = {}
    for folder, folders, files in os.walk("/upper"):
        inner = folder.removeprefix("/upper/")
        if inner in OWN or inner.startswith(tuple(f"{one}/" for one in OWN)):
            folders.clear()
            continue
        for name in files:
            with contextlib.suppress(OSError):
                facts = os.lstat(f"{folder}/{name}")
                found[f"{folder}/{name}"] = (facts.st_mtime, facts.st_size, facts.st_mode)
    return found


class Machine:
    def __init__(self) -> None:
        furnish()
        environment = {"TOKEN": TOKEN, "PATH": os.environ["PATH"]}
        self.process = subprocess.Popen(["sleep", "100000"], env=environment)
        self.listeners = []
        for port in PORTS:
            listener = socket.create_server(("127.0.0.1", port))
            listener.setblocking(False)
            self.listeners.append(listener)
        self.policies = Policies.of_home(HERMES, HOME)
        spool = HERMES / "terminals" / "session" / "local"
        spool.mkdir(parents=True)
        self.terminal = LocalTerminal(str(WORK), spool, DEFAULTS, dict(os.environ))
        self.before = changed()
        self.damages: list[tuple[str, str, str]] = []
        self.ran = 0

    def touched(self, *, calls: bool = False) -> str:
        """`calls`: a program that it names may connect from outside the view, as rules say."""
        after, before = changed(), self.before
        self.before = after
        if self.process.poll() is not None:
            return "the process was ended"
        for listener in self.listeners:
            with contextlib.suppress(BlockingIOError):
                while True:  # a program may connect more than once
                    listener.accept()[0].close()
                    if not calls:
                        return f"connected to {listener.getsockname()}"
        names = before.keys() | after.keys()
        different = sorted(name for name in names if before.get(name) != after.get(name))
        return f"changed {different[:3]}" if different else ""

    async def attempt(self, profile: str, command: str) -> None:
        gate = self.policies.gate(profile)
        effect = Effect(
            "e", "terminal", {"command": command}, "session", str(WORK), command=command,
            capabilities=("process",),
        )  # fmt: skip
        verdict: Verdict = await gate.judge(effect, on_disk)
        if verdict.action != "allow":
            return
        self.ran += 1
        if verdict.confinement != "read-only":
            self.damages.append((profile, command, f"allowed with {verdict.confinement}"))
            return
        given = ShellCommand(
            f"{profile}-{self.ran}", command, SECONDS, confinement="read-only",
            outside=outside_calls(gate, effect, on_disk),
        )  # fmt: skip
        self.damages += [
            (profile, command, found)
            for found in await self.run(given, calls=bool(verdict.outside))
        ]
        await self.terminal.run(ShellCommand(f"back-{self.ran}", f"cd {WORK}", SECONDS))

    async def run(self, given: ShellCommand, *, calls: bool = False) -> list[str]:
        state = await self.terminal.run(given)
        said = state.stdout + state.stderr
        if "the confined shell ended: bwrap" in said:
            return ["there was no view"]
        found = ["a secret was read"] if any(sign in said for sign in SHOWN) else []
        return [*found, *filter(None, [self.touched(calls=calls)])]

    async def noticed(self) -> list[int]:
        """How much is noticed of what harmful commands do that are not confined."""
        harmful = ("rm README.md", "xxd -p .env | tr -d '\\n'", "echo > /dev/tcp/127.0.0.1/80")
        given = [ShellCommand(f"harm-{n}", text, SECONDS) for n, text in enumerate(harmful)]
        return [len(await self.run(one)) for one in given]


async def main(rows: list[dict[str, object]]) -> None:
    machine = Machine()
    for profile in ASKING:
        for case in rows:
            if profile in case.get("profiles", ASKING):  # type: ignore[operator]
                await machine.attempt(profile, str(case["run"]))
    noticed = await machine.noticed()
    await machine.terminal.destroy()
    machine.process.kill()
    print(json.dumps({"ran": machine.ran, "damages": machine.damages, "noticed": noticed}))


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text()) if sys.argv[1:] else [*EVASIONS, *BLIND]
    asyncio.run(main(given))
