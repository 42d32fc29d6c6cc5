"""The systemd unit that keeps the runtime of a home running, for this user."""

import os
import subprocess
import sys

from hermes_agent.core.errors import HermesError
from hermes_agent.core.text.terminal import clean
from hermes_agent.host.paths import has_systemd, unit_path


def has_unit(home: str) -> bool:
    """Whether systemd runs the runtime of this home."""
    return has_systemd() and is_unit_of(home, _installed())


def is_unit_of(home: str, unit: str) -> bool:
    return _environment(home) in unit.splitlines()


def write_unit(home: str) -> str:
    """Write the unit; its path. There is one unit for a user: another home's is not replaced."""
    path = unit_path(os.environ)
    if "HERMES_HOME=" in (there := _installed()) and not is_unit_of(home, there):
        raise HermesError(
            f"{path} runs the runtime of another home",
            "remove it first, or `hermes up --no-unit` starts this one without systemd",
        )
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(unit_text(sys.executable, home))
    return path


def _installed() -> str:
    try:
        with open(unit_path(os.environ), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def systemctl(*words: str) -> None:
    command = ["systemctl", "--user", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        line = clean(done.stderr.strip()) or f"it ended with {done.returncode}"
        raise HermesError(
            f"systemctl --user {' '.join(words)}: {line}",
            "`hermes up --no-unit` starts it without systemd",
        )


def unit_text(python: str, home: str) -> str:
    """The unit. Stopping it leaves running commands alone, as `hermes down` does; what was stopped
    in order is not started again."""
    return f"""[Unit]
Description=Hermes: watches, jobs and chats
After=network-online.target

[Service]
ExecStart={_quoted(python)} -m hermes_agent serve --wait
{_environment(home)}
Restart=on-failure
RestartSec=2
KillMode=process

[Install]
WantedBy=default.target
"""


def _environment(home: str) -> str:
    return f"Environment={_quoted(f'HERMES_HOME={home}')}"


def _quoted(text: str) -> str:
    safe = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{safe}"'
