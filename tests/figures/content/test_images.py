"""Images in every view have exactly the sent bytes, in whichever alphabet of base64 the SDK encoded them."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from google import genai
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.made import Payload, call, run
from tests.provider import GENERATED, plain, serving
from trace_recorder import Trajectory, TrajectoryRecorder, load
from trace_recorder.values.content_parts import Image, parts_of, standard_base64
from trace_recorder.values.messages import Message
from trace_recorder.views import to_atif, to_hierarchy, to_invariant, to_openai_finetuning, to_traces, to_trl, to_turns

_BYTES = random.Random(20250612)  # noqa: S311 - images, and the same ones each time
IMAGES = [_BYTES.randbytes(300 + number) for number in range(40)]
_DATA_URI = re.compile(r'data:image/png;base64,([^"\\]*)')
_PLAIN = re.compile(r'"data": "([^"]*)"')


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Trajectory:
    """A run in which google-genai sent forty images."""
    path = tmp_path_factory.mktemp("images") / "shown.json"
    with serving(plain(GENERATED)) as server, TrajectoryRecorder(path, task="look") as recorder:
        client = recorder.wrap(genai.Client(api_key="k", http_options=types.HttpOptions(base_url=server.url)))
        parts = [types.Part.from_bytes(data=image, mime_type="image/png") for image in IMAGES]
        client.models.generate_content(model="gemini-x", contents=[types.Content(role="user", parts=parts)])
        client.close()
    return load(path)


def _decoded(pattern: re.Pattern[str], made: Payload) -> list[bytes]:
    """Return the images of an export, decoded by the strict rules of standard base64."""
    return [base64.b64decode(found, validate=True) for found in pattern.findall(json.dumps(made))]


@pytest.mark.parametrize(
    ("view", "pattern"),
    [
        (to_openai_finetuning, _DATA_URI),
        (to_trl, _DATA_URI),
        (lambda one: to_invariant(one)[0]["content"], _DATA_URI),
        (to_hierarchy, _DATA_URI),
        (lambda one: to_turns(one)[0]["prompt_for_model"], _DATA_URI),
        (to_traces, _PLAIN),
    ],
    ids=["openai", "trl", "invariant", "hierarchy", "toolbrain", "traces"],
)
def test_every_image_is_in_the_export(
    shown: Trajectory, view: Callable[[Trajectory], Payload], pattern: re.Pattern[str]
) -> None:
    """An export has the forty images that the SDK sent, in their order."""
    assert _decoded(pattern, view(shown)) == IMAGES


def test_atif_writes_a_file_for_each_image(shown: Trajectory, tmp_path: Path) -> None:
    """ATIF names a file for each image, which has the image's bytes."""
    document = to_atif(shown, tmp_path / "images")

    paths = [part["source"]["path"] for part in document["steps"][0]["message"]]
    assert [(tmp_path / path).read_bytes() for path in paths] == IMAGES


_SPELLINGS: dict[str, Callable[[str, str], Payload]] = {
    "OpenAI's chat": lambda kind, data: {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}},
    "OpenAI's responses": lambda kind, data: {"type": "input_image", "image_url": f"data:{kind};base64,{data}"},
    "Anthropic": lambda kind, data: {
        "type": "image",
        "source": {"type": "base64", "media_type": kind, "data": data},
    },
    "Google": lambda kind, data: {"inlineData": {"mimeType": kind, "data": data}},
    "Google's SDK": lambda kind, data: {"inline_data": {"mime_type": kind, "data": data}},
    "Google's interactions": lambda kind, data: {"type": "image", "mime_type": kind, "data": data},
}


@given(
    image=st.binary(min_size=1, max_size=64),
    urlsafe=st.booleans(),
    padded=st.booleans(),
    in_lines=st.booleans(),
    spelling=st.sampled_from(sorted(_SPELLINGS)),
)
def test_any_spelling_of_base64_is_read(
    image: bytes, urlsafe: bool, padded: bool, in_lines: bool, spelling: str
) -> None:
    """The bytes, the base64 and the data URI of an image are the same in every alphabet, length and padding."""
    text = (base64.urlsafe_b64encode if urlsafe else base64.b64encode)(image).decode()
    sent = text if padded else text.rstrip("=")
    sent = "\n".join(re.findall(".{1,7}", sent)) if in_lines else sent

    standard = base64.b64encode(image).decode()
    [part] = parts_of(Message("user", [_SPELLINGS[spelling]("image/png", sent)]))
    assert part == Image("image/png", standard)
    assert isinstance(part, Image)
    assert (part.content(), part.address) == (image, f"data:image/png;base64,{standard}")


@pytest.mark.parametrize("data", ["a", "abcde", "not base64!", "é", "QQ=Q"])
def test_a_text_that_is_not_base64_is_unchanged(data: str) -> None:
    """A part that is not base64 has no bytes, and its text is unchanged."""
    assert standard_base64(data) == data
    assert Image("image/png", data).content() is None


def test_images_of_ollama_are_recognised_in_both_alphabets() -> None:
    """The file's suffix follows from the image's bytes, because Ollama's images have no media type."""
    jpeg = b"\xff\xd8\xff\xe0" + b"\xfb\xff" * 9
    message = Message("user", "q", extra={"images": [base64.urlsafe_b64encode(jpeg).decode()]})

    assert parts_of(message)[1] == Image("image/jpeg", base64.b64encode(jpeg).decode())


def test_an_image_that_cannot_be_decoded_is_reported_by_its_kind(tmp_path: Path) -> None:
    """The view writes no corrupt file for the image."""
    broken = {"role": "user", "content": [{"inlineData": {"mimeType": "image/png", "data": "not base64!"}}]}
    document = to_atif(run(call([broken], "a")), tmp_path / "images")

    assert document["steps"][0]["message"] == "[image: image/png]"
    assert not (tmp_path / "images").exists()
