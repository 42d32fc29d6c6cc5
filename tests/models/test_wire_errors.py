"""What services mean when they refuse, in their own words."""

import json

import pytest

from hermes_agent.core.errors import ModelTrouble
from hermes_agent.models.wires.base import Credential
from hermes_agent.models.wires.errors import refusal
from tests.models.helpers import endpoint


def kind(status: int, message: str, **more: object) -> ModelTrouble:
    body = json.dumps({"error": {"message": message, **more}}).encode()
    return refusal(endpoint(), Credential("x"), status, body).kind


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Your request exceeded model token limit: 262144",
        "invalid params, context window exceeds limit (2013)",
        "The number of tokens to keep from the initial prompt is greater than the context length",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        "Prompt exceeds max length",
        "Range of input length should be [1, 129024]",
        "prompt token count of 90000 exceeds the limit of 64000",
        "`inputs` tokens + `max_new_tokens` must be <= 131073",
        "input length and `max_tokens` exceed context limit: 154996 + 64000 > 200000",
        "prompt is too long: 208310 tokens > 200000 maximum",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    ],
)
def test_a_conversation_that_is_too_long_is_known_in_many_words(message: str) -> None:
    assert kind(400, message) == "context_too_long"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (429, "Your team has either used all available credits or reached its spending limit."),
        (403, "You have run out of credits or need a Grok subscription."),
        (412, "Account x is suspended, possibly due to reaching the monthly spending limit"),
        (402, "Insufficient Balance"),
        (429, "You exceeded your current quota"),
    ],
)  # fmt: skip
def test_credit_that_has_run_out_is_not_waited_for(status: int, message: str) -> None:
    codes = {"type": "exceeded_current_quota_error"} if "current quota" in message else {}
    assert kind(status, message, **codes) == "quota"


def test_the_words_of_a_rate_limit_alone_are_no_lack_of_credit() -> None:
    assert kind(429, "You exceeded your current quota, please check your plan") == "rate_limit"


def test_a_wrong_key_is_known_though_the_service_calls_it_a_bad_request() -> None:
    said = b'{"code":"invalid-argument","error":"Incorrect API key provided: na***ys."}'
    assert refusal(endpoint(), Credential("x"), 400, said).kind == "auth"


def test_codes_beside_a_plain_message_count() -> None:
    said = b'{"code":"insufficient_quota","error":"no"}'
    assert refusal(endpoint(), Credential("x"), 429, said).kind == "quota"


def test_moderation_is_a_refusal_and_no_matter_of_keys() -> None:
    said = "openai/gpt requires moderation on OpenAI. Your input was flagged for violence"
    assert kind(403, said) == "refused"
    assert kind(403, "Forbidden") == "auth"
