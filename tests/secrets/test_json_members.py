"""In JSON, any string under a secret's name is masked. Schemas, placeholders and prose stay unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import openai
import pytest

from tests.counting import arguments_of
from tests.provider import CHAT, plain, serving, stream
from tests.secrets.everywhere import bytes_of
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.storage.redaction.json_members import field_secrets
from trace_recorder.storage.redaction.name_kinds import is_secret_name
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.messages import Payload

MASK = "[REDACTED:secret-member]"
SECRET: dict[str, Payload] = {
    "a word": {"password": "hunter2"},
    "letters": {"client_secret": "supersecretvalue"},
    "several words": {"passphrase": "correct horse battery staple"},
    "with quotes": {"secret": 'a "b" \\c'},
    "an MCP server's token": {"mcp_servers": [{"type": "url", "name": "x", "authorization_token": "SECRETTOK9"}]},
    "in any spelling": {"apiKey": "abc", "X-Api-Key": "abc", "REFRESH_TOKEN": "abc", "db.password": "abc"},
    "with a number": {"password1": "abc", "API_KEY_3": "abc", "client_secret_10": "abc", "db.passwd-2": "abc"},
    "in two words": {"pass_phrase": "abc", "pass-word": "abc", "pass_code_1": "abc"},
    "in quotes": {"password": '"abc"', "secret": '""', "credentials": '"a1b2C3d4E5f6G7h8J9k0"'},
    "with hyphens at the end": {"password__": "abc", "api_key-": "abc", "client_secret_1_": "abc"},
    "a variable with a number": [{"name": "DB_PASSWORD_1", "value": "postgres"}],
    "deep": {"a": [{"b": {"private_key": "abc"}}]},
    "a variable": [{"name": "DB_PASSWORD", "value": "postgres"}],
    "arguments": {"arguments": json.dumps({"password": "rosebud"})},
    "JSON in JSON in JSON": {"content": json.dumps({"body": json.dumps({"password": "rosebud"})})},
    "a list that is JSON": {"content": json.dumps([{"password": "rosebud"}], indent=2)},
    "a name with escapes": {"\u00fc_password": "hunter2"},
}
HARMLESS: dict[str, Payload] = {
    "a schema": {
        "properties": {"password": {"type": "string", "description": "The password"}},
        "required": ["password"],
    },
    "types": {"password": "string", "secret": "str", "api_key": "null", "access_token": "true"},
    "placeholders": {"password": "", "secret": "***", "api_key": "<your key>", "token_secret": "${SECRET}"},
    "templates": {"password": "{{ password }}", "secret": "$SECRET", "api_key": "YOUR_API_KEY", "passwd": "..."},
    "versions": {"pbkdf2-password": "^1.2.1", "dependencies": {"express-secret": "2.0"}},
    "texts about a secret": {"forgot_password": "Forgot your password?", "isSecret": "yes", "resetPassword": "Reset"},
    "names with other uses": {
        "token": "hello",
        "key": "value",
        "max_token": "all",
        "auth": "none",
        "cache_key": "users",
    },
    "prose": {"content": 'Send {"password": "rosebud"} to log in.'},
    "code": {"content": 'login = {"password": "rosebud"}'},
    "numbers": {"password": 12345678, "secret": None, "api_key": False, "access_token": ["a"]},
}


def strings(value: Payload) -> list[str]:
    """Return the strings of a value, except names, and the strings of JSON within its strings."""
    if isinstance(value, dict):
        return [text for name, element in value.items() if name != "name" for text in strings(element)]
    if isinstance(value, list):
        return [text for element in value for text in strings(element)]
    if isinstance(value, str) and value[:1] in {"{", "["} and value != MASK:
        return strings(json.loads(value))
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("name", SECRET)
def test_the_string_under_a_secret_s_name_is_masked(name: str, *, ascii_only: bool) -> None:
    """Only the string changes, and the text stays valid JSON."""
    text = json.dumps(SECRET[name], ensure_ascii=ascii_only)
    masked = json.loads(Redaction(default_redactor, {}).mask(text)[0])

    others = {"url", "x"}
    assert {said for said in strings(masked) if said not in others} == {MASK}


@pytest.mark.parametrize("name", HARMLESS)
def test_schemas_placeholders_and_prose_stay(name: str) -> None:
    """A schema has an object under such a name, a placeholder or type is not a secret, and prose and code are
    not JSON.
    """
    text = json.dumps(HARMLESS[name])

    assert Redaction(default_redactor, {}).mask(text) == (text, 0)


def test_an_escaped_name_is_the_same_name() -> None:
    """A name counts as the same name if JSON spells its letters as escapes."""
    name = "".join(f"\\u{ord(letter):04x}" for letter in "password")

    assert Redaction(default_redactor, {}).mask(f'{{"{name}": "hunter2"}}')[0] == f'{{"{name}": "{MASK}"}}'


def test_a_token_after_a_scheme_and_an_option_is_masked() -> None:
    """A short token after "Bearer" has no recognisable form, but its option names it."""
    masked, _ = Redaction(default_redactor, {}).mask('["--password", "Bearer abc12345"]')

    assert json.loads(masked) == ["--password", MASK]


def test_only_the_end_of_a_long_name_is_judged() -> None:
    """At most the last 80 letters of a name without a nearby start are copied and cached."""
    text = json.dumps({f"{'x' * 100}{number}": "v" for number in range(1000)})

    sizes = arguments_of(lambda: [*field_secrets(text)], is_secret_name.__wrapped__, lambda given: len(given["name"]))

    assert (len(sizes), set(sizes)) == (1000, {80})


def test_a_word_under_a_secret_s_name_is_masked_only_there() -> None:
    """A password that is a word is not learned, so the word stays in every other place."""
    redaction = Redaction(default_redactor, {})
    redaction.mask('{"password": "hunter2hunter2"}')

    assert redaction.mask('{"text": "hunter2hunter2"}') == ('{"text": "hunter2hunter2"}', 0)


TOOL = {"type": "mcp", "server_label": "x", "server_url": "https://x.example/mcp", "require_approval": "never"}


@pytest.mark.parametrize("more", [{}, {"note": "w" * 100_000}])
def test_secrets_defined_by_the_api_are_masked(more: Payload) -> None:
    """Headers and the authorization of an MCP tool are masked, whatever they look like. Other headers are not."""
    tool = {**TOOL, "authorization": "string", "headers": {"X-Team": "blue", "X-Plan": "a b"}, **more}
    request = {"tools": [tool, {"type": "function", "headers": {"X-Team": "blue"}, "authorization": "string"}]}

    masked = json.loads(Redaction(default_redactor, {}).mask(json.dumps(request))[0])

    expected = {**tool, "authorization": MASK, "headers": {"X-Team": MASK, "X-Plan": MASK}}
    assert masked == {"tools": [expected, request["tools"][1]]}


def _in_prose(text: str) -> str:
    return f'He said "use this:\n{text}\nand "that" {{is}} all.'


def _with_escaped_quotes(text: str) -> str:
    return text.replace('\\"', "\\u0022")


WITHIN: dict[str, tuple[Callable[[str], str], ...]] = {
    "a text that is JSON": (),
    "a text with JSON in it": (_in_prose,),
    "JSON within JSON": (json.dumps,),
    "a list of texts": (lambda text: json.dumps([text, text]),),
    "a text with JSON in JSON": (json.dumps, _in_prose),
    "JSON in a text in JSON": (_in_prose, lambda text: json.dumps({"file": text})),
    "JSON three levels down": (lambda text: json.dumps({"a": text}), lambda text: json.dumps({"b": [text]})),
}


@pytest.mark.parametrize("spelled", [str, _with_escaped_quotes], ids=["quotes", "escaped quotes"])
@pytest.mark.parametrize("size", [0, 100_000])
@pytest.mark.parametrize("place", WITHIN)
def test_secrets_of_tools_are_masked_in_texts(place: str, size: int, spelled: Callable[[str], str]) -> None:
    """Headers and the authorization of an MCP tool are masked where the tool's JSON is, or is a part of, a text."""
    tool = {"note": "w" * size, **TOOL, "authorization": "open sesame", "headers": {"X-Team": "purple header"}}
    other = {"type": "function", "headers": {"X-Team": "green"}}
    text = json.dumps({"tools": [tool, other]})
    for wrap in WITHIN[place]:
        text = wrap(text)

    redaction = Redaction(default_redactor, {})
    record = json.dumps({"content": "@"}).replace("@", spelled(json.dumps(text)[1:-1]))
    masked, count = redaction.mask(record)

    assert [words for words in ("sesame", "purple") if words in masked] == []
    assert json.loads(masked)["content"].replace(MASK, "") == text.replace("open sesame", "").replace(
        "purple header", ""
    )
    assert count == masked.count(MASK)
    assert redaction.mask(masked) == (masked, 0)
    assert default_redactor(text) == json.loads(masked)["content"]


LABELS: dict[str, Payload] = {
    "config": {
        "step": {"user": {"title": "Anmelden", "data": {"username": "Benutzername", "password": "Passwort"}}},
        "error": {"cannot_connect": "Verbindung fehlgeschlagen", "invalid_auth": "Die Anmeldung ist ung\u00fcltig"},
        "abort": {"single": "Bereits eingerichtet. Es ist nur eine Konfiguration m\u00f6glich."},
    }
}
RECORDS: dict[str, tuple[str, Payload]] = {
    "a login": ("correct horse", {"user": "bob", "password": "correct horse"}),
    "a profile": (
        "Red horse",
        {"name": "Bob Smith", "city": "New York", "job": "Head of Sales", "password": "Red horse"},
    ),
    "an account": ("Red horse", {**LABELS, "account": {"id": 7, "password": "Red horse"}}),
    "a list of accounts": ("Red horse", {**LABELS, "accounts": [{"title": "My bank", "password": "Red horse"}]}),
    "settings": ("A b", {"host": "db", "user": "app", "name": "app", "engine": "x", "mode": "a b", "password": "A b"}),
    "no label": ("rosebud", {"config": {**LABELS["config"], "password": "rosebud"}}),
    "a key": ("Xkqzjwvbqmtpfhgd", {"config": {**LABELS["config"], "api_key": "Xkqzjwvbqmtpfhgd"}}),
}


@pytest.mark.parametrize("ascii_only", [True, False])
def test_labels_in_a_file_of_translations_stay(*, ascii_only: bool) -> None:
    """The labels stay in a string that is such a table as a whole, as a tool shows a file, and in JSON within JSON."""
    file = json.dumps(LABELS, ensure_ascii=ascii_only, indent=2)
    texts = [json.dumps({"content": file}), json.dumps({"content": json.dumps({"file": file})})]

    assert [Redaction(default_redactor, {}).mask(text) for text in texts] == [(text, 0) for text in texts]


@pytest.mark.parametrize(("label", "stays"), [("\u043f\u0430\u0440\u043e\u043b\u044c", True), ("rosebud", False)])
def test_a_small_letter_beyond_ascii_begins_a_label(label: str, *, stays: bool) -> None:
    """Languages with other letters have labels that begin with a small letter. In ASCII, such a word is a value."""
    step = {"user": {"title": "Anmelden", "data": {"username": "Benutzername", "password": label}}}
    text = json.dumps({"content": json.dumps({"config": {**LABELS["config"], "step": step}})})

    assert (Redaction(default_redactor, {}).mask(text)[0] == text) is stays


@pytest.mark.parametrize("name", RECORDS)
def test_a_secret_among_words_is_not_a_label(name: str) -> None:
    """Values in a small object, beside other data, in a list of records, or unlike labels are masked."""
    secret, record = RECORDS[name]
    masked, count = Redaction(default_redactor, {}).mask(json.dumps({"content": json.dumps(record)}))

    assert (secret in masked, count >= 1) == (False, True)


def test_labels_are_masked_outside_of_texts() -> None:
    """In arguments and in the record itself, values that look like labels are masked. Only a text may be a table of
    labels.
    """
    texts = [json.dumps(LABELS), json.dumps({"arguments": json.dumps(LABELS)})]

    assert [Redaction(default_redactor, {}).mask(text)[1] for text in texts] == [1, 1]


ARGUMENTS = json.dumps({"user": "bob", "password": "correct horse battery", "note": 'after "it"', "pwd": "x y"})
EXPECTED = ARGUMENTS.replace("correct horse battery", MASK).replace("x y", MASK)


def chat_event(piece: str) -> Payload:
    """Return an event with a part of a call's arguments, as a chat completion streams it."""
    return {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}}]}


def message_event(piece: str) -> Payload:
    """Return such an event as Anthropic's messages stream it."""
    return {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": piece}}


def response_event(piece: str) -> Payload:
    """Return such an event as OpenAI's responses stream it."""
    return {"type": "response.function_call_arguments.delta", "item_id": "i", "output_index": 0, "delta": piece}


def said_in(data: bytes) -> str:
    """Return the arguments that the events spell."""
    events = [json.loads(line.removeprefix("data: ")) for line in data.decode().split("\n\n") if line]
    return "".join(
        event["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"]
        if "choices" in event
        else event["delta"]["partial_json"]
        if isinstance(event["delta"], dict)
        else event["delta"]
        for event in events
    )


@pytest.mark.parametrize("event", [chat_event, message_event, response_event])
@pytest.mark.parametrize("size", [1, 4, 17, 30, 200])
def test_streamed_arguments_are_masked_as_json(size: int, event: object) -> None:
    """No written part has a word of a secret, however the arguments are cut into events, and wherever the stream is
    cut.
    """
    redaction = Redaction(default_redactor, {})
    pieces = [ARGUMENTS[at : at + size] for at in range(0, len(ARGUMENTS), size)]
    written, waiting = b"", b""
    for piece in pieces:
        waiting += f"data: {json.dumps(event(piece))}\n\n".encode()  # type: ignore[operator]
        masked, _, taken = redaction.mask_stream(waiting, last=False)
        written, waiting = written + masked, waiting[taken:]
        assert not {"correct", "horse", "battery"} & set(said_in(written).replace('"', " ").split())
    written += redaction.mask_stream(waiting)[0]

    assert said_in(written) == EXPECTED


def test_requests_and_answers_of_a_real_client_are_masked(tmp_path: Path) -> None:
    """No byte has the secrets of MCP tools, or of arguments in a plain or a streamed answer to the real SDK."""
    call = {"id": "c", "type": "function", "function": {"name": "login", "arguments": ARGUMENTS}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = {**CHAT, "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    pieces = [ARGUMENTS[at : at + 9] for at in range(0, len(ARGUMENTS), 9)]
    events = [f"data: {json.dumps(chat_event(piece))}\n\n".encode() for piece in pieces]
    tool = {**TOOL, "authorization": "opensesame", "headers": {"X-Team": "purpleheader"}}
    with serving(plain(answer), stream(*events, b"data: [DONE]\n\n")) as server:
        with TrajectoryRecorder(tmp_path / "run.json") as recorder:
            client = recorder.wrap(openai.OpenAI(api_key="x", base_url=f"{server.url}/v1"))
            more: Payload = {"tools": [tool], "mcp_servers": [{"authorization_token": "SECRETTOK9"}]}
            client.chat.completions.create(model="m", messages=[], extra_body=more)
            for _ in client.chat.completions.create(model="m", messages=[], stream=True):
                pass

    data = bytes_of(recorder.trajectory_path)
    assert [said for said in (b"opensesame", b"purpleheader", b"SECRETTOK9", b"horse", b"x y") if said in data] == []
    calls = load(recorder.trajectory_path).llm_interactions
    arguments = [call.response.tool_calls[0].arguments for call in calls if call.response]
    assert arguments == [json.loads(EXPECTED)] * 2
