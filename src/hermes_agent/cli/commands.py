"""The table of commands. `hermes --help` prints it; the module of a command is imported when the
command runs. It offers `arguments(parser)` and `run(options) -> exit code`, or actions that
`arguments` adds. One module may hold several small commands: `module:function`."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

    from hermes_agent.cli.arguments import Parser


class CliCommand:
    """`module` lies in `hermes_agent.cli`, or is named in full if another distribution has it."""

    __slots__ = ("group", "module", "name", "summary")

    def __init__(self, group: str, name: str, module: str, summary: str) -> None:
        self.group = group
        self.name = name
        self.module = module if module.startswith("hermes_") else f"hermes_agent.cli.{module}"
        self.summary = summary

    def load(self) -> "tuple[Any, str, Callable[[argparse.ArgumentParser], None]]":
        """Import the command: its module, its description and what adds its arguments."""
        from hermes_agent.cli.arguments import json_option
        from hermes_agent.host.distributions import load

        name, _, function = self.module.partition(":")
        module = load(name)
        described = getattr(module, function) if function else module
        description = described.__doc__ or self.summary
        if function:
            description = description.replace("\n    ", "\n")  # the indent of a function
        adds = f"{function}_arguments" if function else "arguments"
        return module, description, getattr(module, adds, json_option)

    def parser(self) -> "tuple[Any, Parser]":
        """The module of the command, and the parser of its arguments."""
        from hermes_agent.cli.arguments import Parser

        module, description, add_arguments = self.load()
        parser = Parser(prog=f"hermes {self.name}", description=description)
        add_arguments(parser)
        return module, parser

    def run(self, module: "Any", options: "argparse.Namespace") -> int:
        act = getattr(module, self.module.partition(":")[2] or "run", None) or options.act
        return int(act(options) or 0)


_GROUPS = {
    "Talk": (
        ("ask", "talk.ask", "Ask one thing and print the answer"),
        ("chat", "talk.chat.command", "Talk in the terminal"),
        ("sessions", "talk.sessions", "List, show, search, resume, export, delete sessions"),
        ("interrupt", "talk.sessions:interrupt", "Stop what a session is doing, at once"),
        ("send", "talk.send", "Send a message to people through a channel"),
        ("gateway", "manage.gateway.command", "Channels: set up, status, test; who may talk"),
    ),
    "Decide": (
        ("approvals", "decide.approvals", "List and answer open questions"),
        ("parked", "decide.parked", "List and decide effects whose outcome is unknown"),
        ("proposals", "decide.proposals", "Notes and skills that reviews propose"),
        ("policy", "decide.policy", "List, check, test, explain and simulate policies"),
        ("audit", "decide.audit", "Show and verify the audit log"),
    ),
    "Work": (
        ("tools", "work.tools", "The agent's tools: built-in, and those it wrote itself"),
        ("skills", "work.skills", "Procedures: list, write, run, prove, report"),
        ("memory", "work.memory", "What the agent remembers: show, add, edit, undo, why"),
        ("search", "work.search", "Search all conversations, notes and skills"),
        ("mcp", "mcp.command", "MCP servers, and Hermes as an MCP server"),
        (
            "manifests",
            "hermes_drift.commands.manifests",
            "Check Kubernetes manifests against a policy",
        ),
        ("drift", "hermes_drift.commands.drift", "Compare live state with what Git declares"),
        ("drill", "work.drill", "Break something for practice, and watch it get fixed"),
        ("task", "work.task", "Jobs: add, list, run, edit, pause, history, decide"),
    ),
    "Watch": (
        ("watch", "watch.watch", "Health checks and alerts: show, list, run, add, install"),
        ("incidents", "watch.incidents.command", "Incidents: list, show, declare, close, report"),
        ("sources", "watch.sources", "What the agent sees in production: metrics, logs, clusters"),
    ),
    "Run": (
        ("terminals", "run.terminals", "Where commands can run, and what is missing"),
        ("up", "run.lifecycle:up", "Start the runtime in the background"),
        ("down", "run.lifecycle:down", "Stop the runtime"),
        ("restart", "run.lifecycle:restart", "Stop the runtime and start it again"),
        ("status", "run.status", "Show the state of the runtime"),
        ("logs", "run.lifecycle:logs", "Show the runtime's log"),
        ("doctor", "run.doctor", "Check everything and say how to fix it"),
        ("serve", "run.lifecycle:serve", "Run the runtime in the foreground"),
    ),
    "Manage": (
        ("setup", "manage.setup.command", "Find a model, choose a policy and a channel, start"),
        ("model", "manage.model.command", "Choose, list and test models; keys and logins"),
        ("add", "manage.add", "Install optional parts: channels, terminals, tools"),
        ("cost", "manage.cost", "What was spent, by day, session, model and use"),
        ("config", "manage.config", "Show, get and set settings"),
        (
            "import",
            "manage.imports.command",
            "Import from hermes-agent, OpenClaw or nanobot",
        ),
        ("backup", "manage.backup:backup", "Write a verified copy of the home to a file"),
        ("restore", "manage.backup:restore", "Restore a home from a backup"),
        ("completion", "help.command:completion", "Complete commands in bash, zsh and fish"),
        ("help", "help.command:help", "Explain a command, or one of its actions"),
    ),
}
LOOKS = frozenset(
    ("completion", "config", "config get", "cost", "doctor", "drift", "help", "incidents",
     "incidents list", "incidents report", "incidents show", "logs", "manifests", "mcp", "mcp list",
     "policy", "policy check", "policy explain", "policy list", "policy test", "search", "sources",
     "sources kinds", "sources list", "status", "task", "task check", "task history", "task list",
     "task show", "terminals", "watch list")
)  # fmt: skip
"""What the agent's own commands may call: it changes nothing. The runtime refuses what goes beyond
that, such as `drift accept`; see `runtime.api.peer_auth`."""
COMMANDS = tuple(CliCommand(group, *row) for group, rows in _GROUPS.items() for row in rows)


def find_command(name: str) -> CliCommand:
    """Raises a `UsageError` that suggests what was meant."""
    known = {command.name: command for command in COMMANDS}
    if name not in known:
        from hermes_agent.cli.help.suggestions import unknown_command

        raise unknown_command(name, list(known))
    return known[name]


HEAD = """\
Hermes: a persistent AI agent. Hand it a task and walk away.

usage: hermes COMMAND [options]

Start with `hermes`: it sets itself up, then opens the chat.
"""
FOOT = """
`hermes help COMMAND` says more. HERMES_HOME, HERMES_MODEL, HERMES_POLICY and
HERMES_TERMINAL override the home (~/.hermes; ~/.hermes-runtime where another
agent has that), the model, the policy profile and the terminal; --no-pager
prints long lists without a pager."""


def help_text(heading: "Callable[[str], str]" = str) -> str:
    lines = [
        f"{heading(f'{group:<7}') if place == 0 else ' ' * 7} {name:<10} {summary}"
        for group, rows in _GROUPS.items()
        for place, (name, _, summary) in enumerate(rows)
    ]
    return "\n".join([HEAD, *lines, FOOT])


def print_help() -> None:
    if os.environ.get("CLICOLOR_FORCE") or os.environ.get("FORCE_COLOR") or sys.stdout.isatty():
        from hermes_agent.cli.output.formatting import style
        from hermes_agent.cli.output.pager import show

        show(help_text(lambda name: style(name, "bold")))
    else:  # without what colour and a pager need to be imported
        print(help_text())
