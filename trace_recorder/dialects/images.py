"""Images that a model makes or edits: OpenAI's dialect (/images/generations, /images/edits, /images/variations), which
Azure, xAI, Together and others have too, Imagen at Google (:predict), and models of Amazon and Stability at Bedrock.

The prompt is the user's message. Images that are edited, and masks, are parts of this message. Each image of the answer
is an image part in `extra["images"]`, which has the other members of the image, such as a revised prompt. A stream
sends versions of an image before the final one. They are on file as they came, and only the final images are joined.
"""

from __future__ import annotations

from trace_recorder.dialects.chat_chunks import error_of, joined_events
from trace_recorder.dialects.dialect import Dialect
from trace_recorder.dialects.form_bodies import media_part
from trace_recorder.dialects.json_access import (
    Members,
    as_dict,
    as_elements,
    as_text,
    content_of,
    json_value,
    text_part,
)
from trace_recorder.dialects.openai_chat import not_found, read_usage
from trace_recorder.dialects.stream_framing import events, unstreamed
from trace_recorder.values.messages import JoinedStream, LLMResponse, Message, Payload, RequestReading, without_none
from trace_recorder.values.token_counts import WHOLE

_IMAGES = ("image", "image[]", "images", "mask")
"""The members of a request that have images: files of a form, addresses, or objects with an address."""
_BYTES = ("b64_json", "bytesBase64Encoded")


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON, or a form as JSON."""
    members = Members(body)
    prompt = members.text("prompt") or members.nested("textToImageParams").text("text")
    parts: list[Payload] = []
    if prompt is not None:
        parts.append(text_part(prompt))
    for name in _IMAGES:
        parts += map(_sent_image, as_elements(members.take(name)))
    contents = [parts, *map(_instance, members.array("instances"))]
    messages = [Message("user", content) for parts in contents if (content := content_of(parts)) is not None]
    parameters = members.all()
    return RequestReading(messages, parameters=parameters, model=as_text(parameters.get("model")))


def _sent_image(value: Payload) -> Payload:
    address = value
    if not isinstance(value, str):
        address = as_dict(value).get("image_url", as_dict(value).get("url"))
    if address is None:
        return media_part(value, "image")
    return {"type": "image_url", "image_url": address}


def _instance(instance: Payload) -> list[Payload]:
    """Return the parts of a prompt of Imagen. An image that is edited is inside another object."""
    members = Members(instance)
    prompt = members.text("prompt")
    parts: list[Payload] = []
    if prompt is not None:
        parts.append(text_part(prompt))
    for name, value in members.all().items():
        for element in as_elements(value):
            image = as_dict(as_dict(element).get("referenceImage")) or as_dict(element)
            if image.keys() & _BYTES:
                parts.append(_part(image, "png"))
            else:
                parts.append({name: element})
    return parts


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:  # noqa: ARG001 no calls here
    """Read a response's JSON."""
    members = Members(body)
    kind = as_text(members.get("output_format")) or "png"
    images = [_part(as_dict(image), kind) for name in ("data", "predictions") for image in members.array(name)]
    usage = read_usage(members.object("usage"))
    model, identity = members.text("model"), members.text("id")
    extra = without_none(images=images or None) | members.rest()
    return LLMResponse(usage=usage, model=model, id=identity, extra=extra)


def _part(image: dict[str, Payload], kind: str) -> dict[str, Payload]:
    """Return an image as a part of a message. An image that was refused has no bytes, and is returned unchanged."""
    members = Members(image)
    address, data = members.text("url"), next(filter(None, map(members.nonempty_text, _BYTES)), None)
    if data is not None:
        address = f"data:{members.text('mimeType') or f'image/{kind}'};base64,{data}"
    if address is None:
        return image
    return {"type": "image_url", "image_url": {"url": address}, **members.rest()}


def join_stream(text: str) -> JoinedStream:
    """Join the text of a stream, which may be cut off anywhere.

    The newest version of an image stands for the final one, if that has not come.
    """
    number, ended, error = 0, False, None
    final: list[Payload] = []
    newest: list[Payload] = []
    beside: dict[str, Payload] = {}
    for name, data in events(text):
        number += 1
        members = Members(json_value(data))
        kind = members.text("type") or name or ""
        error = error_of(kind, members, data) or error
        image = without_none(b64_json=members.take("b64_json"), url=members.take("url"))
        if kind.endswith(".completed"):
            final.append(image)
            ended = True
        elif image:
            newest = [image]
        created = members.take("created_at")
        beside |= without_none(created=created)
        if error is None:
            beside |= members.rest()
    if not number:
        return unstreamed(text)
    if final:
        beside.pop("partial_image_index", None)
    return joined_events({**beside, "data": final or newest}, ended=ended, events=number, error=error)


DIALECT = Dialect(
    name="images",
    addresses={
        r"/images/(?:generations|edits|variations)/?$": "openai",
        r"/model/[^/]*(?:canvas|titan-image|stability\.)[^/]*/invoke$": "bedrock",
        r"/models/(?:imagen|imagegeneration)[^/:]*:predict$": "google",
    },
    sdks=("openai", "google"),
    headers={},
    operation="image_generation",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=not_found,
    history=None,
    numbers_calls=True,
    instructions_apart=False,
    with_system=None,
    counting=WHOLE,
    usage_on_request=False,
    background=None,
    websockets=None,
)
