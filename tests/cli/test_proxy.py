"""The command `proxy`: a program in any language uses the proxy because of environment variables."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.agents import Place
from tests.cli.ending import ended_while_printing
from tests.provider import CHAT, CHAT_STREAM, Server, plain, stream
from trace_recorder import load

ASK = """
import json, os, sys, urllib.request
def ask():
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    return urllib.request.urlopen(urllib.request.Request(url, json.dumps({"messages": []}).encode())).read()
"""
"""A program that `trace-recorder run` cannot record, because it sends requests by urllib."""


def program(place: Place, code: str) -> list[object]:
    """Write a program, and return the command that starts it."""
    (place.path / "program.py").write_text(ASK + code)
    return ["--", sys.executable, "program.py"]


@pytest.mark.parametrize(
    ("code", "exit_code", "status"),
    [
        ("ask()", 0, "completed"),
        ("ask(); sys.exit(3)", 3, "failed"),
        ("ask(); os.kill(os.getpid(), 9)", -9, "interrupted"),
    ],
)
def test_a_program_is_recorded_and_its_exit_code_passed_on(
    place: Place, server: Server, code: str, exit_code: int, status: str
) -> None:
    """The proxy sends requests to the provider that the program's environment named."""
    command = [sys.executable, "-m", "trace_recorder", "proxy", *map(str, program(place, f"\n{code}"))]
    done = subprocess.run(
        command, cwd=place.path, env=place.environment, capture_output=True, text=True, check=False, timeout=120
    )
    (path,) = (place.path / "trajectories").glob("*.json")
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (
        exit_code,
        "",
        [f"trace-recorder: recorded 1 run, 1 LLM call: trajectories/{path.name}"],
    )
    run = load(path)
    assert (run.status, run.annotations["exit_code"]) == (status, exit_code if exit_code >= 0 else 128 - exit_code)
    assert [call.raw_response for call in run.llm_interactions] == [CHAT]
    assert (run.metadata["session_from"], run.task) == ("program", f"{sys.executable} program.py")
    assert [path for path, _, _ in server.requests] == ["/v1/chat/completions"]


def test_variables_lead_to_the_proxy_for_the_program_alone(place: Place) -> None:
    """The proxy sets the variables of every provider for the program. A set variable names the upstream, and a URL
    without /v1 stays so.
    """
    environment = {"OPENAI_BASE_URL": "https://gateway.example/llm", "OLLAMA_HOST": "10.0.0.1:5"}
    names = ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "OLLAMA_HOST", "AZURE_OPENAI_ENDPOINT"]
    code = f"\nprint(json.dumps([os.environ.get(name) for name in {names!r}]))"
    done = place.command("proxy", "--quiet", *program(place, code), **environment)
    *led, azure = json.loads(done.stdout)
    assert ({url.rpartition("/")[0] for url in led}, azure) == ({led[0].rpartition("/")[0]}, None)
    assert [url.rpartition("/")[2] for url in led] == ["openai", "anthropic", "google", "ollama"]
    assert done.returncode == 0


def test_a_program_of_a_proxy_on_another_interface_gets_its_token(place: Place) -> None:
    """If the proxy listens beyond this machine, the program gets the token, because requests without it are refused."""
    code = """
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", b'{"messages": []}')
request.add_header("X-Trace-Recorder-Token", os.environ["TRACE_RECORDER_PROXY_TOKEN"])
print(urllib.request.urlopen(request).read().decode())
"""
    done = place.command("proxy", "--quiet", "--host", "127.0.0.2", *program(place, code))
    assert (done.returncode, json.loads(done.stdout)) == (0, CHAT)


def test_a_provider_without_a_known_upstream_keeps_its_variable(place: Place) -> None:
    """The proxy does not set a provider's variable if it knows no upstream for it. The program may not use that
    provider.
    """
    done = place.command(
        "proxy", "-q", *program(place, '\nprint(os.environ["OLLAMA_HOST"])'), OLLAMA_HOST="http://[::1"
    )
    assert (done.returncode, done.stdout) == (0, "http://[::1\n")


def test_an_empty_recording_is_reported(place: Place) -> None:
    done = place.command("proxy", *program(place, ""))
    assert (done.returncode, done.stderr.splitlines()) == (
        0,
        ["trace-recorder: nothing was recorded: no request to a model came through the proxy"],
    )


@pytest.mark.parametrize(
    "option",
    [
        *("vllm", "vllm=", "v llm=http://h", "run=http://h", "vllm=ftp://h", "vllm=http://h?x=1"),
        *("vllm=http://h:port", "vllm=http://[::1"),
    ],
)
def test_an_invalid_upstream_is_refused(place: Place, option: str) -> None:
    done = place.command("proxy", "--upstream", option, *program(place, ""))
    assert (done.returncode, "is not NAME=URL" in done.stderr or "is not the address of a server" in done.stderr) == (
        2,
        True,
    )


def test_a_command_that_does_not_exist_ends_as_in_a_shell(place: Place) -> None:
    done = place.command("proxy", "--", "no-such-program")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        127,
        "trace-recorder: proxy: command not found: no-such-program",
    )


def test_without_a_command_it_serves_until_it_is_stopped(place: Place, server: Server) -> None:
    """Without a command, the proxy prints its addresses, and survives a killed client, a new upstream and the first
    Ctrl-C.
    """
    command = [sys.executable, "-m", "trace_recorder", "proxy", "--upstream", f"mine={server.url}"]
    with subprocess.Popen(
        command, cwd=place.path, env=place.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as serving_proxy:
        assert serving_proxy.stdout is not None
        assert serving_proxy.stderr is not None
        printed = [serving_proxy.stdout.readline() for _ in range(8)]
        url = printed[0].split()[3].rstrip(",")
        response = httpx.post(f"{url}/mine/v1/chat/completions", json={"messages": []})
        serving_proxy.send_signal(signal.SIGINT)
        errors = serving_proxy.communicate(timeout=60)[1]
    assert (response.json(), serving_proxy.returncode) == (CHAT, 0)
    assert f"ANTHROPIC_BASE_URL={url}/anthropic\n" in printed
    assert errors.startswith("trace-recorder: recorded 1 run, 1 LLM call: ")


def test_a_signal_while_the_addresses_are_printed_ends_the_proxy(place: Place) -> None:
    """A caller may start a proxy, read its address, and end the proxy at once."""
    assert ended_while_printing(["proxy", "--quiet"], place.path, place.environment) == (0, "")


def test_delivered_answers_are_recorded_if_the_proxy_is_killed(place: Place, server: Server) -> None:
    """Answers are on disk if the proxy is killed right after the last byte of an answer or in the middle of a
    stream.
    """
    server.answers[:] = [plain(CHAT), stream(*CHAT_STREAM)]
    command = [sys.executable, "-m", "trace_recorder", "proxy"]
    with subprocess.Popen(
        command, cwd=place.path, env=place.environment, stdout=subprocess.PIPE, text=True
    ) as serving_proxy:
        assert serving_proxy.stdout is not None
        url = serving_proxy.stdout.readline().split()[3].rstrip(",") + "/openai/v1/chat/completions"
        headers = {"session-id": "one"}
        answer = httpx.post(url, json={"messages": []}, headers=headers).json()
        with httpx.stream("POST", url, json={"messages": [], "stream": True}, headers=headers) as response:
            streamed = b"".join(response.iter_raw())
        serving_proxy.kill()
    (path,) = (place.path / "trajectories").glob("*.jsonl")
    first, second = load(path).llm_interactions
    assert (first.raw_response, second.raw_stream) == (answer, streamed.decode())


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_is_recorded(place: Place) -> None:
    script = 'curl -sS "$OPENAI_BASE_URL/chat/completions" -d \'{"messages": []}\''
    done = place.command("proxy", "--directory", "runs", "--", "sh", "-c", script)
    (path,) = (place.path / "runs").glob("*.json")
    assert (json.loads(done.stdout), [call.raw_response for call in load(path).llm_interactions]) == (CHAT, [CHAT])


def test_codex_is_directed_by_an_option(place: Place) -> None:
    """The proxy's address is passed to Codex as an option, because Codex reads no address from the environment."""
    done = place.command("proxy", "--quiet", "--", arguments_of(place, "codex"), "exec", "hello")
    option, address, *rest = json.loads(done.stdout)["arguments"]
    assert (option, rest, done.stderr) == ("-c", ["exec", "hello"], "")
    assert re.fullmatch(r'openai_base_url="http://127\.0\.0\.1:\d+/codex"', address)


def test_a_login_that_is_not_recorded_is_reported_before_the_program_starts(place: Place) -> None:
    """The program starts with its own environment, so its requests go where they go without the proxy."""
    command = [arguments_of(place, "claude"), "-p", "hello"]
    done = place.command("proxy", "--", *command, CLAUDE_CODE_USE_BEDROCK="1", ANTHROPIC_BASE_URL="http://gw.example")
    first, last = done.stderr.splitlines()
    assert json.loads(done.stdout) == {"arguments": ["-p", "hello"], "address": "http://gw.example"}
    why = "the requests for Amazon Bedrock are signed for the address that they are sent to"
    assert (first, last) == (
        f"trace-recorder: Claude Code will not be recorded: {why}",
        "trace-recorder: nothing was recorded: no request to a model came through the proxy",
    )


def arguments_of(place: Place, name: str) -> Path:
    """Write a program of this name that prints its arguments and an address, and return its path."""
    path = place.path / name
    code = 'json.dumps({"arguments": sys.argv[1:], "address": os.environ.get("ANTHROPIC_BASE_URL")})'
    path.write_text(f"#!{sys.executable}\nimport json, os, sys\nprint({code})\n")
    path.chmod(0o755)
    return path
