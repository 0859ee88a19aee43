"""Google's Code Assist (`/v1internal:generateContent`), to which Gemini CLI sends the requests of a Google login.

It is Google's generateContent dialect in an envelope. The body of a request is in `request`, beside the model, the
project and the id of the user's prompt. An answer, and each chunk of a stream, is in `response`, beside `traceId` and
the credits. An error has no envelope. Members of the envelope are parameters of a request, and `extra` of an answer.

Source: `code_assist/server.ts` and `code_assist/converter.ts` in the repository google-gemini/gemini-cli.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trace_recorder.dialects import google_generate
from trace_recorder.dialects.dialect import Dialect
from trace_recorder.dialects.google_chunks import join_chunks, read_google_chunks
from trace_recorder.dialects.json_access import Members, as_dict, as_text
from trace_recorder.values.messages import JoinedStream, LLMResponse, Payload, RequestReading
from trace_recorder.values.structs import replace
from trace_recorder.values.token_counts import THOUGHTS_APART


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON. The model is in the envelope."""
    envelope = Members(body)
    reading = google_generate.read_request(envelope.object("request"))
    parameters = {**envelope.all(), **reading.parameters}
    return replace(reading, parameters=parameters, model=as_text(as_dict(body).get("model")))


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:
    """Read a response's JSON: an answer in its envelope, an array of a stream's chunks, or an error.

    The id is `traceId` if the answer itself has no id, as Gemini CLI has it.
    """
    if isinstance(body, list):
        body = _join(body).body
    envelope = Members(body)
    answer = envelope.object("response")
    if not answer:
        return google_generate.read_response(body, made_up_ids)
    response = google_generate.read_response(answer, made_up_ids)
    identity = response.id or envelope.text("traceId")
    return replace(response, id=identity, extra={**envelope.rest(), **response.extra})


def join_stream(text: str) -> JoinedStream:
    """Join the chunks of a stream into the body that the same answer has without streaming."""
    return _join(read_google_chunks(text))


def _join(chunks: Iterable[Payload]) -> JoinedStream:
    """Join the answers in the envelopes. For every other member of the envelopes, the last value is kept."""
    envelope: dict[str, Payload] = {}

    def answers() -> Iterator[Payload]:
        for chunk in map(as_dict, chunks):
            envelope.update({name: value for name, value in chunk.items() if name != "response" and value is not None})
            yield chunk.get("response")

    joined = join_chunks(answers())
    if joined.body:
        envelope["response"] = joined.body
    return replace(joined, body=envelope, error=envelope.get("error"))


def _with_system_instruction(body: dict[str, Payload], text: str) -> dict[str, Payload]:
    return {**body, "request": google_generate.with_system_instruction(as_dict(body.get("request")), text)}


DIALECT = Dialect(
    name="google-code-assist",
    addresses={r"/v1internal:(?:streamG|g)enerateContent$": "google"},
    sdks=(),
    headers={},
    operation="generate_content",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=google_generate.not_found,
    history=None,
    numbers_calls=True,
    instructions_apart=True,
    with_system=_with_system_instruction,
    counting=THOUGHTS_APART,
    usage_on_request=False,
    background=None,
)
