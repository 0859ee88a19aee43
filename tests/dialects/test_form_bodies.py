"""Multipart forms as JSON: every field of a form that a real library encoded, and no failure for any other bytes."""

from __future__ import annotations

import base64
import json

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_recorder.dialects.form_bodies import form_as_json

NAMES = st.text(st.characters(codec="utf-8", exclude_characters='\r\n"\\%', exclude_categories=["Cc"]), min_size=1)
FILES = st.lists(st.tuples(NAMES, st.tuples(NAMES, st.binary())), min_size=1, max_size=4)
TYPE = b"multipart/form-data; boundary=xyz"


def file_as_json(name: str, data: bytes, content_type: str) -> dict[str, str]:
    members = {"filename": name, "content_type": content_type}
    try:
        return {**members, "text": data.decode()}
    except UnicodeDecodeError:
        return {**members, "base64": base64.b64encode(data).decode()}


@given(st.dictionaries(NAMES, st.text(st.characters(codec="utf-8")), max_size=3), FILES)
def test_each_field_of_a_form_is_read(texts: dict[str, str], files: list[tuple[str, tuple[str, bytes]]]) -> None:
    """Texts, files and repeated fields are read as httpx was given them."""
    request = httpx.Request("POST", "http://x", data=texts, files=[(name, (*file, "a/b")) for name, file in files])
    body = form_as_json(request.headers["content-type"].encode(), request.read())

    expected: dict[str, list[object]] = {name: [text] for name, text in texts.items()}
    for name, (filename, data) in files:
        expected.setdefault(name, []).append(file_as_json(filename, data, "a/b"))
    assert body is not None
    assert json.loads(body) == {name: one if len(one) > 1 else one[0] for name, one in expected.items()}


@given(
    st.binary(), st.lists(st.sampled_from([b"\r\n--xyz", b"--", b"\r\n\r\n", b"\r\n", b'; name="a"', b"\xff", b":"]))
)
def test_any_bytes_are_read(before: bytes, pieces: list[bytes]) -> None:
    """Bytes that are not a form are no form, or an object. They raise nothing."""
    body = form_as_json(TYPE, before + b"".join(pieces))

    assert body is None or isinstance(json.loads(body), dict)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b'Content-Disposition: form-data; name="a"', {"a": "x"}),
        (b"content-disposition: form-data; name*=utf-8''%C3%A9", {"é": "x"}),
        (b'Content-Disposition: form-data; name="a"; filename="b"', {"a": {"filename": "b", "text": "x"}}),
        (b"Content-Type: text/plain", {"": "x"}),
    ],
)
def test_the_headers_of_a_field_are_read(head: bytes, expected: object) -> None:
    """A name in either form, and a file without a type, are read."""
    body = form_as_json(TYPE, b"--xyz\r\n" + head + b"\r\n\r\nx\r\n--xyz--\r\n")

    assert json.loads(body or b"null") == expected


@pytest.mark.parametrize("content_type", [b"multipart/form-data", b"multipart/mixed; boundary=xyz", b"", b"text/plain"])
def test_other_bodies_are_no_forms(content_type: bytes) -> None:
    """Without a boundary, or with another type, a body is not a form."""
    assert form_as_json(content_type, b'--xyz\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n--xyz--') is None
