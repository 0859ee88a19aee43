"""The base class of all clients. A conversation goes in, and a response comes out: whole or streamed, sync or async.

A subclass names its provider, makes the SDK's clients and returns their methods. Its wire format builds the requests,
and the reader of the same dialect reads the responses. Calls are recorded on the wire, as with any wrapped client, by
the given recorder or else by the current recorder. No feature of the SDK is hidden: `sdk` and `async_sdk` are the SDK's
clients, and every parameter is passed to the SDK's method.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self

from trace_recorder.attach.current import current_recorder, unwrap, wrap
from trace_recorder.attach.recorder import TrajectoryRecorder
from trace_recorder.clients.retries import Retrier
from trace_recorder.clients.streams import AsyncResponseStream, ResponseStream, StreamSource
from trace_recorder.clients.wire_formats.inputs import (
    MessagesInput,
    ToolInput,
    count_made_up_ids,
    to_messages,
    to_tools,
)
from trace_recorder.clients.wire_formats.wire_format import JsonObject, WireFormat, prepare_messages, with_turn
from trace_recorder.dialects.dialect import dialect_of
from trace_recorder.errors import AnswerError, ClientError, MissingExtraError, MissingKeyError, TraceRecorderError
from trace_recorder.values.messages import LLMResponse, Payload

if TYPE_CHECKING:  # a TypeVar with a default needs Python 3.13, or a package that is not needed at run time
    from typing_extensions import TypeVar

    Sdk = TypeVar("Sdk", default=Any)
    AsyncSdk = TypeVar("AsyncSdk", default=Any)
else:
    from typing import TypeVar

    Sdk = TypeVar("Sdk")
    AsyncSdk = TypeVar("AsyncSdk")

Side = Literal["sync", "async"]
LEFT_OUT = "reasoning_left_out"
"""The key of the annotation that counts messages that were sent without their reasoning."""


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A prepared call: the arguments of the SDK's method, and the reader of its answer."""

    request: JsonObject
    read: Callable[[Payload], LLMResponse]


class Client(Generic[Sdk, AsyncSdk]):
    """A thin client of one provider; see `docs/clients.md`.

    A `with` block closes the SDK's sync client at its end, and an `async with` block closes the SDK's async client.
    `model` is the default model of calls. Calls are recorded by `recorder`, or else by the current recorder. A failed
    call is retried up to `retries` times, by the table in `retries.py`. `options` are passed to the SDK's clients.
    """

    provider: ClassVar[str]
    sdk_name: ClassVar[str]
    extra: ClassVar[str]
    key_names: ClassVar[tuple[str, ...]] = ()
    wire_format: WireFormat

    def __init__(
        self,
        model: str | None = None,
        *,
        recorder: TrajectoryRecorder | None = None,
        retries: int = 2,
        **options: Any,
    ) -> None:
        self.model = model
        self._recorder = recorder
        self._retrying = Retrier(retries)
        self._options = options
        self._annotated: tuple[object, int] | None = None
        self._module = self._import()
        self._made: dict[Side, Any] = {}
        self._made["sync"] = self._bound(self._make("sync"))

    # ── the four forms of a call ─────────────────────────────────────────────────────────────────────────────────

    def chat(self, messages: MessagesInput, tools: Iterable[ToolInput] | None = None, **params: Any) -> LLMResponse:
        """Send the messages and wait for the response.

        Raises the SDK's errors, and ClientError if the messages cannot be sent.
        """
        call = self._prepare(messages, tools, params)
        return call.read(self._retrying.call(lambda attempt: self._body_of(self._send("sync", call, attempt))))

    async def achat(
        self, messages: MessagesInput, tools: Iterable[ToolInput] | None = None, **params: Any
    ) -> LLMResponse:
        """Do the same as `chat`, for async code."""
        call = self._prepare(messages, tools, params)

        async def send(attempt: int) -> JsonObject:
            return self._body_of(await self._send("async", call, attempt))

        return call.read(await self._retrying.acall(send))

    def stream(
        self, messages: MessagesInput, tools: Iterable[ToolInput] | None = None, **params: Any
    ) -> ResponseStream:
        """Return the response as a stream of events. The first step of the iteration sends the request."""
        return ResponseStream(self._source("sync", messages, tools, params))

    def astream(
        self, messages: MessagesInput, tools: Iterable[ToolInput] | None = None, **params: Any
    ) -> AsyncResponseStream:
        """Return the response as a stream of events, for `async for`."""
        return AsyncResponseStream(self._source("async", messages, tools, params))

    # ── recorder and SDK ─────────────────────────────────────────────────────────────────────────────────────────

    def set_trajectory_recorder(self, recorder: TrajectoryRecorder | None) -> None:
        """Let this recorder record later calls.

        If `recorder` is None, the recorder that is current at a call records that call.
        """
        self._recorder = recorder
        for sdk in self._made.values():
            self._bound(unwrap(sdk))

    @property
    def sdk(self) -> Sdk:
        """The SDK's sync client, recorded."""
        sdk: Sdk = self._made["sync"]
        return sdk

    @property
    def async_sdk(self) -> AsyncSdk:
        """The SDK's async client, recorded. It is made at the first access."""
        if "async" not in self._made:
            self._made["async"] = self._bound(self._make("async"))
        sdk: AsyncSdk = self._made["async"]
        return sdk

    def close(self) -> None:
        """Close the SDK's sync client."""
        close = getattr(self.sdk, "close", None)
        if close is not None:
            close()

    async def aclose(self) -> None:
        """Close the SDK's async client, if there is one."""
        sdk = self._made.get("async")
        close = getattr(sdk, "aclose", None) or getattr(sdk, "close", None)
        if close is not None:
            await close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.aclose()

    # ── the methods of a subclass ────────────────────────────────────────────────────────────────────────────────

    def _make(self, side: Side) -> Any:
        """Make the SDK's client, without its own retries."""
        raise NotImplementedError

    def _method(self, side: Side, *, streams: bool) -> Callable[..., Any]:
        """Return the SDK's method for a call."""
        raise NotImplementedError

    def _plain(self, answer: Any) -> JsonObject:
        """Return the JSON of an answer, or of an event of a stream."""
        raise NotImplementedError

    def _for_attempt(self, request: JsonObject, attempt: int) -> JsonObject:  # noqa: ARG002 - for subclasses
        """Return the arguments of one attempt. Some clients send the attempt's number in a header."""
        return request

    # ── shared by all subclasses ─────────────────────────────────────────────────────────────────────────────────

    def _prepare(self, messages: MessagesInput, tools: Iterable[ToolInput] | None, params: JsonObject) -> PreparedCall:
        prepared, left_out = prepare_messages(to_messages(messages), self.wire_format, self.provider)
        if left_out:
            self._annotate_left_out(left_out)
        if "model" not in params and self.model is None:
            raise ClientError(f"No model: pass it to {type(self).__name__}(model=…), or to the call as model=….")
        request = self.wire_format.build_request(prepared, to_tools(tools), {"model": self.model, **params})
        return PreparedCall(request, lambda body: self._read(body, count_made_up_ids(prepared)))

    def _read(self, body: Payload, made_up_calls: int) -> LLMResponse:
        dialect = dialect_of(self.wire_format.api)
        if dialect is None:
            raise ClientError(f"There is no reader of {self.wire_format.api}.")
        response = dialect.read_response(self._checked_body(body), made_up_calls)
        return with_turn(response, self.wire_format, self.provider, body)

    def _source(
        self, side: Side, messages: MessagesInput, tools: Iterable[ToolInput] | None, params: JsonObject
    ) -> StreamSource:
        call = self._prepare(messages, tools, params)
        return StreamSource(
            self.wire_format,
            self._retrying,
            lambda attempt: self._send(side, call, attempt, streams=True),
            self._plain,
            call.read,
        )

    def _send(self, side: Side, call: PreparedCall, attempt: int, *, streams: bool = False) -> Any:
        if side == "async":
            _ = self.async_sdk  # makes the async client at the first call
        return self._method(side, streams=streams)(**self._for_attempt(call.request, attempt))

    def _body_of(self, answer: Any) -> JsonObject:
        return self._checked_body(self._plain(answer))

    def _checked_body(self, body: JsonObject) -> JsonObject:
        """Return the body. Raises AnswerError if the body states an error."""
        if error := body.get("error"):
            raise AnswerError(self.provider, error)
        return body

    def _bound(self, sdk: Any) -> Any:
        """Let the recorder record the calls of an SDK's client, and return that client."""
        if self._recorder is None:
            return wrap(sdk, self.provider)
        return self._recorder.wrap(sdk, self.provider)

    def _annotate_left_out(self, left_out: int) -> None:
        """Annotate the run with the number of messages that were sent without their reasoning. Never raise.

        If the number is the same as in the last annotation, nothing is recorded.
        """
        recorder = self._recorder or current_recorder()
        if recorder is None or self._annotated == (recorder, left_out):
            return
        self._annotated = (recorder, left_out)
        with suppress(TraceRecorderError):
            recorder.annotate(LEFT_OUT, {"provider": self.provider, "api": self.wire_format.api, "messages": left_out})

    def _import(self) -> Any:
        try:
            return import_module(self.sdk_name)
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"{type(self).__name__} needs its SDK, which is not installed: "
                f"pip install 'trace-recorder[clients,{self.extra}]'"
            ) from error

    def _key(self, *others: str) -> str | None:
        """Return the key: the option `api_key`, or else the first environment variable of `key_names` that is set.

        `others` are options that replace the key. Raises MissingKeyError if there is neither a key nor such an option.
        """
        key = self._options.get("api_key") or next(filter(None, map(os.environ.get, self.key_names)), None)
        if key is None and not any(self._options.get(name) for name in others):
            raise MissingKeyError(
                f"{type(self).__name__} has no key: set {' or '.join(self.key_names)} in the environment, "
                "or pass api_key=…"
            )
        return key
