"""The agent's own commands cannot answer for the user."""

import json
import os
import signal
import socket
import sys
from pathlib import Path

from hermes_agent.host.inspect import is_agents_command
from hermes_agent.host.paths import socket_paths
from tests.faults.harness import Case, wait_until


def test_a_command_that_was_allowed_cannot_approve_the_next(one: Case) -> None:
    # `hermes approvals` refuses by itself; this is a program that it knows nothing of.
    program = one.work / "ask.py"
    program.write_text(
        "from hermes_agent.cli.client.api import RuntimeClient\n"
        "from hermes_agent.core.errors import HermesError\n"
        "client = RuntimeClient()\n"
        "print('it may look:', client.get('/v1/jobs'))\n"
        "new = {'spec': {'prompt': 'x'}, 'when': '30m'}\n"
        "audit = {'repository': '.', 'policy': 'sandbox'}\n"
        "for path, body in ('/v1/jobs', new), ('/v1/drift', audit), ('/v1/drift/x.1', {}):\n"
        "    try:\n"
        "        print('it did', client.post(path, body))\n"
        "    except HermesError as error:\n"
        "        print(error.message)\n"
        "print('it ' + 'did', client.get('/v1/questions'))\n"
    )
    asking = f"env HERMES_HOME={one.home} {sys.executable} {program}"
    hiding = f"env -u HERMES_SPOOL setsid -w {asking}"
    alone = f"mkfifo end; (env -i setsid -f {asking} >end 2>&1 &); cat end; false"
    calls = [{"tool": "terminal", "with": {"command": each}} for each in (asking, hiding, alone)]
    one.script.write_text(json.dumps({"turns": [{"replies": [{"calls": calls}, {"say": "x"}]}]}))
    one.start()
    assert one.send("m1")
    wait_until(lambda: one.state() == "idle", "the turn to end")
    results = [e["event"] for e in one.journal() if e["event"]["kind"] == "call_finished"]
    assert len(results) == 3
    for result in results:
        assert not result["ok"]
        assert "it may look: []" in result["text"]
        assert result["text"].count("may not use the runtime") >= 4
        assert "it did" not in result["text"]


def test_the_user_s_own_processes_are_not_the_agent_s() -> None:
    assert not is_agents_command(os.getpid())
    assert not is_agents_command(2**30)


def test_a_socket_inherited_from_who_connected_it_only_reads(one: Case) -> None:
    one.start()
    assert one.send("m1")
    with socket.socket(socket.AF_UNIX) as client:
        os.kill(one.pid, signal.SIGSTOP)  # it accepts once the child is gone
        if (child := os.fork()) == 0:
            client.connect(
                next(path for path in socket_paths(str(one.home)) if Path(path).exists())
            )
            os._exit(0)
        os.waitpid(child, 0)
        os.kill(one.pid, signal.SIGCONT)
        client.sendall(b"GET /v1/questions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 403")
