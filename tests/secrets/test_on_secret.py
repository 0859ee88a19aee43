"""A user's `on_secret` sees each secret that the package's rules find, and says what replaces it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chat_calls import asked, call, said, streamed
from tests.journals import records_of
from trace_recorder import SecretMatch, TrajectoryRecorder, load
from trace_recorder.storage.redaction.json_strings import pointers_of, strings_at
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor

KEY = "sk-proj-" + "a1B2c3D4" * 6
OnSecret = Callable[[SecretMatch], object]


def recorded(path: Path, on_secret: OnSecret, *texts: str) -> TrajectoryRecorder:
    """Record texts as annotations, without the secrets of the environment."""
    recorder = TrajectoryRecorder(path / "run.json", on_secret=on_secret)  # type: ignore[arg-type]
    with recorder:
        for text in texts:
            recorder.annotate("note", {"a/b": ["x", text]})
    return recorder


def test_each_match_says_what_was_found_and_where(tmp_path: Path) -> None:
    """A match has the kind, the secret, the kind of the fact, and the pointer of the string in the fact."""
    matches: list[SecretMatch] = []
    text = f"{KEY} and DB_PASSWORD=hunter22x at postgres://me:pa55word@host/db"

    recorded(tmp_path, matches.append, text)

    place = ("annotation", "/value/a~1b/1")
    assert matches == [
        SecretMatch("openai key", KEY, *place),
        SecretMatch("assigned secret", "hunter22x", *place),
        SecretMatch("url password", "me:pa55word", *place),
    ]


def test_the_answer_replaces_the_secret_and_none_leaves_it(tmp_path: Path) -> None:
    """A text replaces the secret. None leaves the secret in the text, and is no mask."""
    answers = {"openai key": '<the "key">', "assigned secret": None}

    recorded(tmp_path, lambda match: answers[match.kind], f"{KEY}, DB_PASSWORD=hunter22x")

    note = next(record for record in records_of(tmp_path / "run.jsonl") if record.kind == "annotation")
    assert note.data["value"]["a/b"][1] == '<the "key">, DB_PASSWORD=hunter22x'
    assert note.data["redacted"] == 1


def test_a_secret_in_a_message_has_the_pointer_of_the_message(tmp_path: Path) -> None:
    """A new message is an item, and the rest of a request is the request itself."""
    matches: list[SecretMatch] = []
    with TrajectoryRecorder(tmp_path / "run.json", on_secret=matches.append) as recorder:  # type: ignore[arg-type]
        call(recorder, asked("list", {"role": "user", "content": [{"type": "text", "text": KEY}]}, user=KEY), said(KEY))

    places = [(match.kind, match.fact, match.pointer.rpartition("/")[2]) for match in matches]
    assert sorted(places) == [
        ("openai key", "item", "text"),
        ("openai key", "llm_request", "user"),
        ("openai key", "llm_response", "content"),
    ]


def test_a_secret_in_a_large_text_has_its_pointer(tmp_path: Path) -> None:
    """A large body and a large string are masked apart from their facts, and their secrets have the same places."""
    matches: list[SecretMatch] = []
    text = "lorem ipsum " * 9000 + KEY
    with TrajectoryRecorder(tmp_path / "run.json", on_secret=matches.append) as recorder:  # type: ignore[arg-type]
        call(recorder, asked({"role": "user", "content": text}), said(text))

    assert [(match.text, match.fact, match.pointer) for match in matches] == [
        (KEY, "item", "/value"),
        (KEY, "llm_response", "/body/choices/0/message/content"),
    ]


def test_a_secret_of_a_stream_is_shown_once(tmp_path: Path) -> None:
    """The events of a stream are joined. A secret is shown once for the stream, and once for the assembled response."""
    matches: list[SecretMatch] = []
    with TrajectoryRecorder(tmp_path / "run.json", on_secret=matches.append) as recorder:  # type: ignore[arg-type]
        call(recorder, asked("x", stream=True), streamed("it is ", KEY[:9], KEY[9:], " so"))
        call(recorder, asked("y", stream=True), streamed("it is ", KEY, " so"))

    texts = [interaction.response.content for interaction in load(recorder.trajectory_path).llm_interactions]
    places = [(match.text, match.fact, match.pointer) for match in matches]
    assert sorted(places) == [
        *[(KEY, "llm_response", "/assembled/choices/0/message/content")] * 2,
        *[(KEY, "llm_stream", "")] * 2,
    ]
    assert texts == [f"it is {KEY} so"] * 2


@pytest.mark.parametrize("on_secret", [lambda match: 1 / 0, lambda match: 5])
def test_a_failure_leaves_a_gap_and_no_secret(tmp_path: Path, on_secret: OnSecret) -> None:
    """A record whose secret cannot be shown is not written, as if a redactor fails."""
    recorder = recorded(tmp_path, on_secret, f"the key is {KEY}", "harmless")

    files = [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()]
    trajectory = load(recorder.trajectory_path)
    assert [KEY in text for text in files] == [False] * len(files)
    assert (len(trajectory.gaps), trajectory.annotations) == (1, {"note": {"a/b": ["x", "harmless"]}})


@pytest.mark.parametrize(
    ("settings", "error"),
    [({"on_secret": "mask"}, TypeError), ({"on_secret": str, "redact": None}, ValueError)],
)
def test_a_wrong_setting_raises(tmp_path: Path, settings: dict[str, object], error: type[Exception]) -> None:
    """A wrong `on_secret` raises when the recorder is made."""
    with pytest.raises(error, match="on_secret"):
        TrajectoryRecorder(tmp_path / "run.json", **settings)  # type: ignore[arg-type]


def test_known_values_members_and_encoded_words_are_shown() -> None:
    """Every kind of our rules is shown, under a stable name."""
    matches: list[SecretMatch] = []
    redaction = Redaction(default_redactor, {"A_TOKEN": "opaque-Key-0f-the-user-1"}, matches.append)  # type: ignore[arg-type]
    body = {
        "password": "rosebud",
        "a": "opaque-Key-0f-the-user-1",
        "b": "pw%3Dhunter22x",
        "c": "cGFzc3dvcmQ6IGh1bnRlcjIy",
    }

    masked, count = redaction.mask(json.dumps(body), "item")

    assert [(match.kind, match.text, match.pointer) for match in matches] == [
        ("secret member", "rosebud", "/password"),
        ("known secret", "opaque-Key-0f-the-user-1", "/a"),
        ("assigned secret", "hunter22x", "/b"),
        ("encoded secret", "cGFzc3dvcmQ6IGh1bnRlcjIy", "/c"),
    ]
    assert (json.loads(masked), count) == (body, 0)


def test_each_string_of_a_text_has_its_pointer() -> None:
    """The pointers lead to the strings."""
    value = {"a": ["x", {"b/c": "y", "": ["z", [], {}, "u"]}, "w"], "~n": '\\"v', "n": 5, "l": [[["t"]]]}
    text = json.dumps(value)
    strings = [(start, end) for start, end, _, is_name in strings_at(text, None) if not is_name]

    pointers = pointers_of(text, [start for start, _ in strings])

    for start, end in strings:
        found: object = value
        for key in pointers[start].split("/")[1:]:
            name = key.replace("~1", "/").replace("~0", "~")
            found = found[int(name)] if isinstance(found, list) else found[name]  # type: ignore[index]
        assert found == json.loads(text[start:end])
    assert len(strings) == 7
    assert pointers_of(text[1:-1], [strings[0][0] - 1]) == {strings[0][0] - 1: "/a/0"}
