"""The systemd unit that keeps the runtime of a home running, for this user."""

import os
import subprocess
import sys

from hermes_agent.core.errors import HermesError
from hermes_agent.core.text.terminal import clean
from hermes_agent.host.paths import unit_path


def write_unit(home: str) -> str:
    """Write the unit; its path."""
    path = unit_path(os.environ)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(unit_text(sys.executable, home))
    return path


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
    """The unit. Stopping it leaves running commands alone, as `hermes down` does."""

    def quoted(text: str) -> str:
        safe = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
        return f'"{safe}"'

    return f"""[Unit]
Description=Hermes: watches, jobs and chats
After=network-online.target

[Service]
ExecStart={quoted(python)} -m hermes_agent serve
Environment={quoted(f"HERMES_HOME={home}")}
Restart=always
RestartSec=2
KillMode=process

[Install]
WantedBy=default.target
"""
