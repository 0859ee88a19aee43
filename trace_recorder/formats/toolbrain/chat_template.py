"""A chat template turns messages into the exact string that an open model gets.

`ChatTemplate` renders a template's Jinja source as `transformers` (5.23) does, with the same extensions, filters and
names. Jinja's environment is sandboxed, because templates come from strangers. Views call only the method
`apply_chat_template`, which Hugging Face tokenizers have too. jinja2 is an extra: `pip install
trace-recorder[templates]`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from trace_recorder.values.messages import Payload

ChatMessage = dict[str, Payload]
"""A message in the form that chat templates read: OpenAI's form, but the arguments of tool calls are objects."""

_REASONING = ("reasoning_content", "thinking", "reasoning")
"""The names under which templates look for thinking. Most templates use the first name, and gpt-oss uses the second."""


class Renderer(Protocol):
    """An object that renders a conversation: a Hugging Face tokenizer, or a `ChatTemplate`."""

    def apply_chat_template(
        self,
        conversation: list[ChatMessage],
        tools: list[Payload] | None = None,
        *,
        add_generation_prompt: bool = False,
        tokenize: bool = False,
        **variables: Payload,
    ) -> Any:
        """Return the text of a conversation, optionally with the prompt for the model's next answer."""


class ChatTemplate:
    """A chat template.

    `variables` has the values of names in the Jinja source that are not arguments, such as `bos_token`.
    """

    def __init__(self, source: str, **variables: Payload) -> None:
        self._template = _environment().from_string(source)
        self._variables = variables

    def apply_chat_template(
        self,
        conversation: list[ChatMessage],
        tools: list[Payload] | None = None,
        *,
        add_generation_prompt: bool = False,
        tokenize: bool = False,
        at: datetime | None = None,
        **variables: Payload,
    ) -> str:
        """Return the text of a conversation. Templates that write the date use the time `at`."""
        if tokenize:
            raise ValueError("A ChatTemplate returns text and has no tokens. Leave tokenize=False.")
        clock = {} if at is None else {"strftime_now": at.strftime}
        text: str = self._template.render(
            messages=[_with_reasoning(message) for message in conversation],
            tools=tools,
            documents=variables.pop("documents", None),
            add_generation_prompt=add_generation_prompt,
            **clock,
            **{**self._variables, **variables},
        )
        return text


def _with_reasoning(message: ChatMessage) -> ChatMessage:
    """Return a message.

    If it has thinking, add the thinking under each name that templates read, as in transformers.
    """
    thinking = next((message[name] for name in _REASONING if message.get(name) is not None), None)
    if thinking is None:
        return message
    return {"thinking": thinking, **message, "reasoning_content": thinking}


@cache
def _environment() -> Any:
    """Return a Jinja environment like the one in `transformers.utils.chat_template_utils`."""
    try:
        jinja, sandbox, ext = (import_module(f"jinja2{name}") for name in ("", ".sandbox", ".ext"))
    except ImportError:
        raise ImportError("Chat templates are rendered by jinja2: pip install trace-recorder[templates]") from None

    def raise_exception(message: str) -> None:
        raise jinja.TemplateError(message)

    environment = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_generation(jinja, ext), ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals |= {
        "raise_exception": raise_exception,
        "strftime_now": lambda form: datetime.now(UTC).strftime(form),
        "dict": _Dict(),
        "namespace": _namespace(jinja),
    }
    return environment


def _tojson(
    value: Payload,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON without the escapes for HTML that Jinja's own filter adds."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class _Dict:
    """`dict` for templates, with only the methods that they need."""

    def __call__(self, *pairs: Payload, **members: Payload) -> dict[Payload, Payload]:
        return dict(*pairs, **members)

    def fromkeys(self, keys: Sequence[Payload], value: Payload = None) -> dict[Payload, Payload]:
        return dict.fromkeys(keys, value)


def _namespace(jinja: Any) -> Any:
    """Return `namespace` for templates.

    The class refuses names that begin with an underscore, because such names give access to Python.
    """
    plain = jinja.utils.Namespace

    def refuse(name: Payload) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise jinja.exceptions.SecurityError(f"A chat template may not set {name!r} in a namespace.")

    def begin(*arguments: Any, **members: Payload) -> None:
        itself, *pairs = arguments
        attributes: Mapping[str, Payload] = dict(*pairs, **members)
        for name in attributes:
            refuse(name)
        plain.__init__(itself, attributes)

    def put(itself: Any, name: str, value: Payload) -> None:
        refuse(name)
        plain.__setitem__(itself, name, value)

    return type("Namespace", (plain,), {"__init__": begin, "__setitem__": put})


def _generation(jinja: Any, ext: Any) -> Any:
    """Return the extension for the tag `{% generation %}`, which templates put around answers.

    The tag itself renders as nothing.
    """

    def parse(itself: Any, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja.nodes.CallBlock(itself.call_method("_shown"), [], [], body).set_lineno(line)

    def shown(_: Any, caller: Any) -> Any:
        return caller()

    return type("Generation", (ext.Extension,), {"tags": {"generation"}, "parse": parse, "_shown": shown})
