"""The commands inside a chat. Each takes the conversation and the words after its name, and returns
the text to show."""

import os
import time
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, NamedTuple

from hermes_agent.cli.arguments import EFFORT_LEVELS, absolute_model, read_files, session_name
from hermes_agent.cli.client.api import quoted
from hermes_agent.cli.decide.approvals import answer_question, questions_text
from hermes_agent.cli.decide.parked import DECISIONS, decide, parked_text
from hermes_agent.cli.output.events import with_effort
from hermes_agent.cli.output.formatting import count, one_line
from hermes_agent.cli.output.session_history import (
    branch_text,
    changes_text,
    context_text,
    costs_text,
    rewind_text,
    stays_text,
)
from hermes_agent.cli.output.sessions import export, found_text, sessions_text
from hermes_agent.cli.output.transcript import messages, tool_line
from hermes_agent.cli.run.status import current_status, status_lines
from hermes_agent.cli.talk.chat.session import ChatSession, last_session
from hermes_agent.cli.talk.chat.status import short_folder
from hermes_agent.core.chat_commands import ABOUT
from hermes_agent.core.errors import HermesError, NotFound, UsageError


class SlashCommand(NamedTuple):
    run: Callable[[ChatSession, str], str]
    usage: str
    summary: str
    completes: str | tuple[str, ...] = ""
    """What its argument is: `model`, `session`, `skill`, `file`, or its choices."""


def is_slash(talk: ChatSession, line: str) -> bool:
    """Whether a line is a chat command. `/skill-name …` is a message that opens a skill."""
    if not line.startswith("/"):
        return False
    name = line.removeprefix("/").partition(" ")[0]
    return name in SLASHES or name in ALIASES or not _is_skill(talk, name)


def _is_skill(talk: ChatSession, name: str) -> bool:
    if not name.replace("-", "").isalnum():
        return False
    try:
        talk.api.get(f"/v1/skills/{quoted(name)}")
    except NotFound:
        return False
    return True


def run_slash(talk: ChatSession, line: str) -> str:
    """Run `/name words`; the error for an unknown name suggests the closest."""
    name, _, words = line.removeprefix("/").partition(" ")
    name = ALIASES.get(name, name)
    if name not in SLASHES:
        near = get_close_matches(name, SLASHES, 1, 0.5)
        meant = f"did you mean /{near[0]}? " if near else ""
        raise UsageError(f"no command called /{name}", f"{meant}/help lists them")
    return SLASHES[name].run(talk, words.strip())


def _help(_talk: ChatSession, _words: str) -> str:
    width = max(len(slash.usage) for slash in SLASHES.values())
    lines = [f"{slash.usage:<{width}}  {slash.summary}" for slash in SLASHES.values()]
    lines += [
        "",
        "/skill-name ARGUMENTS  opens a skill; `hermes skills list` shows them",
        "Alt+Enter, or a backslash at the end, starts a new line",
        "@PATH in a message attaches a file; paste or drop an image, or press Ctrl-V",
        "Ctrl-O shows the output of tools, Ctrl-R searches what you typed, Ctrl-X Ctrl-E edits",
        "Ctrl-C stops the agent, a second Ctrl-C or Ctrl-D leaves",
        "`hermes import`, outside the chat, brings over what another agent has",
    ]
    return "\n".join(lines)


def _stop(talk: ChatSession, _words: str) -> str:
    return "stopping" if talk.interrupt() else "the agent was not working"


def _status(talk: ChatSession, _words: str) -> str:
    status = current_status(talk.api)
    here = [f"session    {talk.id or 'none yet'}"]
    return "\n".join(here + status_lines({**status, "model": talk.model or status["model"]}))


def _new(talk: ChatSession, _words: str) -> str:
    talk.detach_session()
    return "your next message opens a new session"


def _sessions(talk: ChatSession, _words: str) -> str:
    return sessions_text(talk.api.get("/v1/sessions", limit=15), time.time())


def _resume(talk: ChatSession, words: str) -> str:
    found = talk.session(words) if words else last_session(talk.api, besides=talk.id)
    talk.enter(found)
    folder = short_folder(found["workspace"], os.path.expanduser("~"), 200)
    title = one_line(found["name"] or found["title"], 50)
    return f"you are now in session {talk.id}, in {folder}: {title}"


def _name(talk: ChatSession, words: str) -> str:
    if not words:
        raise UsageError("name it: /name WORDS")
    name = session_name(words)
    talk.rename(name)
    return f"this session is called {name!r}"


def _search(talk: ChatSession, words: str) -> str:
    if not words:
        raise UsageError("name what to search for: /search WORDS")
    return found_text(talk.api.get("/v1/search", q=words, limit=10))


def _parked(talk: ChatSession, words: str) -> str:
    decision, _, effect = words.partition(" ")
    if not words:
        return parked_text(talk.api.get("/v1/parked"), time.time())
    if decision not in DECISIONS:
        raise UsageError(
            f"not a valid decision: {decision!r}", f"use one of: {', '.join(DECISIONS)}"
        )
    decide(talk.api, effect.strip(), decision)
    return f"{decision}: the turn continues"


def _approvals(talk: ChatSession, words: str) -> str:
    id, _, answer = words.partition(" ")
    if not words:
        return questions_text(talk.api.get("/v1/questions"), time.time())
    if not answer:
        raise UsageError("write an answer: /approvals ID yes|no|TEXT")
    answer_question(talk.api, id, answer.strip())
    return f"{id}: {answer.strip()}"


def _cost(talk: ChatSession, _words: str) -> str:
    if not talk.id:
        return "nothing spent yet"
    models, uses = (talk.api.get("/v1/costs", by=by, session=talk.id) for by in ("model", "use"))
    return costs_text(talk.session(), models, uses)


# going back, branching off


def _undo(talk: ChatSession, words: str) -> str:
    if not words.removeprefix("#").isdecimal() and words:
        raise UsageError(f"not a number: {words!r}", "/undo 2 goes back two messages; /undo #12")
    done = _rewind(talk, _report(talk, words))
    talk.draft = done["text"]
    return stays_text(done["effects"]) if talk.follows else rewind_text(done)


def _report(talk: ChatSession, words: str) -> dict[str, Any]:
    """What going back to before a message would do: `2` from the end, or `#12`."""
    number = int(words.removeprefix("#") or 1)
    message, back = (number, 1) if words.startswith("#") else (0, number)
    report: dict[str, Any] = talk.look("rewind", message=message, back=back)
    return report


def _rewind(talk: ChatSession, report: dict[str, Any]) -> dict[str, Any]:
    """Go back, once: the message's number says where. Its files are attached to the next one."""
    done: dict[str, Any] = talk.act("rewind", message=report["message"])
    talk.files = done["files"]
    return done


def _retry(talk: ChatSession, words: str) -> str:
    report = _report(talk, "")
    if report["effects"] and words != "anyway":
        return (
            f"{stays_text(report['effects'])}\n"
            "/retry anyway  sends your message again; the agent may repeat them"
        )
    talk.outgoing = _rewind(talk, report)["text"]
    return f"sending again: {one_line(talk.outgoing, 60)}"


def _branch(talk: ChatSession, words: str) -> str:
    first, _, rest = words.partition(" ")
    message, name = (first, rest) if first[:1] == "#" and first[1:].isdecimal() else ("", words)
    name = session_name(name.strip()) if name.strip() else ""
    branch = talk.act("branch", message=int(message[1:] or 0), name=name)
    talk.enter(branch)
    return f"{branch_text(branch)}; you are in it now, /resume {branch['branch_of']} goes back"


def _compact(talk: ChatSession, _words: str) -> str:
    done = talk.act("compact")
    shorter = f"about {done['before']:,} tokens are now {done['after']:,}"
    return f"{count(done['messages'], 'message')} summarised: {shorter}"


def _context(talk: ChatSession, _words: str) -> str:
    return context_text(talk.look("context"))


def _diff(talk: ChatSession, words: str) -> str:
    return changes_text(talk.session(), talk.journal(), words)


def _model(talk: ChatSession, words: str) -> str:
    """Without words: which model it is. `/model [NAME] [EFFORT] [anyway]` switches."""
    said = words.split()
    efforts = [word for word in said if word in EFFORT_LEVELS]
    names = [word for word in said if word not in (*EFFORT_LEVELS, "anyway")]
    if len(names) > 1 or len(efforts) > 1:
        raise UsageError(
            "name one model", f"/model NAME EFFORT; efforts: {', '.join(EFFORT_LEVELS)}"
        )
    name, effort = "".join(names), "".join(efforts)
    if not (name or effort):
        return _which(talk)
    if not talk.id:
        return _open_with(talk, name, effort)
    before = talk.session()
    choice = talk.choose_model(absolute_model(name), effort, "anyway" in said)
    if not choice["switched"]:
        return f"{choice['warning']}\n/model {words} anyway  switches regardless"
    if talk.follows and any(before[key] != choice[key] for key in ("model", "effort")):
        return ""
    return f"the model is now {choice['model']}{with_effort(choice['effort'])}"


def _which(talk: ChatSession) -> str:
    effort = talk.session()["effort"] if talk.id else talk.effort
    return f"{talk.model or 'none'}{with_effort(effort)}; /model NAME [EFFORT] switches"


def _open_with(talk: ChatSession, name: str, effort: str) -> str:
    from hermes_agent.cli.home import home_and_settings, open_models

    models = open_models(*home_and_settings())
    full = models.resolve(absolute_model(name or talk.model))
    models.check(full)
    talk.open_with(full, effort)
    return f"your next message opens a session with {full}{with_effort(effort)}"


def _file(talk: ChatSession, words: str) -> str:
    if not words:
        names = ", ".join(file["name"] for file in talk.files)
        return f"attached to your next message: {names or 'nothing'}"
    if words == "none":
        talk.files = []
        return "nothing is attached to your next message"
    talk.files += read_files([words])
    return f"attached to your next message: {talk.files[-1]['name']} ({talk.files[-1]['type']})"


def _show(talk: ChatSession, words: str) -> str:
    calls = [one for one in messages(talk.journal()) if one["role"] == "tool"] if talk.id else []
    if not calls:
        raise UsageError("no tool was called yet")
    if words and not (words.isdecimal() and 0 < int(words) <= len(calls)):
        raise UsageError(f"no tool call {words!r}", f"they are numbered from 1 to {len(calls)}")
    number = int(words or len(calls))
    call = calls[number - 1]
    return f"{tool_line(call['call'], call)}  [{number}]\n{call['text']}"


def _edit(_talk: ChatSession, _words: str) -> str:
    raise UsageError("the plain chat has no editor", "write the message in lines that end in \\")


def _export(talk: ChatSession, words: str) -> str:
    if not talk.id:
        return "nothing to export yet"
    path = os.path.abspath(os.path.expanduser(words or f"hermes-{talk.id}.md"))
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.writelines(export(talk.api, talk.session(), "markdown"))
    except OSError as error:
        raise HermesError(
            f"cannot write {path}: {error.strerror}", "name a new file: /export FILE"
        ) from None
    return f"wrote {path}"


def _quit(talk: ChatSession, _words: str) -> str:
    talk.leaving = True
    return ""


SLASHES = {
    "help": SlashCommand(_help, "/help", ABOUT["help"]),
    "stop": SlashCommand(_stop, "/stop", ABOUT["stop"]),
    "status": SlashCommand(_status, "/status", ABOUT["status"]),
    "new": SlashCommand(_new, "/new", ABOUT["new"]),
    "sessions": SlashCommand(_sessions, "/sessions", ABOUT["sessions"]),
    "resume": SlashCommand(_resume, "/resume [ID]", ABOUT["resume"], "session"),
    "name": SlashCommand(_name, "/name NAME", "name this session"),
    "search": SlashCommand(_search, "/search WORDS", "search all sessions"),
    "parked": SlashCommand(
        _parked, "/parked [retry|skip|it-happened ID]", ABOUT["parked"], tuple(DECISIONS)
    ),
    "approvals": SlashCommand(_approvals, "/approvals [ID yes|no|TEXT]", ABOUT["approvals"]),
    "model": SlashCommand(_model, "/model [NAME] [EFFORT]", ABOUT["model"], "model"),
    "file": SlashCommand(
        _file, "/file [PATH|none]", "attach an image or a PDF to your next message", "file"
    ),
    "show": SlashCommand(_show, "/show [N]", "the whole output of a tool call, or of the last one"),
    "edit": SlashCommand(_edit, "/edit", "write your message in $EDITOR"),
    "undo": SlashCommand(_undo, "/undo [N|#MESSAGE]", ABOUT["undo"]),
    "retry": SlashCommand(
        _retry, "/retry", "go back to before your last message and send it again"
    ),
    "branch": SlashCommand(_branch, "/branch [#MESSAGE] [NAME]", ABOUT["branch"]),
    "compact": SlashCommand(_compact, "/compact", ABOUT["compact"]),
    "context": SlashCommand(_context, "/context", ABOUT["context"]),
    "diff": SlashCommand(_diff, "/diff [FILE]", "what this session has changed in files"),
    "cost": SlashCommand(_cost, "/cost", ABOUT["cost"]),
    "export": SlashCommand(_export, "/export [FILE]", "write this session as Markdown", "file"),
    "quit": SlashCommand(_quit, "/quit", "leave; the agent keeps working"),
}
ALIASES = {"exit": "quit"}
