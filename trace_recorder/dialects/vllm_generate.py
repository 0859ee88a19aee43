"""vLLM's own dialect of tokens (/inference/v1/generate): ids in, ids out.

The prompt's ids stay a parameter, `token_ids`. An answer has choices with `token_ids`, and a text or a message if the
request asked for one (`output_mode`). So `openai_chat.py` reads it. Source: vLLM 0.33,
`vllm/entrypoints/scale_out/token_in_token_out/protocol.py`. `figures/sampled_tokens.py` has the ids of a call.
"""

from __future__ import annotations

from trace_recorder.dialects import openai_chat
from trace_recorder.dialects.chat_chunks import join_chat_stream
from trace_recorder.dialects.dialect import Dialect
from trace_recorder.dialects.json_access import Members, as_dict, as_text
from trace_recorder.values.messages import Payload, RequestReading
from trace_recorder.values.token_counts import WHOLE


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON. It has no messages."""
    return RequestReading([], [], Members(body).all(), as_text(as_dict(body).get("model")))


DIALECT = Dialect(
    name="vllm-generate",
    addresses={r"/inference/v1/generate/?$": "vllm"},
    sdks=(),
    headers={},
    operation="text_completion",
    read_request=read_request,
    read_response=openai_chat.read_response,
    join_stream=join_chat_stream,
    not_found=openai_chat.not_found,
    history=None,
    numbers_calls=True,
    instructions_apart=False,
    with_system=None,
    counting=WHOLE,
    usage_on_request=True,
    background=None,
    websockets=None,
)
