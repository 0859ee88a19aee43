"""The one writer of facts: the order of members, what is masked, and the items of bodies."""

from __future__ import annotations

import json

import pytest

from trace_recorder.facts import (
    ABSENT,
    ItemFact,
    JsonText,
    LLMInteractionFact,
    LLMRequestFact,
    LLMResponseFact,
    LLMStreamFact,
    RewardFact,
)
from trace_recorder.storage.fact_writer import FactWriter, Masked, fact_text, record_of
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

KEY = "sk-proj-" + "aB3dE6gH9" * 6
MASK = "[REDACTED:openai-key]"


def writer() -> FactWriter:
    return FactWriter(Redaction(default_redactor, {}))


def test_own_members_come_before_foreign_ones() -> None:
    """A record has its own members, then the foreign ones. A text of JSON stays as it is, and no member is absent."""
    body = JsonText('{"a" : 1.0e2}')
    headers = {"a": KEY}
    fact = LLMResponseFact(interaction_id="llm_1", attempt=0, status=200, complete=True, headers=headers, body=body)

    kind, data = writer().record(fact)

    assert kind == "llm_response"
    assert data == (
        '{"interaction_id":"llm_1","attempt":0,"status":200,"complete":true,"redacted":1,'
        f'"headers":{{"a":"{MASK}"}},"body":{{"a" : 1.0e2}}}}'
    )
    assert (fact.error, fact.assembled, repr(fact.assembled)) == (None, ABSENT, "ABSENT")


def test_items_and_the_body_are_the_last_members() -> None:
    """A request's own members end with the count of its masks and the numbers of its items. Its body is at the end."""
    facts = writer()
    fact = LLMRequestFact(
        interaction_id="llm_1", attempt=0, api="a", provider="p", method="POST", url=f"/{KEY}", headers={}
    )
    request = {"messages": [{"content": KEY}, {"content": "b"}], "n": 1}

    expected = (
        '{"interaction_id":"llm_1","attempt":0,"api":"a","provider":"p","method":"POST","redacted":1,'
        f'"items":{{"messages":[[0,1]]}},"url":"/{MASK}","headers":{{}},"body":{{"messages":null,"n":1}}}}'
    )

    encoded = facts.items.encode(json.dumps(request, separators=(",", ":")).encode())
    records = facts.records(facts.take_apart(fact, encoded))

    assert records == [
        ("item", f'{{"n":0,"redacted":1,"value":{{"content":"{MASK}"}}}}'),
        ("item", '{"n":1,"value":{"content":"b"}}'),
        ("llm_request", expected),
    ]


@pytest.mark.parametrize(
    ("masked", "name", "redacted", "explanation"),
    [("foreign members", KEY, 1, MASK), ("all members", MASK, 2, MASK), ("nothing", KEY, None, KEY)],
)
def test_the_caller_says_which_members_are_masked(
    masked: Masked, name: str, redacted: int | None, explanation: str
) -> None:
    """Foreign members as a rule, all members of a fact that another tool has made, and nothing in our own words."""
    fact = RewardFact(name=KEY, value=1, weight=1, step_number=None, explanation=KEY)
    expected = RewardFact(name=name, value=1, weight=1, step_number=None, explanation=explanation, redacted=redacted)

    assert writer().record(fact, masked) == record_of(fact_text(expected))


def test_earlier_masks_of_a_fact_are_counted_too() -> None:
    """The masks inside a packed part of a stream are added to those in its headers."""
    part = LLMStreamFact(
        interaction_id="llm_1",
        attempt=0,
        status=200,
        bytes=1,
        zlib="",
        redacted=2,
        time_to_first_token_seconds=None,
        headers={"a": KEY},
    )

    _, data = writer().record(part)

    assert json.loads(data)["redacted"] == 3


def test_values_that_json_lacks_are_described() -> None:
    """NaN and lone surrogates in a fact of another tool become descriptions, in own and in foreign members."""
    fact = LLMInteractionFact(
        interaction_id="\ud800", provider=None, model="m", duration_seconds=float("nan"), response=[float("inf"), "é"]
    )

    data = json.loads(writer().record(fact, "all members")[1])

    assert data["interaction_id"]["repr"] == "'\\ud800'"
    assert data["duration_seconds"] == {"__type__": "float", "repr": "nan"}
    assert data["response"] == [{"__type__": "float", "repr": "inf"}, "é"]
    with pytest.raises(ValueError, match="not JSON compliant"):
        fact_text(fact)


def test_an_item_is_a_fact() -> None:
    """The value of an item stays as it came, with the placeholders of its large strings."""
    item = ItemFact(n=3, strings={"@string:1": 1}, value=JsonText('{"a": "@string:1"}'))

    assert record_of(fact_text(item)) == ("item", '{"n":3,"strings":{"@string:1":1},"value":{"a": "@string:1"}}')
