"""Have TRL and datasets read training rows, and render them with a chat template as trainers do.

needs: Python >= 3.10; trl datasets>=4.7 transformers jinja2 tokenizers (torch is not needed for what is used here)
usage: check_trl.py FILE.jsonl ...    from `trace-recorder export --format trl`, or with `--form prompt_completion`
       or `--form tokens`, or rows of `preference_pairs`

Each file becomes a dataset, which must give its rows back as they were; TRL must find them conversational and apply a
template of ours to them, in which every word of every message, every tool call and every tool has to appear.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from trl import is_conversational
from trl.data_utils import apply_chat_template

TEMPLATE = """{% for tool in tools or [] %}<tool>{{ tool.function.name }}</tool>
{% endfor %}{% for message in messages %}<{{ message.role }}>{% if message.reasoning_content %}<think>{{ \
message.reasoning_content }}</think>{% endif %}{% if message.content is string %}{{ message.content }}{% else %}{% for \
part in message.content %}{{ part.text or part.type }}{% endfor %}{% endif %}{% for call in message.tool_calls or [] \
%}<call>{{ call.function.name }}{% for name, value in call.function.arguments.items() %} {{ name }}={{ value }}{% \
endfor %}</call>{% endfor %}{% if message.role == 'tool' %}<of>{{ message.name }}</of>{% endif %}
{% endfor %}"""
CONVERSATION = ("messages", "prompt", "completion", "chosen", "rejected")


def tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of our own: no model has to be fetched to render text."""
    made = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", chat_template=TEMPLATE)


def without_nulls(value: Any) -> Any:
    """What datasets pads is null: a row without a member and one with null there are the same to a template."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def words(messages: list[dict[str, Any]]) -> list[str]:
    """What a template must show of messages."""
    found = []
    for message in messages:
        content = message["content"]
        found += [content] if isinstance(content, str) else [part["text"] for part in content if part.get("text")]
        for call in message.get("tool_calls", ()):
            found += [call["function"]["name"], *(f"{name}=" for name in call["function"]["arguments"])]
    return [one for one in found if one]


def check(path: Path) -> str:
    """Read a file as a dataset; say what it is."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    dataset = Dataset.from_list(rows, on_mixed_types="use_json")
    back = [without_nulls(row) for row in dataset]
    assert back == [without_nulls(row) for row in rows], "the dataset gives other rows back"
    if "input_ids" in rows[0]:
        assert all(len(row["input_ids"]) == len(row["assistant_masks"]) == len(row["logprobs"]) for row in back)
        return f"{len(rows)} rows of tokens"
    template = tokenizer()
    for row in back:
        assert is_conversational(row), "TRL finds it not conversational"
        kept = {name: row[name] for name in (*CONVERSATION, "tools") if name in row}
        shown = apply_chat_template(kept, template)
        for name in kept.keys() & set(CONVERSATION):
            text = "".join(value for value in shown.values())
            missing = [word for word in words(row[name]) if word not in text]
            assert not missing, f"the template does not show {missing[:3]}"
    return f"{len(rows)} rows with {', '.join(name for name in CONVERSATION if name in rows[0])}"


failed = 0
for name in sys.argv[1:]:
    try:
        print(f"accepted  {name}: {check(Path(name))}")
    except Exception as error:  # noqa: BLE001 - whatever it raises is the finding
        failed += 1
        print(f"REFUSED   {name}: {type(error).__name__}: {str(error)[:500]}")
versions = ", ".join(f"{package} {version(package)}" for package in ("trl", "datasets", "transformers"))
print(f"{len(sys.argv) - 1} files, {failed} not accepted ({versions})")
sys.exit(failed > 0)
