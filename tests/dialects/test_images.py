"""Images: Imagen's form, and what other providers add to OpenAI's. `tests/capture/test_operations.py` has the rest."""

from __future__ import annotations

from trace_recorder.dialects import images
from trace_recorder.values.messages import LLMResponse, Message, Usage

PNG = "iVBORw0KGgo="
ADDRESS = {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{PNG}"}}


def test_a_request_of_imagen_is_read() -> None:
    """Each instance is a message: its prompt, the images that are edited, and its other members."""
    reference = {
        "referenceType": "REFERENCE_TYPE_RAW",
        "referenceImage": {"bytesBase64Encoded": PNG, "mimeType": "image/jpeg"},
    }
    body = {
        "instances": [{"prompt": "a cat", "referenceImages": [reference], "seed": 1}],
        "parameters": {"sampleCount": 2},
    }
    reading = images.read_request(body)

    assert reading.messages == [Message("user", [{"type": "text", "text": "a cat"}, ADDRESS, {"seed": 1}])]
    assert reading.parameters == {"parameters": {"sampleCount": 2}}


def test_an_answer_of_imagen_is_read() -> None:
    """An image that the provider refused is kept with its reason."""
    refused = {"raiFilteredReason": "blocked"}
    body = {"predictions": [{"bytesBase64Encoded": PNG, "mimeType": "image/jpeg", "prompt": "a grey cat"}, refused]}

    assert images.read_response(body) == LLMResponse(extra={"images": [{**ADDRESS, "prompt": "a grey cat"}, refused]})


def test_images_are_sent_by_address_too() -> None:
    """JSON may have the images of an edit as addresses or as objects."""
    body = {
        "prompt": "a hat",
        "images": [{"image_url": "https://x/1"}, {"file_id": "f"}],
        "image": {"url": "https://x/2"},
    }
    [message] = images.read_request(body).messages

    assert message.content == [
        {"type": "text", "text": "a hat"},
        {"type": "image_url", "image_url": "https://x/2"},
        {"type": "image_url", "image_url": "https://x/1"},
        {"file_id": "f"},
    ]


def test_a_stated_cost_is_read() -> None:
    """xAI states its bill in ticks."""
    body = {"data": [], "usage": {"cost_in_usd_ticks": 700_000_000}}

    assert images.read_response(body) == LLMResponse(usage=Usage(cost=0.07))


def test_images_at_bedrock_are_read() -> None:
    """Amazon's models have the prompt inside the task. The images of an answer are base64 alone."""
    body = {"taskType": "TEXT_IMAGE", "textToImageParams": {"text": "a cat"}, "imageGenerationConfig": {"seed": 1}}
    reading, response = images.read_request(body), images.read_response({"images": [PNG]})

    assert (reading.messages, response.extra) == ([Message("user", "a cat")], {"images": [PNG]})
