"""Each real file is recognised as the format of its folder, and as no other format."""

from __future__ import annotations

import pytest

from tests.formats.files import DIRECTORY, real_files
from trace_recorder.formats.recognition import Source, format_of

_FORMATS = {
    "inspect": "inspect-ai",
    "llm": "llm",
    "mini-swe-agent": "mini-swe-agent",
    "swe-agent": "swe-agent",
    "openhands-v0": "openhands-v0",
    "openhands-v1": "openhands",
    "tau-bench": "tau-bench",
    "opencode": "opencode",
}
_OTHERWISE = {"openhands-v1/fncall-llm-message.json": "chat-messages"}
_NEWEST = {
    "chat/cline*": "anthropic-history",
    "chat/litellm_proxy__*": "openhands-completions",
    "claude-code-*/*.jsonl": "claude-code",
    "claude-code-*/**/agent-*.jsonl": "claude-code",
    "cli/gemini-cli-0.61.0.jsonl": "gemini-cli",
    "cli/gemini-cli-0.61.0.stream.jsonl": "gemini-stream",
    "cli/pi-*": "pi",
    "cli/qwen-*": "qwen",
    "codex-*/*": "codex",
    "deepseek-harness/*": None,
    "spans/*.otlp.json": "otlp",
}
_PARTS_OF_SESSIONS = ("message", "part", "migration")


@pytest.mark.parametrize("folder", _FORMATS)
def test_real_files_are_recognised_as_the_format_of_their_folder(folder: str) -> None:
    for path in real_files(f"{folder}/**/*"):
        name = path.relative_to(DIRECTORY).as_posix()
        is_part = folder == "opencode" and set(_PARTS_OF_SESSIONS) & set(path.parts)
        assert (name, format_of(Source(path))) == (name, None if is_part else _OTHERWISE.get(name, _FORMATS[folder]))


@pytest.mark.parametrize("pattern", _NEWEST)
def test_the_newest_files_are_recognised(pattern: str) -> None:
    paths = real_files(f"newest/{pattern}")
    assert {path.name: format_of(Source(path)) for path in paths} == {path.name: _NEWEST[pattern] for path in paths}


def test_no_real_file_is_recognised_as_a_second_format() -> None:
    for path in real_files("**/*"):
        name = path.relative_to(DIRECTORY).as_posix()
        if name.split("/")[0] not in {*_FORMATS, "newest"}:
            found = format_of(Source(path))
            assert (name, found in {*_FORMATS.values(), *_OTHERWISE.values()}) == (name, False)
