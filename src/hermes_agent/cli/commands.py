"""The table of commands. `hermes --help` prints it; a command's module is imported when it runs
and offers `arguments(parser)` and `run(options) -> exit code`."""


class CliCommand:
    """`module` lies in `hermes_agent.cli`, or is named in full if another distribution has it."""

    __slots__ = ("group", "module", "name", "summary")

    def __init__(self, group: str, name: str, module: str, summary: str) -> None:
        self.group = group
        self.name = name
        self.module = module if module.startswith("hermes_") else f"hermes_agent.cli.{module}"
        self.summary = summary


COMMANDS = (
    CliCommand("Talk", "ask", "talk.ask", "Ask one thing and print the answer"),
    CliCommand("Talk", "chat", "talk.chat.command", "Talk in the terminal"),
    CliCommand(
        "Talk",
        "sessions",
        "talk.sessions.command",
        "List, show, search, resume, export, delete sessions",
    ),
    CliCommand("Talk", "interrupt", "talk.interrupt", "Stop what a session is doing, at once"),
    CliCommand("Talk", "send", "talk.send", "Send a message to people, by a channel"),
    CliCommand(
        "Talk", "gateway", "manage.gateway.command", "Channels: set up, status, test; who may talk"
    ),
    CliCommand("Decide", "approvals", "decide.approvals", "List and answer open questions"),
    CliCommand(
        "Decide", "parked", "decide.parked", "List and decide effects whose outcome is unknown"
    ),
    CliCommand(
        "Decide", "proposals", "decide.proposals", "What reviews propose to remember and to learn"
    ),
    CliCommand(
        "Decide",
        "policy",
        "decide.policy.command",
        "List, check, test, explain and simulate policies",
    ),
    CliCommand("Decide", "audit", "decide.audit", "Show and verify the audit log"),
    CliCommand("Work", "tools", "work.tools", "The agent's tools, and those that it wrote itself"),
    CliCommand(
        "Work", "skills", "work.skills.command", "Procedures: list, write, run, prove, report"
    ),
    CliCommand("Work", "memory", "work.memory", "What it remembers: show, add, edit, undo, why"),
    CliCommand(
        "Work", "search", "work.search", "Search everything that was said, noted and learned"
    ),
    CliCommand(
        "Work", "mcp", "mcp.command", "Servers of the Model Context Protocol; Hermes as one"
    ),
    CliCommand(
        "Work",
        "manifests",
        "hermes_drift.commands.manifests",
        "Check Kubernetes manifests against a policy",
    ),
    CliCommand(
        "Work", "drift", "hermes_drift.commands.drift", "What Git declares against what is there"
    ),
    CliCommand("Work", "drill", "work.drill", "Break something for practice, and see it healed"),
    CliCommand(
        "Work", "task", "work.task.command", "Jobs: add, list, run, edit, pause, history, decide"
    ),
    CliCommand(
        "Watch", "watch", "watch.watch", "Health checks and alerts: show, list, run, add, install"
    ),
    CliCommand(
        "Watch",
        "incidents",
        "watch.incidents.command",
        "What went wrong: list, show, declare, close, report",
    ),
    CliCommand("Run", "terminals", "run.terminals", "Where commands can run, and what is missing"),
    CliCommand("Run", "up", "run.up", "Start the runtime in the background"),
    CliCommand("Run", "down", "run.down", "Stop the runtime"),
    CliCommand("Run", "restart", "run.restart", "Stop the runtime and start it again"),
    CliCommand("Run", "status", "run.status", "How the runtime is"),
    CliCommand("Run", "logs", "run.logs", "Show the runtime's log"),
    CliCommand("Run", "doctor", "run.doctor", "Check everything and say what to mend"),
    CliCommand("Run", "serve", "run.serve", "Run the runtime in the foreground"),
    CliCommand(
        "Manage", "model", "manage.model.command", "Which model answers, and which there are"
    ),
    CliCommand("Manage", "cost", "manage.cost", "What was spent, by day, session, model and use"),
    CliCommand("Manage", "config", "manage.config", "Show, get and set settings"),
    CliCommand("Manage", "backup", "manage.backup", "Write a checked copy of the home to a file"),
    CliCommand("Manage", "restore", "manage.restore", "Bring a home back from a backup"),
)


def help_text() -> str:
    lines = [
        "Hermes: a persistent AI agent. Hand it a task and walk away.",
        "",
        "usage: hermes COMMAND [options]",
    ]
    group = ""
    for command in COMMANDS:
        if command.group != group:
            group = command.group
            lines += ["", f"{group}:"]
        lines.append(f"  {command.name:<10} {command.summary}")
    lines += [
        "",
        "`hermes COMMAND --help` tells more. HERMES_HOME, HERMES_MODEL and HERMES_POLICY override",
        "the home (~/.hermes), the model and the policy profile; HERMES_TERMINAL the terminal.",
    ]
    return "\n".join(lines)
