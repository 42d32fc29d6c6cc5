"""The journal: sessions, turns, events, the audit log, costs and search."""

from hermes_agent.store.engine.operations import StorePart, read, write
from hermes_agent.store.journal import append as append_rows
from hermes_agent.store.journal import audit as audit_rows
from hermes_agent.store.journal import background, commands, imports, queries
from hermes_agent.store.journal import costs as cost_rows
from hermes_agent.store.search import index


class Journal(StorePart):
    """Every write is on disk when it returns, or raises `Degraded` and has written nothing. One
    process at a time writes; turns are fenced all the same."""

    open_session = write(commands.open_session)
    session = read(queries.session)
    root_session = read(queries.root_session)
    sessions = read(queries.sessions)
    branch = write(commands.branch)
    import_turns = write(imports.import_turns)
    rename_session = write(commands.rename_session)
    _delete_session = write(commands.delete_session)
    prompt = read(queries.prompt)
    receive = write(commands.receive)
    waiting = read(queries.waiting)
    cancel_message = write(commands.cancel_message)
    sessions_with_queued_messages = read(queries.sessions_with_queued_messages)
    start_turn = write(commands.start_turn)
    claim_unfinished = write(commands.claim_unfinished)
    take_queued_messages = write(commands.take_queued_messages)
    append = write(append_rows.append)
    note = write(commands.note)
    charge = write(append_rows.charge)
    refund = write(cost_rows.refund)
    events = read(queries.events)
    last_number = read(queries.last_number)
    check_at_rest = read(queries.check_at_rest)
    unfinished_turn = read(queries.unfinished_turn)
    parked = read(queries.parked)
    questions = read(queries.questions)
    background_commands = read(background.background_commands)
    add_after_command = write(background.add_after_command)
    command_reported = write(background.command_reported)
    judgements = read(queries.judgements)
    audit = read(audit_rows.audit)
    verify_audit = read(audit_rows.verify_audit)
    spent = read(cost_rows.spent)
    spent_by = read(cost_rows.spent_by)
    costs = read(cost_rows.costs)
    search = read(index.search)

    async def delete_session(self, id: str) -> None:
        await self._delete_session(id)
        await self._engine.sweep()
