"""Slash commands that work both in the terminal and in chats."""

ABOUT = {
    "help": "this list",
    "stop": "stop what the agent is doing; work so far is saved",
    "status": "the state of the runtime",
    "new": "start a new session",
    "sessions": "the latest sessions",
    "resume": "continue another session",
    "parked": "calls with an unknown outcome",
    "approvals": "open questions",
    "model": "show or switch the model",
    "cost": "what this session has cost",
    "undo": "go back to before your last message; effects are not undone",
    "branch": "continue in a copy of this session",
    "compact": "summarise the conversation now, to free room",
    "context": "what fills the context window",
}
