"""What is learned from an incident: a skill with a runbook, written from the playbook of its
category."""

from hermes_agent.models.responder.brief import Aftermath
from hermes_agent.models.responder.moves import Call, Move, Work
from hermes_agent.models.responder.playbooks import playbook


def aftermath(task: Aftermath) -> Work:
    book = playbook(task.category)
    if book is None or not task.skill_wanted or task.known:
        return f"There is no more to learn from this: {task.category} is known."
    answer = yield Move(
        f"I write down how {task.category} is found and mended, for the next time.",
        (
            Call(
                "write_skill",
                {
                    "name": task.skill_wanted,
                    "files": book.files(task.skill_wanted),
                    "why": f"an incident of {task.component}: {task.category}",
                },
            ),
        ),
    )
    if answer.results and not answer.results[0].ok:
        return f"The skill was not taken: {answer.results[0].text[:300]}"
    return f"Written down as {task.skill_wanted}."
