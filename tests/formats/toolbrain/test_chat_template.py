"""Conversations as the text that a model gets: chat templates.

`ChatTemplate` renders every template of `trl` as `transformers` does. Both packages are optional here. The test makes
the tokenizer, so nothing is downloaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.formats.sdk_conversations import WEATHER
from trace_recorder import Trajectory
from trace_recorder.errors import RenderingError
from trace_recorder.formats.toolbrain.chat_template import ChatTemplate
from trace_recorder.formats.toolbrain.rendering import chat_messages
from trace_recorder.formats.toolbrain.turns import to_turns
from trace_recorder.guard import try_call
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.values.messages import Message

pytest.importorskip("jinja2")

NAMED = ("deepseekv3", "glm4moe", "gptoss", "phi3", "qwen2_5", "qwen3")
"""Templates that must not refuse a conversation which transformers accepts."""
_TRL = find_spec("trl")
TEMPLATES = sorted((Path(_TRL.origin).parent / "chat_templates").glob("*.jinja")) if _TRL and _TRL.origin else []
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """A tokenizer without a model, on which templates are set."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **SPECIAL)


def _outcome(render: Any, **given: Any) -> tuple[str | None, str | None]:
    """Return the result of a rendering, or the name of its exception."""
    return try_call(lambda: (render(tokenize=False, **given), None), lambda error: (None, type(error).__name__))


@pytest.mark.skipif(not TEMPLATES, reason="trl is not installed")
@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_every_template_gives_the_string_of_transformers(
    path: Path, tokenizer: Any, trajectories: Mapping[str, Trajectory]
) -> None:
    """Every call of every run, with its tools, gives the same string, or the same refusal."""
    source = path.read_text()
    ours, theirs = ChatTemplate(source, **SPECIAL), tokenizer
    wanted, got = [], []
    for trajectory in trajectories.values():
        for turn in turns_of(trajectory):
            messages = chat_messages(turn.messages())
            for tools in (None, [WEATHER]) if messages else ():
                given = {"tools": tools, "add_generation_prompt": True}
                wanted.append(
                    _outcome(theirs.apply_chat_template, conversation=messages, chat_template=source, **given)
                )
                got.append(_outcome(ours.apply_chat_template, conversation=messages, **given))

    assert got == wanted
    assert path.stem not in NAMED or sum(text is not None for text, _ in got) > len(got) / 2


@pytest.mark.skipif(not TEMPLATES, reason="trl is not installed")
@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("run", ["tools", "local", "own_steps"])
def test_a_prompt_equals_the_string_of_transformers(
    name: str, run: str, tokenizer: Any, trajectories: Mapping[str, Trajectory]
) -> None:
    """A prompt equals that of transformers, from a template's source and from a tokenizer.

    gpt-oss's template accepts no text next to thoughts and calls. DeepSeek's accepts arguments as the text that was
    sent.
    """
    source = (TEMPLATES[0].parent / f"{name}.jinja").read_text()
    tokenizer.chat_template = source
    turns = turns_of(trajectories[run])
    if name == "gptoss" and run == "tools":
        with pytest.raises(RenderingError, match="Cannot pass both content and thinking"):
            to_turns(trajectories[run], chat_template=tokenizer)
        return

    by_source = to_turns(trajectories[run], chat_template=ChatTemplate(source, **SPECIAL))

    wanted = [
        tokenizer.apply_chat_template(
            _as_sent(turn.messages()) if name == "deepseekv3" else chat_messages(turn.messages()),
            tools=[tool.raw for tool in turn.interaction.tools],
            add_generation_prompt=True,
            tokenize=False,
        )
        for turn in turns
    ]
    assert [turn["prompt_for_model"] for turn in by_source] == wanted
    assert by_source == to_turns(trajectories[run], chat_template=tokenizer)


def _as_sent(messages: list[Message]) -> list[Any]:
    """Return messages with their arguments as JSON text, as OpenAI's clients send them."""
    written = chat_messages(messages)
    for message in written:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    return written


def test_a_completion_is_rendered_as_the_template_would(trajectories: Mapping[str, Trajectory]) -> None:
    """Thoughts and tool calls that a server took out of the text are put back, without the end of the turn."""
    source = (
        "{% for m in messages %}<{{ m.role }}>{% if m.thinking %}<think>{{ m.thinking }}</think>{% endif %}"
        "{{ m.content }}{% for c in m.tool_calls or [] %}[{{ c.function.name }}{{ c.function.arguments | tojson }}]"
        "{% endfor %}<end>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    )

    [first, second, third, last] = to_turns(trajectories["tools"], chat_template=source)

    assert first["prompt_for_model"].endswith("<user>Is it warmer in Ulm or in Rome?<end><assistant>")
    assert [turn["model_completion"] for turn in (first, second, third, last)] == [
        '<think>Two cities.</think>I look.[weather{"city": "Ulm"}][weather{"city": "Rome"}]',
        "<think>One is enough.</think>Ulm has 7 °C.",
        '[weather{"city": "Bonn"}]',
        "9 °C.",
    ]
    assert third["formatted_conversation"].endswith('[weather{"city": "Bonn"}]<end><tool>9<end>')


def test_a_template_s_refusal_names_the_interaction(trajectories: Mapping[str, Trajectory]) -> None:
    """If a template does not accept a conversation, the error names the interaction."""
    with pytest.raises(RenderingError, match="refused the messages of llm_1: TemplateError: no tools"):
        to_turns(trajectories["tools"], chat_template="{{ raise_exception('no tools') }}")


def test_the_date_in_a_template_is_the_date_of_the_call() -> None:
    """A template that asks for today's date gets the day of the run, and not the day of the export."""
    template = ChatTemplate("{{ strftime_now('%d %B %Y') }}")

    assert template.apply_chat_template([], at=datetime(2025, 6, 12, tzinfo=UTC)) == "12 June 2025"


def test_json_in_a_template_is_not_escaped() -> None:
    """`tojson` escapes neither HTML nor letters."""
    template = ChatTemplate("{{ messages | tojson }}{% generation %}!{% endgeneration %}")

    assert template.apply_chat_template([{"a": "<ü>"}]) == json.dumps([{"a": "<ü>"}], ensure_ascii=False) + "!"


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ namespace(_a=1) }}",
        "{{ messages.append(1) }}",
        "{{ dict.__init__.__globals__ }}",
    ],
)
def test_a_template_is_sandboxed(source: str) -> None:
    """A template that reaches into Python or changes its input is refused."""
    from jinja2.exceptions import SecurityError

    with pytest.raises(SecurityError):
        ChatTemplate(source).apply_chat_template([])
