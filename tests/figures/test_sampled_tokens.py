"""The ids and log-probabilities of a call are read in the form of each server, streamed and not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chat_calls import Answer, Wire
from tests.formats.made import call, run
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.figures.sampled_tokens import Tokens, WeightVersion, tokens_of
from trace_recorder.values.llm_interaction import LLMInteraction

PROMPT, SAID = [11, 12, 13], [21, 22]
SCORES = [-0.25, -0.5]
CHAT, VLLM, SGLANG, LLAMA = "/v1/chat/completions", "/inference/v1/generate", "/generate", "/completion"
SPANS = [{"version": "6", "start": 0, "end": 1}, {"version": "7", "start": 1, "end": 2}]
VERSIONS = WeightVersion("6", 0, 1), WeightVersion("7", 1, 2)
SCORED = {"content": [{"token": "x", "logprob": score} for score in SCORES]}
MESSAGE = {"role": "assistant", "content": "hi"}


def _chat(**choice: Any) -> dict[str, Any]:
    return {"index": 0, "message": MESSAGE, "finish_reason": "stop", "logprobs": SCORED, **choice}


def _generated(count: int = 2, **info: Any) -> dict[str, Any]:
    scores = [[score, one, None] for score, one in zip(SCORES, SAID, strict=True)]
    meta = {"prompt_tokens": 3, "completion_tokens": count, "output_token_logprobs": scores[:count], **info}
    return {"text": "hi"[:count], "output_ids": SAID[:count], "meta_info": meta}


def _delta(*ids: int) -> dict[str, Any]:
    """Return an event of a server of SGLang that streams only what is new."""
    whole = _generated(2 if ids[-1] == SAID[-1] else 1)
    scores = whole["meta_info"]["output_token_logprobs"][-len(ids) :]
    return {
        **whole,
        "text": "hi"[-len(ids) :],
        "output_ids": [*ids],
        "meta_info": {**whole["meta_info"], "output_token_logprobs": scores},
    }


DONE = {"type": "stop"}
PROBABLE = [{"id": one, "token": "x", "logprob": score} for one, score in zip(SAID, SCORES, strict=True)]
FORMS: dict[str, tuple[str, dict[str, Any], list[Any], tuple[WeightVersion, ...]]] = {
    "vllm, chat": (CHAT, {}, [{"prompt_token_ids": PROMPT, "choices": [_chat(token_ids=SAID)]}], ()),
    "vllm, chat, streamed": (
        CHAT,
        {"stream": True},
        [
            {"prompt_token_ids": PROMPT, "choices": [{"index": 0, "delta": MESSAGE}]},
            *(
                {"choices": [{"index": 0, "delta": {}, "token_ids": [one], "logprobs": {"content": [scored]}}]}
                for one, scored in zip(SAID, SCORED["content"], strict=True)
            ),
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        ],
        (),
    ),
    "vllm, completions": (
        "/v1/completions",
        {"prompt": PROMPT},
        [
            {
                "choices": [
                    {
                        "index": 0,
                        "text": "hi",
                        "token_ids": SAID,
                        "logprobs": {"tokens": ["h", "i"], "token_logprobs": SCORES},
                    }
                ]
            }
        ],
        (),
    ),
    "vllm, tokens as texts": (
        CHAT,
        {},
        [
            {
                "prompt_token_ids": PROMPT,
                "choices": [
                    _chat(
                        logprobs={
                            "content": [{"token": f"token_id:{p['id']}", "logprob": p["logprob"]} for p in PROBABLE]
                        }
                    )
                ],
            }
        ],
        (),
    ),
    "vllm, generate": (
        VLLM,
        {"token_ids": PROMPT},
        [
            {
                "choices": [
                    {
                        "index": 0,
                        "token_ids": SAID,
                        "logprobs": {"content": [{"token_id": p["id"], "logprob": p["logprob"]} for p in PROBABLE]},
                        "weight_versions": SPANS,
                    }
                ]
            }
        ],
        VERSIONS,
    ),
    "vllm, generate, streamed": (
        VLLM,
        {"token_ids": PROMPT, "stream": True},
        [
            *(
                {
                    "choices": [
                        {
                            "index": 0,
                            "token_ids": [p["id"]],
                            "logprobs": {"content": [{"token_id": p["id"], "logprob": p["logprob"]}]},
                        }
                    ]
                }
                for p in PROBABLE
            ),
            {"choices": [{"index": 0, "finish_reason": "stop", "weight_versions": SPANS}]},
        ],
        VERSIONS,
    ),
    "sglang, chat": (
        CHAT,
        {},
        [{"choices": [_chat(prompt_token_ids=PROMPT, response_token_ids=SAID)], "metadata": {"weight_version": "7"}}],
        (WeightVersion("7"),),
    ),
    "sglang, chat, streamed": (
        CHAT,
        {"stream": True},
        [
            {"choices": [{"index": 0, "delta": MESSAGE, "logprobs": SCORED}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "sglext": {"input_ids": PROMPT, "output_ids": [SAID]}},
        ],
        (),
    ),
    "sglang, generate": (
        SGLANG,
        {"input_ids": PROMPT},
        [_generated(finish_reason=DONE, weight_version="7", weight_versions=SPANS)],
        VERSIONS,
    ),
    "sglang, generate, streamed": (
        SGLANG,
        {"input_ids": PROMPT, "stream": True},
        [_generated(1), _generated(finish_reason=DONE)],
        (),
    ),
    "sglang, generate, streamed as deltas": (
        SGLANG,
        {"input_ids": PROMPT, "stream": True},
        [_delta(SAID[0]), _delta(SAID[1])],
        (),
    ),
    "llama.cpp": (
        LLAMA,
        {"prompt": PROMPT},
        [{"content": "hi", "stop": True, "tokens": SAID, "completion_probabilities": PROBABLE}],
        (),
    ),
    "llama.cpp, streamed": (
        LLAMA,
        {"prompt": PROMPT, "stream": True},
        [
            *({"content": "x", "stop": False, "tokens": [p["id"]], "completion_probabilities": [p]} for p in PROBABLE),
            {"content": "", "stop": True, "stop_type": "eos"},
        ],
        (),
    ),
}
"""For each form: the path, members of the request, the events or the only body, and the versions of the weights."""


def recorded(path: Path, address: str, request: dict[str, Any], events: list[Any]) -> LLMInteraction:
    """Record the call, and return it as it is read."""
    answer = Answer(json.dumps(events[0]).encode())
    if request.get("stream"):
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        answer = Answer(text.encode(), media="text/event-stream")
    with TrajectoryRecorder(path) as recorder, httpx.Client(transport=Wire(answer), trust_env=False) as client:
        recorder.wrap(client).post(f"http://localhost:8000{address}", json={"model": "m", **request})
    [call] = load(path).llm_interactions
    return call


@pytest.mark.parametrize("form", FORMS)
def test_tokens_are_read_in_the_form_of_a_server(form: str, tmp_path: Path) -> None:
    """The ids, and a log-probability for each sampled token."""
    address, request, events, versions = FORMS[form]
    call = recorded(tmp_path / "run.json", address, request, events)

    assert call.complete
    assert tokens_of(call) == Tokens(PROMPT, SAID, SCORES, versions)


def test_each_answer_has_its_own_ids(tmp_path: Path) -> None:
    """With several answers to one prompt, the ids of each are read."""
    both = [{"index": n, "message": MESSAGE, "finish_reason": "stop", "token_ids": [n + 1]} for n in range(2)]
    call = recorded(tmp_path / "run.json", CHAT, {"n": 2}, [{"prompt_token_ids": PROMPT, "choices": both}])
    listed = recorded(tmp_path / "listed.json", SGLANG, {"input_ids": PROMPT}, [[_generated(1), _generated(2)]])
    beside = {"choices": [_chat(), _chat(index=1)], "sglext": {"input_ids": PROMPT, "output_ids": [[1], [2]]}}
    extended = recorded(tmp_path / "extended.json", CHAT, {"n": 2}, [beside])

    assert [tokens_of(call, choice).completion_ids for choice in range(2)] == [[1], [2]]
    assert [tokens_of(listed, choice).completion_ids for choice in range(2)] == [SAID[:1], SAID]
    assert [tokens_of(extended, choice).completion_ids for choice in range(2)] == [[1], [2]]
    assert {tuple(tokens_of(one, 1).prompt_ids or ()) for one in (call, listed, extended)} == {tuple(PROMPT)}


@pytest.mark.parametrize("ids", [[1, "2"], [True], [-1], [1 << 70], [], "12", {"1": 2}])
def test_what_is_no_list_of_ids_is_unknown(ids: Any, tmp_path: Path) -> None:
    """A server may send anything in the place of ids."""
    body = {"prompt_token_ids": ids, "choices": [{**_chat(token_ids=ids), "logprobs": ids}]}
    assert tokens_of(recorded(tmp_path / "run.json", CHAT, {}, [body])) == Tokens()


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *((name, PROMPT) for name in ("prompt_token_ids", "token_ids", "response_token_ids", "output_ids", "tokens")),
        ("sglext", {"input_ids": PROMPT}),
        ("logprobs", SCORED),
        ("logprobsResult", {"chosenCandidates": [{"tokenId": 1, "logProbability": -1.0}]}),
        ("completion_probabilities", [{"id": 1, "logprob": -1.0}]),
        *((name, {"weight_version": "6"}) for name in ("meta_info", "metadata")),
        ("weight_version", "6"),
        ("weight_versions", SPANS),
    ],
)
def test_one_member_of_an_answer_is_enough(member: str, value: Any) -> None:
    """Each member is read, although the others are missing."""
    [made] = run(call(["q"], "a", response={"extra": {member: value}})).llm_interactions

    assert tokens_of(made) != Tokens()


@pytest.mark.parametrize("parameter", ["token_ids", "input_ids", "prompt"])
def test_one_parameter_of_a_request_is_enough(parameter: str) -> None:
    """The ids of a prompt are read from a request, although its answer states no tokens."""
    [made] = run(call(["q"], "a", request={"parameters": {parameter: PROMPT}})).llm_interactions

    assert tokens_of(made).prompt_ids == PROMPT
