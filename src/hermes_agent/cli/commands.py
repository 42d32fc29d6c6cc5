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
    Command("Talk", "ask", "ask", "Ask one thing and print the answer"),
    Command("Talk", "chat", "chat", "Talk in the terminal"),
    Command("Talk", "sessions", "sessions", "List, show, search, resume, export, delete sessions"),
    Command("Talk", "interrupt", "interrupt", "Stop what a session is doing, at once"),
    Command("Talk", "send", "send", "Send a message to people, by a channel"),
    Command("Talk", "gateway", "gateway", "Channels: set up, status, test; who may talk"),
    Command("Decide", "approvals", "approvals", "List and answer open questions"),
    Command("Decide", "parked", "parked", "List and decide effects whose outcome is unknown"),
    Command("Decide", "proposals", "proposals", "What reviews propose to remember and to learn"),
    Command("Decide", "policy", "policy", "List, check, test, explain and simulate policies"),
    Command("Decide", "audit", "audit", "Show and verify the audit log"),
    Command("Work", "tools", "tools", "The agent's tools, and those that it wrote itself"),
    Command("Work", "skills", "skills", "Procedures: list, write, run, prove, report"),
    Command("Work", "memory", "memory", "What it remembers: show, add, edit, undo, why"),
    Command("Work", "search", "search", "Search everything that was said, noted and learned"),
    Command("Work", "mcp", "mcp", "Servers of the Model Context Protocol; Hermes as one"),
    Command("Work", "manifests", "manifests", "Check Kubernetes manifests against a policy"),
    Command("Work", "drift", "drift", "What Git declares against what is there"),
    Command("Work", "drill", "drill", "Break something for practice, and see it healed"),
    Command("Work", "task", "task", "Jobs: add, list, run, edit, pause, history, decide"),
    Command("Watch", "watch", "watch", "Health checks and alerts: show, list, run, add, install"),
    Command(
        "Watch", "incidents", "incidents", "What went wrong: list, show, declare, close, report"
    ),
    Command("Run", "terminals", "terminals", "Where commands can run, and what is missing"),
    Command("Run", "up", "up", "Start the runtime in the background"),
    Command("Run", "down", "down", "Stop the runtime"),
    Command("Run", "restart", "restart", "Stop the runtime and start it again"),
    Command("Run", "status", "status", "How the runtime is"),
    Command("Run", "logs", "logs", "Show the runtime's log"),
    Command("Run", "doctor", "doctor", "Check everything and say what to mend"),
    Command("Run", "serve", "serve", "Run the runtime in the foreground"),
    Command("Keep", "model", "model", "Which model answers, and which there are"),
    Command("Keep", "cost", "cost", "What was spent, by day, session, model and use"),
    Command("Keep", "config", "config", "Show, get and set settings"),
    Command("Keep", "backup", "backup", "Write a checked copy of the home to a file"),
    Command("Keep", "restore", "restore", "Bring a home back from a backup"),
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
