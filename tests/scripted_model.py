"""A fake model behind `tests/provider.py`: it answers from a test's script, in the dialect of each request.

The dialects are written by the demo (`examples/demo/dialects`). They refuse what a provider would refuse, such as a
call without its result. The model keeps every exchange, byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from examples.demo.dialects import anthropic_messages, gemini, ollama_chat, openai_chat, openai_responses
from examples.demo.dialects.exchange import Dialect, Exchange, Payload, RefusedError
from examples.demo.policy import Action, Call, Conversation
from tests.provider import Answer, Request, whole

DIALECTS: tuple[Dialect, ...] = (anthropic_messages, gemini, ollama_chat, openai_responses, openai_chat)
SNAKES = re.compile(r'"(function)_(call|response|declarations)":')
"""Names of Gemini's that LiteLLM writes as protocol buffers do. Google accepts both."""
SCRIPT = (
    Action("I have to look.", "I look outside.", (Call("get_weather", {"city": "Tokyo"}),)),
    Action("That is all.", "It is sunny in Tokyo."),
)
"""The model's answers in a run of two turns: a tool call, then the final answer."""


@dataclass(frozen=True)
class Turn:
    """A request to the model: its number, from 1, its path without the query, and its JSON."""

    number: int
    path: str
    body: Payload
    dialect: Dialect

    def conversation(self) -> Conversation:
        """Read the request; raise RefusedError if its provider would refuse it."""
        return self.dialect.read(self.path, json.loads(SNAKES.sub(_camel_case, json.dumps(self.body))))


def _camel_case(name: re.Match[str]) -> str:
    return f'"{name[1]}{name[2].capitalize()}":'


@dataclass(frozen=True)
class Sent:
    """An exchange as it was sent over HTTP."""

    path: str
    body: Payload
    answer: bytes
    streamed: bool


def script_of(actions: Sequence[Action]) -> Callable[[Turn], Action]:
    """Return a model's policy: these actions in turn, and the last one repeatedly."""

    def decide(turn: Turn) -> Action:
        turn.conversation()
        return actions[min(turn.number, len(actions)) - 1]

    return decide


@dataclass
class Model:
    """A model as a function of requests. `decide` chooses the action. `extra` returns further members of its
    message.
    """

    decide: Callable[[Turn], Action]
    extra: Callable[[Exchange], Payload] = lambda _: {}
    sent: list[Sent] = field(default_factory=list)

    def __call__(self, request: Request) -> Answer:
        """Return the answer to a request, and keep the request and the answer in `sent`.

        A request without a body, such as a request for the list of models, gets a 404.
        """
        if not request.body:
            return whole(b"{}", 404)
        path, body = request.path.partition("?")[0], json.loads(request.body)
        dialect = next(each for each in DIALECTS if each.owns(path, set(request.headers)))
        try:
            action = self.decide(Turn(len(self.sent) + 1, path, body, dialect))
        except RefusedError as error:
            answer = whole(json.dumps(dialect.problem(error.status, str(error))).encode(), error.status)
        else:
            answer = self._written(dialect, Exchange(len(self.sent) + 1, path, body, action))
        [data] = answer.chunks
        assert isinstance(data, bytes)
        self.sent.append(Sent(path, body, data, answer.headers["content-type"] != "application/json"))
        return answer

    def _written(self, dialect: Dialect, exchange: Exchange) -> Answer:
        extra = self.extra(exchange)
        if dialect.streams(exchange):
            chunks = (_with_extra(chunk, extra) if extra else chunk for chunk in dialect.stream(exchange))
            return whole(b"".join(chunks), media=dialect.STREAM_TYPE)
        answer = dialect.answer(exchange)
        if extra:
            answer["choices"][0]["message"] |= extra
        return whole(json.dumps(answer).encode())


def _with_extra(chunk: bytes, extra: Payload) -> bytes:
    """Return a chunk of OpenAI's dialect. Only the first chunk has a refusal, and gets the extra members."""
    if b'"refusal"' not in chunk:
        return chunk
    event = json.loads(chunk.removeprefix(b"data: "))
    event["choices"][0]["delta"] |= extra
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def addresses(url: str) -> dict[str, str]:
    """Return the environment in which SDKs and frameworks use a server as every provider."""
    return {
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "ANTHROPIC_API_KEY": "k",
        "ANTHROPIC_BASE_URL": url,
        "GEMINI_API_KEY": "k",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_BASE": f"{url}/v1beta",
        "OLLAMA_HOST": url,
        "OLLAMA_API_BASE": url,
        "OLLAMA_BASE_URL": f"{url}/v1",
    }
