"""Notes, documents, skills, proposals and background tasks: a part of the store."""

from hermes_agent.store.engine.operations import StorePart, read, write
from hermes_agent.store.knowledge import documents, tasks
from hermes_agent.store.knowledge import notes as note_rows
from hermes_agent.store.knowledge import skills as skill_rows


class KnowledgeStore(StorePart):
    notes = read(note_rows.notes)
    edit_notes = write(note_rows.edit_notes)
    note_changes = read(note_rows.note_changes)
    notes_used = write(note_rows.notes_used)

    save_documents = write(documents.save_documents)
    drop_docs = write(documents.drop_docs)
    docs = read(documents.docs)
    get_docs = read(documents.get_docs)
    find_docs = read(documents.find_docs)
    count_docs = read(documents.count_docs)
    save_vectors = write(documents.save_vectors)
    vectors = read(documents.vectors)
    without_vector = read(documents.without_vector)

    skills = read(skill_rows.skills)
    skill = read(skill_rows.skill)
    save_version = write(skill_rows.save_version)
    set_skill = write(skill_rows.set_skill)
    versions = read(skill_rows.versions)
    files = read(skill_rows.files)
    skill_changes = read(skill_rows.skill_changes)
    add_uses = write(skill_rows.add_uses)
    uses = read(skill_rows.uses)
    add_cases = write(skill_rows.add_cases)
    log_skill = write(skill_rows.log_skill)
    remove_cases = write(skill_rows.remove_cases)
    cases = read(skill_rows.cases)
    add_trials = write(skill_rows.add_trials)
    trials = read(skill_rows.trials)

    propose = write(tasks.propose)
    proofs_of = read(tasks.proofs_of)
    proposals = read(tasks.proposals)
    decide_proposal = write(tasks.decide_proposal)
    reopen_proposal = write(tasks.reopen_proposal)
    add_task = write(tasks.add_task)
    due_tasks = read(tasks.due_tasks)
    postpone = write(tasks.postpone)
    drop_task = write(tasks.drop_task)
    given_up = read(tasks.given_up)
    forget_tasks = write(tasks.forget_tasks)
    close_task = write(tasks.close_task)
    _counter = read(tasks.counter)
    _add_to_counter = write(tasks.add_to_counter)

    async def count(self, name: str, add: int = 0) -> int:
        """Add to a counter; returns its value."""
        return await (self._add_to_counter(name, add) if add else self._counter(name))
