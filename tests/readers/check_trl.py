"""Have TRL and datasets read training rows, and render them with a chat template as trainers do.

needs: Python >= 3.10; trl datasets>=4.7 transformers jinja2 tokenizers (torch is not needed for what is used here)
usage: PYTHONPATH=. python -m tests.readers.check_trl DIRECTORY

Each file becomes a dataset, which must return its rows unchanged. TRL must recognise them as conversations, and apply a
template of ours to them, whose result must have every word of every message, every tool call and every tool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from trl import is_conversational
from trl.data_utils import apply_chat_template

from tests.readers.contents import Contents
from tests.readers.reading import Reader, finish, rows, runs
from trace_recorder.views import preference_pairs

TEMPLATE = """{% for tool in tools or [] %}<tool>{{ tool.function.name }}</tool>
{% endfor %}{% for message in messages %}<{{ message.role }}>{% if message.reasoning_content %}<think>{{ \
message.reasoning_content }}</think>{% endif %}{% if message.content is string %}{{ message.content }}{% else %}{% for \
part in message.content %}{{ part.text or part.type }}{% endfor %}{% endif %}{% for call in message.tool_calls or [] \
%}<call>{{ call.function.name }}{% for name, value in call.function.arguments.items() %} {{ name }}={{ value }}{% \
endfor %}</call>{% endfor %}{% if message.role == 'tool' %}<of>{{ message.name }}</of>{% endif %}
{% endfor %}"""
CONVERSATION = ("messages", "prompt", "completion", "chosen", "rejected")


def tokenizer() -> PreTrainedTokenizerFast:
    """Return our own tokenizer, so that no model is downloaded to render text."""
    made = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", chat_template=TEMPLATE)


def without_nulls(value: Any) -> Any:
    """Remove the nulls with which datasets fills rows, because a template treats null as missing."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def words(messages: list[dict[str, Any]]) -> list[str]:
    """Return the words of messages that a template must show."""
    texts = []
    for message in messages:
        content = message["content"]
        texts += [content] if isinstance(content, str) else [part["text"] for part in content if part.get("text")]
        for call in message.get("tool_calls", ()):
            texts += [call["function"]["name"], *(f"{name}=" for name in call["function"]["arguments"])]
    return [text for text in texts if text]


def render(row: dict[str, Any], template: PreTrainedTokenizerFast) -> None:
    """Have TRL find a row conversational, and render it with every word."""
    assert is_conversational(row), "TRL finds it not conversational"
    kept = {name: row[name] for name in (*CONVERSATION, "tools") if name in row}
    shown = apply_chat_template(kept, template)
    for name in kept.keys() & set(CONVERSATION):
        text = "".join(value for value in shown.values())
        missing = [word for word in words(row[name]) if word not in text]
        assert not missing, f"the template does not show {missing[:3]}"


def has_tokens(row: dict[str, Any]) -> None:
    """Check that each token has a mask and a log-probability, and that some tokens are trained on."""
    assert len(row["input_ids"]) == len(row["assistant_masks"]) == len(row["logprobs"])
    assert any(row["assistant_masks"])


def read(reader: Reader, dicts: list[dict[str, Any]], check: Callable[[dict[str, Any]], object]) -> Reader:
    """Make a dataset of rows, which must return them unchanged, and check each row."""
    back = [without_nulls(row) for row in Dataset.from_list(dicts, on_mixed_types="use_json")]
    for number, (row, before) in enumerate(zip(back, dicts, strict=True), start=1):

        def whole(row: dict[str, Any] = row, before: dict[str, Any] = before) -> None:
            assert row == without_nulls(before), "the dataset gives another row back"
            check(row)

        reader.take(f"row {number}", whole)
    return reader


def main() -> None:
    """Read all forms of rows, and pairs."""
    template = tokenizer()
    packages = ("trl", "datasets", "transformers")
    forms = {"messages": "trl.jsonl", "prompt_completion": "trl-prompt_completion.jsonl"}
    readers = [
        read(Reader(f"TRL: {form}", "rows", *packages), rows(file), lambda row: render(row, template))
        for form, file in forms.items()
    ]
    readers.append(read(Reader("datasets: tokens", "rows", "datasets"), rows("trl-tokens.jsonl"), has_tokens))
    pairs = list(preference_pairs([run for _, run in runs()], lambda run: run.metrics.get("output_tokens")))
    readers.append(read(Reader("TRL: preference pairs", "pairs", *packages), pairs, lambda row: render(row, template)))
    contents = [
        Contents(f"datasets: contents of {form}", export, "datasets")
        for form, export in (("messages", "trl"), ("prompt_completion", "trl-prompt_completion"))
    ]
    for one in contents:
        one.hold(lambda held, _: [without_nulls(row) for row in Dataset.from_list(held, on_mixed_types="use_json")])
    finish(*readers, *contents)


main()
