import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.learning.recall.terms import (
    TERMS,
    TEXT_CHARS,
    key_of,
    meaningful,
    near,
    prefix,
    terms,
)


def keys(text: str) -> list[str]:
    return [term.key for term in terms(text)]


@pytest.mark.parametrize(
    "forms",
    [
        "restart restarts restarted restarting",
        "query queries",
        "cache caches cached caching",
        "run runs running",
        "log logs logged logging",
        "connect connects connected connecting connection connections",
        "migrate migrates migrated migrating migration migrations",
        "deploy deploys deployed deploying deployment deployments",
        "policy policies",
        "crash crashes crashed crashing",
        "kubernetes k8s",
        "postgres postgresql pg",
        "certificate certificates cert certs",
    ],
)
def test_the_forms_of_a_word_count_as_one(forms: str) -> None:
    assert len({key_of(form) for form in forms.split()}) == 1


@pytest.mark.parametrize(
    "forms", ["redis red", "status stat", "string strings str", "nginx engine", "speed spending"]
)
def test_other_words_stay_other_words(forms: str) -> None:
    first, *others = forms.split()
    assert key_of(first) not in {key_of(other) for other in others if other != f"{first}s"}


@pytest.mark.parametrize("word", ["restarting", "queries", "migrations", "logged", "caches"])
def test_a_word_is_looked_for_in_its_other_forms(word: str) -> None:
    (term,) = terms(word)
    assert word in term.forms
    assert {key_of(form) for form in term.forms} == {term.key}


def test_a_name_is_kept_whole_and_taken_apart() -> None:
    assert keys("restart nginx.service, see /var/lib/docker and ORA-00942!") == [
        "restart", "nginx.service", "nginx", "servic",
        "/var/lib/docker", "var", "lib", "docker", "ora-00942", "ora", "00942",
    ]  # fmt: skip


def test_writing_without_spaces_is_taken_in_pairs() -> None:
    assert keys("磁盘满了\uff0cnginx 报错") == ["磁盘", "盘满", "满了", "nginx", "报错"]


def test_accents_and_case_do_not_count() -> None:
    assert keys("Prüfe die FESTPLATTE") == keys("prufe die festplatte")


@pytest.mark.parametrize(
    "text",
    [
        "", "yes", "ok, go on", "thanks, that was great", "Hello there, how are you?", "and now?",
        "ja bitte, mach weiter", "oui, merci", "sí, gracias", "好的 谢谢", "继续",
        "1 2 3", "!!! ???",
    ],
)  # fmt: skip
def test_what_people_say_in_passing_is_about_nothing(text: str) -> None:
    assert meaningful(terms(text)) < 3


def test_of_a_long_text_the_beginning_and_the_end_count() -> None:
    text = f"kafka {'word ' * TEXT_CHARS} postgres"
    assert keys(text)[0] == "kafka"
    assert keys(text)[-1] == "postgr"


def test_one_slip_leads_back_to_the_word() -> None:
    for typo in ("kuberntes", "kubernettes", "kubernetse", "kubernates"):
        assert "kubernetes" in near(typo)


def test_a_search_takes_the_beginning_that_the_forms_share() -> None:
    found = {term.key: prefix(term) for term in terms("restarting queries of the db 磁盘 502")}
    assert list(found.values()) == ["restart*", "quer*", "db", "磁盘", "502*"]


@given(st.text())
def test_any_text_has_terms_and_not_too_many(text: str) -> None:
    found = terms(text)
    assert len(found) <= TERMS
    assert all(term.key and term.forms for term in found)
