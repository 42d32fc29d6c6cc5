"""The table of commands. `hermes --help` prints it; a command's module is imported when it runs
and offers `arguments(parser)` and `run(options) -> exit code`."""


class Command:
    __slots__ = ("group", "module", "name", "summary")

    def __init__(self, group: str, name: str, module: str, summary: str) -> None:
        self.group = group
        self.name = name
        self.module = module
        self.summary = summary


COMMANDS = (
    Command("Talk", "ask", "talk.ask", "Ask one thing and print the answer"),
    Command("Talk", "chat", "talk.chat.command", "Talk in the terminal"),
    Command(
        "Talk",
        "sessions",
        "talk.sessions.command",
        "List, show, search, resume, export, delete sessions",
    ),
    Command("Talk", "interrupt", "talk.interrupt", "Stop what a session is doing, at once"),
    Command("Talk", "send", "talk.send", "Send a message to people, by a channel"),
    Command(
        "Talk", "gateway", "manage.gateway.command", "Channels: set up, status, test; who may talk"
    ),
    Command("Decide", "approvals", "decide.approvals", "List and answer open questions"),
    Command(
        "Decide", "parked", "decide.parked", "List and decide effects whose outcome is unknown"
    ),
    Command(
        "Decide", "proposals", "decide.proposals", "What reviews propose to remember and to learn"
    ),
    Command(
        "Decide",
        "policy",
        "decide.policy.command",
        "List, check, test, explain and simulate policies",
    ),
    Command("Decide", "audit", "decide.audit", "Show and verify the audit log"),
    Command("Work", "tools", "work.tools", "The agent's tools, and those that it wrote itself"),
    Command("Work", "skills", "work.skills.command", "Procedures: list, write, run, prove, report"),
    Command("Work", "memory", "work.memory", "What it remembers: show, add, edit, undo, why"),
    Command("Work", "search", "work.search", "Search everything that was said, noted and learned"),
    Command("Work", "mcp", "mcp.command", "Servers of the Model Context Protocol; Hermes as one"),
    Command("Work", "manifests", "work.manifests", "Check Kubernetes manifests against a policy"),
    Command("Work", "drift", "work.drift.command", "What Git declares against what is there"),
    Command("Work", "drill", "work.drill", "Break something for practice, and see it healed"),
    Command(
        "Work", "task", "work.task.command", "Jobs: add, list, run, edit, pause, history, decide"
    ),
    Command(
        "Watch", "watch", "watch.watch", "Health checks and alerts: show, list, run, add, install"
    ),
    Command(
        "Watch",
        "incidents",
        "watch.incidents.command",
        "What went wrong: list, show, declare, close, report",
    ),
    Command("Run", "terminals", "run.terminals", "Where commands can run, and what is missing"),
    Command("Run", "up", "run.up", "Start the runtime in the background"),
    Command("Run", "down", "run.down", "Stop the runtime"),
    Command("Run", "restart", "run.restart", "Stop the runtime and start it again"),
    Command("Run", "status", "run.status", "How the runtime is"),
    Command("Run", "logs", "run.logs", "Show the runtime's log"),
    Command("Run", "doctor", "run.doctor", "Check everything and say what to mend"),
    Command("Run", "serve", "run.serve", "Run the runtime in the foreground"),
    Command("Manage", "model", "manage.model.command", "Which model answers, and which there are"),
    Command("Manage", "cost", "manage.cost", "What was spent, by day, session, model and use"),
    Command("Manage", "config", "manage.config", "Show, get and set settings"),
    Command("Manage", "backup", "manage.backup", "Write a checked copy of the home to a file"),
    Command("Manage", "restore", "manage.restore", "Bring a home back from a backup"),
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
