"""Spans whose prompt and answer are each the JSON of one attribute, and content in a form that is not known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trace_recorder import load
from trace_recorder.values.trajectory import Trajectory

_SYSTEM, _USER = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Look."}
_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q": 1}'}}
_ANSWER = {"role": "assistant", "content": "I look.", "tool_calls": [_CALL]}


def _langchain(kind: str, **kwargs: Any) -> dict[str, Any]:
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": kwargs}


def _loaded(directory: Path, **attributes: Any) -> Trajectory:
    values = [
        {
            "key": name.replace("__", "."),
            "value": {"stringValue": value if isinstance(value, str) else json.dumps(value)},
        }
        for name, value in attributes.items()
    ]
    span = {
        "traceId": "0" * 31 + "1",
        "spanId": "0" * 15 + "1",
        "name": "llm",
        "kind": 3,
        "startTimeUnixNano": "1780000000000000000",
        "endTimeUnixNano": "1780000001000000000",
        "attributes": values,
    }
    path = directory / "spans.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "s"}, "spans": [span]}]}]}))
    return load(path)


_OPENAI = ({"model": "m", "messages": [_SYSTEM, _USER]}, {"choices": [{"message": _ANSWER, "finish_reason": "stop"}]})
_LANGCHAIN = (
    {"messages": [[_langchain("SystemMessage", content="Be brief."), _langchain("HumanMessage", content="Look.")]]},
    {
        "generations": [
            [
                {
                    "text": "I look.",
                    "message": _langchain(
                        "AIMessage", content="I look.", tool_calls=[{"name": "look", "args": {"q": 1}, "id": "c1"}]
                    ),
                }
            ]
        ]
    },
)
_GOOGLE = (
    {
        "model": "m",
        "config": {"system_instruction": "Be brief."},
        "contents": [{"role": "user", "parts": [{"text": "Look."}]}],
    },
    {
        "content": {
            "role": "model",
            "parts": [{"text": "I look."}, {"functionCall": {"id": "c1", "name": "look", "args": {"q": 1}}}],
        }
    },
)
_FORMS = {
    "a request and a response": ("gen_ai__prompt", "gen_ai__completion", _OPENAI),
    "lists of messages": ("gen_ai__prompt", "gen_ai__completion", ([_SYSTEM, _USER], [_ANSWER])),
    "LangChain": ("gen_ai__prompt", "gen_ai__completion", _LANGCHAIN),
    "ADK": ("gcp__vertex__agent__llm_request", "gcp__vertex__agent__llm_response", _GOOGLE),
}


@pytest.mark.parametrize("kind", ["gen_ai", "LangSmith"])
@pytest.mark.parametrize(("request_name", "response_name", "exchange"), _FORMS.values(), ids=_FORMS)
def test_a_prompt_and_an_answer_in_one_attribute_are_read(
    request_name: str, response_name: str, exchange: tuple[Any, Any], kind: str, tmp_path: Path
) -> None:
    names = {"langsmith__span__kind": "LLM"} if kind == "LangSmith" else {}
    facts = {"gen_ai__operation__name": "chat", "gen_ai__request__model": "m", **names}
    run = _loaded(tmp_path, **facts, **{request_name: exchange[0], response_name: exchange[1]})
    [call] = run.llm_interactions
    assert [(message.role, message.content) for message in call.input_messages] == [
        ("system", "Be brief."),
        ("user", "Look."),
    ]
    assert call.response.content == "I look."
    assert [(asked.call_id, asked.name, asked.arguments) for asked in call.response.tool_calls] == [
        ("c1", "look", {"q": 1})
    ]
    assert run.gaps == ()


def test_a_prompt_in_an_unknown_form_is_a_gap_with_the_name_of_its_attribute(tmp_path: Path) -> None:
    facts = {"gen_ai__operation__name": "chat", "gen_ai__request__model": "m"}
    run = _loaded(tmp_path, **facts, gen_ai__prompt={"unheard": ["of"]}, gen_ai__completion="Yes.")
    assert [(gap.what, gap.why) for gap in run.gaps] == [
        ("the prompt of llm", "the form of gen_ai.prompt is not known")
    ]
    assert [call.response.content for call in run.llm_interactions] == ["Yes."]


def test_a_chain_of_langsmith_with_such_attributes_is_not_a_call(tmp_path: Path) -> None:
    run = _loaded(tmp_path, langsmith__span__kind="CHAIN", gen_ai__prompt=_OPENAI[0], gen_ai__completion="Yes.")
    assert list(run.llm_interactions) == []
