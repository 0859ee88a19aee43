"""`proxy --tokens`: servers are asked for tokens, and the program gets what it gets without the option."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.provider import DROP, SILENCE, Answer, Request, Script, plain, serving, stream
from tests.proxy.running import RunningProxy, proxying
from tests.proxy.token_servers import LOGPROBS, PROMPT, refusing, sampled, sglang, vllm
from tests.waiting import wait_until
from trace_recorder import load, replay
from trace_recorder.dialects.token_servers import TOKEN_SERVERS, UnaskedAnswer
from trace_recorder.facts import LLMRequestFact
from trace_recorder.figures.sampled_tokens import Tokens, WeightVersion, tokens_of
from trace_recorder.proxy.upstreams import Upstream, UpstreamError, upstreams
from trace_recorder.storage.journal_reader import Record, read_records
from trace_recorder.values.messages import Payload

SERVERS: dict[str, Callable[[Request], Answer]] = {"vllm": vllm, "sglang": sglang}
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_SAID: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "café"}]}
_TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
_STREAM: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, _SAID),
    "chat, three answers": (CHAT, {**_SAID, "n": 3}),
    "chat, tools": (CHAT, {**_SAID, "tools": _TOOLS}),
    "chat, routed experts": (CHAT, {**_SAID, "return_routed_experts": True}),
    "completions": (COMPLETIONS, {"model": "m", "prompt": "café"}),
    "completions, two answers": (COMPLETIONS, {"model": "m", "prompt": "café", "n": 2}),
}


def _upstream(address: str, server: str | None) -> dict[str, Upstream]:
    return {"local": Upstream("local", address, {}, tokens=server)}


def _asked(proxy: RunningProxy, path: str, body: dict[str, Any], **headers: str) -> tuple[int, list[Any], bytes]:
    """Return the status, the headers that a program may use, and the bytes of an answer."""
    sent = {"content-type": "application/json", **headers}
    data = json.dumps(body, ensure_ascii=False, indent=1).encode()
    with httpx.stream("POST", f"{proxy.url}/local{path}", content=data, headers=sent) as response:
        raw = b"".join(response.iter_raw())
    return response.status_code, [*response.headers.items()], raw


def _both(
    directory: Path, script: Script, server: str, path: str, body: dict[str, Any], **headers: str
) -> tuple[RunningProxy, Any, Any]:
    """Return the proxy that asks for tokens, and what a program gets from it and from one that does not."""
    with serving(script) as provider:
        with proxying(directory / "plain", _upstream(provider.url, None)) as proxy:
            unasked = _asked(proxy, path, body, **headers)
        with proxying(directory / "asking", _upstream(provider.url, server)) as proxy:
            asked = _asked(proxy, path, body, **headers)
    return proxy, unasked, asked


def _request_facts(path: Path) -> list[LLMRequestFact]:
    records = read_records(path.with_suffix(".jsonl").read_bytes())
    return [record.fact for record in records if isinstance(record, Record) and isinstance(record.fact, LLMRequestFact)]


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("server", SERVERS)
def test_a_program_gets_the_same_bytes_and_the_tokens_are_on_file(
    server: str, name: str, is_stream: bool, tmp_path: Path
) -> None:
    """Status, headers and bytes are those without the option. The tokens on file are those that the server stated."""
    path, body = REQUESTS[name]
    if is_stream:
        body = {**body, **_STREAM}

    proxy, unasked, asked = _both(tmp_path, SERVERS[server], server, path, body)

    assert asked == unasked
    (document,) = proxy.sessions.documents
    (call,), (fact,) = load(document).llm_interactions, _request_facts(document)
    assert (call.raw_request, fact.added) == (
        body,
        {"server": server, "members": TOKEN_SERVERS[server].asked[str(call.api)]},
    )
    versions = (WeightVersion("7"),) if server == "sglang" and path == CHAT and not is_stream else ()
    for choice in range(body.get("n", 1)):
        logprobs = LOGPROBS
        if is_stream and server == "sglang" and path == CHAT:
            logprobs = LOGPROBS[:3]  # its last event has none
        assert tokens_of(call, choice) == Tokens(PROMPT, sampled(choice), logprobs, versions)


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("own", "added"),
    [
        ({"logprobs": True}, {"return_token_ids": True}),
        ({"return_token_ids": True}, {"logprobs": True}),
        ({"return_token_ids": False, "logprobs": None}, None),
        ({"top_logprobs": 2}, {"return_token_ids": True}),
        ({"echo": True}, None),
    ],
)
def test_members_of_the_program_are_neither_added_nor_taken_out(
    own: dict[str, Any], added: dict[str, Any] | None, is_stream: bool, tmp_path: Path
) -> None:
    """What the program states itself stays as it is, in the request and in the answer."""
    body = {**_SAID, **own, "stream": is_stream}
    received: list[Payload] = []

    def server(request: Request) -> Answer:
        received.append(json.loads(request.body))
        return vllm(request)

    proxy, unasked, asked = _both(tmp_path, server, "vllm", CHAT, body)

    assert asked == unasked
    assert received == [body, {**body, **(added or {})}]
    (fact,) = _request_facts(proxy.sessions.documents[0])
    assert fact.added == ({"server": "vllm", "members": added} if added else None)


def test_all_other_bytes_of_the_request_pass(tmp_path: Path) -> None:
    """The members are added as text at the end. Only a request that asks forbids the compression of its answer."""
    body = b'{"model":"m",  "messages":[{"role":"user","content":"caf\\u00e9 }"}] }\n'
    with serving(vllm) as provider, proxying(tmp_path, _upstream(provider.url, "vllm")) as proxy:
        for path in (CHAT, "/v1/embeddings"):
            headers = {"accept-encoding": "gzip", "x-own": "1"}
            httpx.post(f"{proxy.url}/local{path}", content=body, headers=headers)
    bodies = [request.body for request in provider.requests]
    assert bodies == [body[:-2] + b',"return_token_ids":true,"logprobs":true}\n', body]
    kept = ("accept-encoding", "x-own", "content-length")
    assert [[request.headers[name] for name in kept] for request in provider.requests] == [
        ["identity", "1", str(len(bodies[0]))],
        ["gzip", "1", str(len(body))],
    ]


@pytest.mark.parametrize(("name", "status"), [("return_token_ids", 422), ("logprobs", 400)])
def test_a_server_that_refuses_gets_the_request_as_it_was(name: str, status: int, tmp_path: Path) -> None:
    """The program gets the answer to its own request. The address is not asked again, and a gap says so."""
    with serving(refusing(name, status)) as provider:
        with proxying(tmp_path, _upstream(provider.url, "vllm"), command=["agent"]) as proxy:
            answers = [_asked(proxy, path, _SAID) for path in (CHAT, CHAT, COMPLETIONS)]
        bodies = [json.loads(request.body) for request in provider.requests]
    assert [answer[0] for answer in answers] == [200, 200, 200]
    assert [name in body for body in bodies] == [True, False, False, True, False]
    (run,) = proxy.runs()
    assert [len(call.attempts) for call in run.llm_interactions] == [1, 1, 1]
    whys = [gap.why for gap in run.gaps if gap.what == "ask for tokens"]
    assert len(set(whys)) == len(whys) == 2
    assert all(f"refused them with status {status}" in why and name in why for why in whys)


def test_an_error_of_the_program_passes_and_refuses_nothing(tmp_path: Path) -> None:
    """An error that names no added member, or that the own request gets too, is the program's. It is asked again."""
    errors = [{"error": {"message": "too long"}}, {"error": {"message": "logprobs"}}, {"error": {"message": "busy"}}]
    script: list[Script] = [plain(errors[0], 400), *[plain(errors[1], 400)] * 2, plain(errors[2], 503), vllm]
    with serving(*script) as provider, proxying(tmp_path, _upstream(provider.url, "vllm")) as proxy:
        answers = [_asked(proxy, CHAT, _SAID) for _ in range(4)]
    assert [(answer[0], json.loads(answer[2])) for answer in answers[:3]] == [
        *((400, error) for error in errors[:2]),
        (503, errors[2]),
    ]
    assert answers[3][0] == 200
    assert ["logprobs" in request.body.decode() for request in provider.requests] == [True, True, False, True, True]
    assert [gap.what for run in proxy.runs() for gap in run.gaps if "tokens" in gap.what] == []


@pytest.mark.parametrize("server", SERVERS)
def test_a_path_where_the_server_has_no_tokens_is_a_gap(server: str, tmp_path: Path) -> None:
    """Nothing is added to a request of another form. The gap names the path."""
    body = {"model": "m", "max_tokens": 9, "messages": _SAID["messages"]}
    proxy, unasked, asked = _both(tmp_path, vllm, server, "/v1/messages", body)
    assert asked == unasked
    (run,) = proxy.runs()
    assert [(gap.what, gap.why) for gap in run.gaps] == [
        ("ask for tokens", f"{server} has no member for them at /v1/messages")
    ]


def test_only_the_named_upstream_is_asked(tmp_path: Path) -> None:
    """Another upstream, and a program with a recorder of its own, get requests without added members."""
    with serving(vllm) as provider:
        both = {**_upstream(provider.url, "vllm"), "other": Upstream("other", provider.url, {})}
        with proxying(tmp_path, both) as proxy:
            httpx.post(f"{proxy.url}/other{CHAT}", json=_SAID)
            httpx.post(f"{proxy.url}/local{CHAT}", json=_SAID, headers={"x-trace-recorder-run": "own.json"})
    assert [json.loads(request.body) for request in provider.requests] == [_SAID, _SAID]


def test_a_compressed_request_is_not_asked(tmp_path: Path) -> None:
    """A body that is not a JSON object as it is sent passes unchanged, with a gap."""
    body = gzip.compress(json.dumps(_SAID).encode())
    with serving(plain({})) as provider, proxying(tmp_path, _upstream(provider.url, "vllm")) as proxy:
        httpx.post(f"{proxy.url}/local{CHAT}", content=body, headers={"content-encoding": "gzip"})
    assert provider.requests[0].body == body
    assert ["not a JSON object" in gap.why for run in proxy.runs() for gap in run.gaps] == [True]


def test_an_answer_that_is_compressed_all_the_same_passes_unchanged(tmp_path: Path) -> None:
    """The proxy does not edit what it cannot read, and says so."""
    body = gzip.compress(b'{"choices":[{"index":0,"token_ids":[1]}]}')
    answer = Answer([body], 200, {"content-type": "application/json", "content-encoding": "gzip"})
    with serving(answer) as provider, proxying(tmp_path, _upstream(provider.url, "vllm")) as proxy:
        assert _asked(proxy, CHAT, _SAID)[2] == body
    assert ["compressed" in gap.why for run in proxy.runs() for gap in run.gaps] == [True]


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_that_is_cut_is_cut_for_the_program(is_stream: bool, tmp_path: Path) -> None:
    """Whole events pass. What follows them is not passed, and the connection is closed."""
    event = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"token_ids":%s}]}\n\n'
    answer = Answer([b'{"choices":[{"token_ids":[1', DROP], 200, {"content-type": "application/json"})
    if is_stream:
        answer = stream(event % b"[1]", (event % b"[2]")[:50], DROP)
    parts: list[bytes] = []
    with serving(answer) as provider, proxying(tmp_path, _upstream(provider.url, "vllm")) as proxy:
        with (
            httpx.stream("POST", f"{proxy.url}/local{CHAT}", json={**_SAID, "stream": is_stream}) as response,
            pytest.raises(httpx.RemoteProtocolError),
        ):
            parts.extend(response.iter_raw())
        ((call,),) = [run.llm_interactions for run in proxy.runs()]
    assert (response.status_code, b"".join(parts)) == (200, event % b"null" if is_stream else b"")
    assert call.error is not None
    assert (b"[1]" if is_stream else b"") in (call.raw_stream or "").encode()


def test_each_event_passes_at_once_and_a_client_that_leaves_cancels_the_call(tmp_path: Path) -> None:
    """The program has an event before the server sends the next one. The call ends with the program's connection."""
    event = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"token_ids":[1],"logprobs":null}]}\n\n'
    has_event = threading.Event()
    answer = stream(event, lambda: has_event.wait(60), event, SILENCE)
    with serving(answer) as provider, proxying(tmp_path, _upstream(provider.url, "vllm"), command=["x"]) as proxy:
        with httpx.stream("POST", f"{proxy.url}/local{CHAT}", json={**_SAID, "stream": True}) as response:
            chunks = response.iter_raw()
            first = next(chunks)
            has_event.set()
            second = next(chunks)
        wait_until(lambda: proxy.runs()[0].llm_interactions[0].ended_by)
        ((call,),) = [run.llm_interactions for run in proxy.runs()]
    assert first == second == event.replace(b"[1]", b"null")
    assert (call.complete, call.ended_by) == (False, "CancelledError")


def test_answers_are_on_file_before_the_program_has_them(tmp_path: Path) -> None:
    """If the command is killed as soon as a program has its answers, their tokens are on file."""
    with serving(sglang) as provider:
        command = [sys.executable, "-m", "trace_recorder", "proxy", "--directory", str(tmp_path), "--task", "t"]
        command += ["--upstream", f"local={provider.url}", "--tokens", "local=sglang"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = process.stdout.readline().split()[3].rstrip(",")
            for is_stream in (False, True):
                body = {**_SAID, "stream": is_stream}
                answer = httpx.post(f"{url}/local{CHAT}", json=body, headers={"session-id": str(is_stream)}, timeout=60)
                assert answer.status_code == 200
            process.send_signal(signal.SIGKILL)
    runs = [load(path) for path in sorted(tmp_path.glob("*.jsonl"))]
    assert [tokens_of(call).completion_ids for run in runs for call in run.llm_interactions] == [sampled(0)] * 2


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("server", SERVERS)
def test_the_openai_sdk_gets_the_same_values_from_a_proxy_and_from_its_replay(
    server: str, is_stream: bool, tmp_path: Path
) -> None:
    """The SDK's values are equal without the option, with it, and in a replay of the run with it."""
    body: dict[str, Any] = {**_SAID, "n": 2, "stream": is_stream}

    def values(client: openai.OpenAI) -> Any:
        answer = client.chat.completions.create(**body)
        if is_stream:
            return [chunk.model_dump() for chunk in answer]
        return answer.model_dump()

    got = []
    with serving(SERVERS[server]) as provider:
        for kind in (None, server):
            with proxying(tmp_path / str(kind), _upstream(provider.url, kind)) as proxy:
                with openai.OpenAI(base_url=f"{proxy.url}/local/v1", api_key="none", max_retries=0) as client:
                    got.append(values(client))
    with replay(proxy.sessions.documents[0]) as run:
        got.append(values(run.wrap(openai.OpenAI(base_url="http://none/v1", api_key="none"))))
    assert got[0] == got[1] == got[2]
    assert not tokens_in(got[1])


def tokens_in(value: Any) -> list[Any]:
    """Return the lists of ids and the log-probabilities in a value of JSON."""
    if isinstance(value, list):
        return [token for element in value for token in tokens_in(element)]
    if not isinstance(value, dict):
        return []
    names = ("token_ids", "prompt_token_ids", "response_token_ids", "logprobs", "input_ids", "output_ids")
    return [
        *(value[name] for name in names if value.get(name) is not None),
        *(token for element in value.values() for token in tokens_in(element)),
    ]


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        (["vllm"], {"vllm": "vllm"}),
        (["vllm=sglang", "openai=vllm"], {"vllm": "sglang", "openai": "vllm"}),
        (["other=vllm"], None),
        (["openai"], None),
    ],
)
def test_the_option_names_an_upstream_and_its_kind(options: list[str], tokens: dict[str, str] | None) -> None:
    """`NAME=SERVER` names both. `SERVER` alone is an upstream with the name of its kind."""

    def named() -> dict[str, Upstream]:
        return upstreams({}, ["vllm=http://localhost:8000"], (), options)

    if tokens is None:
        with pytest.raises(UpstreamError, match=r"other is no upstream|does not name a server"):
            named()
    else:
        assert {name: upstream.tokens for name, upstream in named().items() if upstream.tokens} == tokens


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab"\\{}[],: é', max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["choices", "token_ids", "sglext", "input_ids", "logprobs", "b"]), inner)
    ),
    max_leaves=12,
)


def _unasked(value: Any, server: str) -> Any:
    """Return a value without what all members of a server ask for, by reading and not by editing its text."""
    changes = [path for paths in TOKEN_SERVERS[server].stated.values() for path in paths.items()]

    def change(value: Any, paths: list[tuple[tuple[str, ...], str]]) -> Any:
        if isinstance(value, list):
            return [change(element, paths) if isinstance(element, dict) else element for element in value]
        changed: dict[str, Any] = {}
        for name, member in value.items():
            text = next((text for path, text in paths if path == (name,)), None)
            inner = [(path[1:], text) for path, text in paths if path[0] == name and len(path) > 1]
            if text == "null":
                changed[name] = None
            elif text is None and inner and isinstance(member, dict | list):
                kept = change(member, inner)
                if kept != {} or member == {}:
                    changed[name] = kept
            elif text is None:
                changed[name] = member
        return changed

    return change(value, changes)


@given(value=st.dictionaries(st.sampled_from(["choices", "sglext", "prompt_token_ids", "a"]), _VALUES), data=st.data())
def test_what_is_taken_out_of_a_text_is_what_is_taken_out_of_its_value(value: Any, data: st.DataObject) -> None:
    """Editing the text of any JSON object gives the text of the edited value. Nothing else of the text changes."""
    server = data.draw(st.sampled_from([*SERVERS]))
    indent = data.draw(st.sampled_from([None, 1]))
    added = {"server": server, "members": dict.fromkeys(TOKEN_SERVERS[server].stated, True)}
    edited = UnaskedAnswer(added).whole(json.dumps(value, indent=indent).encode())
    assert json.loads(edited) == _unasked(value, server)
    if indent is None:
        assert edited == json.dumps(_unasked(value, server)).encode()


@given(data=st.binary() | st.text('dat: {}[]"1\n\r', max_size=80).map(str.encode), size=st.integers(1, 9))
def test_a_stream_of_any_bytes_passes(data: bytes, size: int) -> None:
    """What is not an event with an object passes unchanged, in chunks of any size."""
    answer = UnaskedAnswer({"server": "vllm", "members": {"return_token_ids": True}})
    pieces = [answer.events(data[begin : begin + size]) for begin in range(0, len(data), size)]
    passed = b"".join((*pieces, answer.rest()))
    assert data.startswith(passed)
    assert passed == data or b"data:" in data[len(passed) :]
