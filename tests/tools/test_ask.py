from hermes_agent.tools.ask import ask_user
from tests.support.calls import Caller


async def test_a_question_and_its_choices_reach_the_user(here: Caller) -> None:
    here.answers.append("blue")
    result = await here.call(ask_user, question="Which colour?", choices=["red", "blue"])
    assert here.asked == [("Which colour?", ("red", "blue"))]
    assert result.text == "blue"
    assert result.data["answer"] == "blue"


async def test_where_nobody_answers_the_model_is_told_to_go_on(here: Caller) -> None:
    here.answers.append(None)
    result = await here.call(ask_user, question="Which colour?")
    assert "nobody can answer" in result.text
    assert result.data["answer"] is None
