"""What the commands are for that there are wherever people talk to the agent: in the terminal and
in chats."""

ABOUT = {
    "help": "this list",
    "stop": "stop what the agent is doing; what was done is kept",
    "status": "how the runtime is",
    "new": "begin another session",
    "sessions": "the newest sessions",
    "resume": "go on with another session",
    "parked": "unknown outcomes",
    "approvals": "open questions",
    "model": "which model answers, or another one",
    "cost": "what this session used",
}
