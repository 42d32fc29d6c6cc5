"""Where a prompt says that results go."""

import pytest

from hermes_agent.jobs.delivery_words import read_delivery, stranger

TITLES = {
    "telegram": "Telegram",
    "email": "E-mail",
    "slack": "Slack",
    "discord": "Discord",
    "ntfy": "ntfy",
    "matrix": "Matrix",
    "pager": "Ops pager",
    "phone": "phone",
}


@pytest.mark.parametrize(
    ("prompt", "deliver", "quiet"),
    [
        ("Flag anything not in Git. Send results to Telegram.", ["telegram"], False),
        ("Flag anything not in Git, send to Telegram", ["telegram"], False),
        ("Look around and e-mail me the results", ["email"], False),
        ("Mail the report to me", ["email"], False),
        ("Send me an e-mail with the findings", ["email"], False),
        ("E-mail the results to bob@example.com", ["email:bob@example.com"], False),
        (
            "Mail the report on a@b.org to bob@b.org and ann@b.org",
            ["email:bob@b.org", "email:ann@b.org"],
            False,
        ),
        ("Read what support@b.org wrote to a@b.org and e-mail me the results", ["email"], False),
        ("E-mail me the letters to support@b.org", ["email"], False),
        ("Check it and post it in Slack", ["slack"], False),
        ("Post the summary on Slack and by e-mail", ["slack", "email"], False),
        ("Results to our Telegram group, please", ["telegram"], False),
        ("Send it to telegram:123.", ["telegram:123"], False),
        ("Send it to matrix:!a:b.org, email:c@b.org.", ["matrix:!a:b.org", "email:c@b.org"], False),
        ("Check the disks and send the results to my phone", ["phone"], False),
        ("Notify me via ntfy when you are done", ["ntfy"], False),
        ("Page nobody. Send results to Ops pager", ["pager"], False),
        ("Tell me on Discord, but only if something is wrong", ["discord"], True),
        ("Look at the disks; tell me on Discord if one is over 90 %", ["discord"], True),
        ("Send results to Telegram. Only if something is wrong.", ["telegram"], True),
        ("Slack me when something breaks", ["slack"], True),
    ],
)
def test_a_request_names_the_recipient(prompt: str, deliver: list[str], quiet: bool) -> None:
    found = read_delivery(prompt, TITLES)
    assert ([*found.deliver], found.quiet) == (deliver, quiet)
    assert found.quote in prompt


@pytest.mark.parametrize(
    "prompt",
    [
        "Check that mail is delivered",
        "Do not send anything to Telegram",
        "Send nothing to Telegram",
        "Summarise what customers posted in Slack",
        "Check who may send messages to the Telegram bot",
        "Send a ping to the mail server",
        "Put the numbers in a matrix",
        "Translate the text and put it into email.de.txt",
        "Check that every customer has a phone",
        "Write a summary to the file and push it to Git",
        "Send results to Signal",
    ],
)
def test_a_sentence_about_a_channel_is_no_request(prompt: str) -> None:
    assert read_delivery(prompt, TITLES).deliver == ()


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("Check it. Send results to WhatsApp.", "WhatsApp"),
        ("Check it and send the report of the day to Telgram", "Telgram"),
        ("Write the report to README.md", ""),
        ("Send no results to Anna", ""),
        ("See whether results are sent to Anna", ""),
    ],
)
def test_a_recipient_that_is_no_channel_is_named(prompt: str, name: str) -> None:
    assert stranger(prompt) == name
