"""A run is sent while it goes on, and no behaviour of the endpoint reaches the agent."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from tests.cli.invoking import invoke
from tests.exporters.sink import Sink, attributes, sink
from tests.formats.sdk_conversations import spoken
from tests.provider import free_port, plain, serving
from tests.rerun.runs import ask, client
from tests.waiting import wait_until
from trace_recorder import TrajectoryRecorder, fork, load, otlp
from trace_recorder.attach.exporting import UNDELIVERED
from trace_recorder.exporters.http_session import MAX_ANSWER_BYTES, session
from trace_recorder.recording.amend import append_annotation, append_rewards

CALL = {"call_id": "c1", "name": "count", "arguments": {"path": "a"}}
USAGE = {"input_tokens": 12, "output_tokens": 3}
SPANS = ["chat m", "chat m", "execute_tool count", "invoke_agent"]


def record(path: Path, *exporters: object) -> None:
    """Record two calls and a tool."""
    recorder = TrajectoryRecorder(path, task="count", provider="openai", model="m", exporters=exporters)  # type: ignore[arg-type]
    recorder.start()
    asked = [{"role": "user", "content": "How many?"}]
    recorder.record_llm_interaction(asked, {"content": None, "tool_calls": [CALL], "usage": USAGE}, "openai", "m")
    with recorder.tool_call("count", {"path": "a"}, "c1") as tool:
        tool.result = 3
    answered = [*asked, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "call_id": "c1", "content": "3"}]
    recorder.record_llm_interaction(answered, {"content": "Three.", "usage": USAGE}, "openai", "m")
    recorder.finalize(success=True, final_result="3")


def wait_for(server: Sink, count: int) -> None:
    wait_until(lambda: len(server.spans()) >= count)


def test_every_span_arrives_by_the_end_of_the_run(tmp_path: Path) -> None:
    """At the end of the run all spans have arrived, each once and nested, with the exchanged contents."""
    with sink() as server:
        record(tmp_path / "run.json", otlp(server.url, flush_seconds=20))

        assert server.names() == SPANS
        assert {path for path, _, _ in server.requests} == {"/v1/traces"}
        spans = {span.name: span for span in server.spans()}
        run = load(tmp_path / "run.json")
        root = spans["invoke_agent"]
        assert root.trace_id.hex() == run.trajectory_id
        assert {span.parent_span_id for span in spans.values() if span is not root} == {root.span_id}
        chats = sorted(
            (span for span in server.spans() if span.name == "chat m"), key=lambda one: one.start_time_unix_nano
        )
        said = attributes(chats[1])
        assert json.loads(said["gen_ai.output.messages"])[0]["parts"] == [{"type": "text", "content": "Three."}]
        assert [one["role"] for one in json.loads(said["gen_ai.input.messages"])] == ["user", "assistant", "tool"]
        assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (12, 3)
        assert attributes(spans["execute_tool count"])["gen_ai.tool.call.result"] == "3"


def test_spans_are_sent_during_the_run(tmp_path: Path) -> None:
    """The span of a call arrives soon after the response, long before the run's end."""
    with sink() as server:
        recorder = TrajectoryRecorder(tmp_path / "run.json", exporters=[otlp(server.url, flush_seconds=20)])
        with recorder:
            recorder.record_llm_interaction([{"role": "user", "content": "q"}], {"content": "a"}, "openai", "m")
            wait_for(server, 1)

            assert server.names() == ["chat m"]
        assert server.names() == ["chat m", "invoke_agent"]


def test_a_missing_endpoint_costs_the_agent_nothing_and_loses_nothing(tmp_path: Path) -> None:
    """The run says which spans did not arrive. `export --resume` sends them when the endpoint is back."""
    port, path = free_port(), tmp_path / "run.json"

    record(path, otlp(f"http://127.0.0.1:{port}", flush_seconds=0.4))

    undelivered = load(path).annotations[UNDELIVERED]
    assert list(undelivered) == [f"http://127.0.0.1:{port}/v1/traces"]
    with sink(port) as server:
        result = invoke("export", path, "--format", "otlp", "--endpoint", server.url, "--resume")
        assert (result.exit_code, server.names()) == (0, SPANS)
        again = invoke("export", path, "--format", "otlp", "--endpoint", server.url, "--resume")
        assert (again.exit_code, server.names()) == (0, SPANS)


@pytest.mark.parametrize("status", [200, 503, 429, 400])
def test_a_slow_or_full_endpoint_costs_the_agent_nothing(tmp_path: Path, status: int) -> None:
    """The end of the run waits no longer than its limit. Missing spans are sent later.

    The endpoint answers only after the end of the run, or refuses all requests, which are repeated for a minute.
    """
    path = tmp_path / "run.json"
    with sink() as server:
        server.status = status
        if status == 200:
            server.may_answer.clear()
        began = time.monotonic()
        record(path, otlp(server.url, timeout_seconds=60, flush_seconds=0.4))
        assert time.monotonic() - began < 30

        server.status = 200
        server.may_answer.set()
        server.requests.clear()
        invoke("export", path, "--format", "otlp", "--endpoint", server.url, "--resume")
        assert {*SPANS} >= {*server.names()} >= ({"invoke_agent"} if status == 200 else {*SPANS})


def test_an_unreadable_run_prevents_no_other_from_being_sent(tmp_path: Path) -> None:
    """The unreadable run is named, and the exit code is that of a failure."""
    (tmp_path / "a.json").write_text("{")
    record(tmp_path / "run.json")
    with sink() as server:
        sent = invoke("export", tmp_path, "--format", "otlp", "--endpoint", server.url)

        assert (sent.exit_code, "a.json" in sent.stderr, server.names()) == (1, True, SPANS)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_a_delivery(tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture) -> None:
    """The redirect is reported and not followed, and the spans are sent later."""
    path = tmp_path / "run.json"
    record(path)
    with sink() as server, sink() as elsewhere:
        server.status, server.headers = status, {"Location": f"{elsewhere.url}/login"}
        refused = invoke("export", path, "--format", "otlp", "--endpoint", server.url)
        assert (refused.exit_code, elsewhere.requests) == (1, [])
        assert f"answered {status}, a redirect to {elsewhere.url}/login" in caplog.text

        server.status = 200
        again = invoke("export", path, "--format", "otlp", "--endpoint", server.url, "--resume")
        assert (again.exit_code, server.names()) == (0, SPANS)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity"])
def test_a_long_answer_is_not_read_completely(encoding: str) -> None:
    """The exporter reads neither many bytes, nor a few bytes that decompress to many."""
    pack = {"gzip": gzip.compress, "deflate": zlib.compress}.get(encoding, bytes)
    with sink() as server:
        server.headers, server.body = {"Content-Encoding": encoding}, pack(b"a" * 10_000_000)
        answer = session().post(server.url, data=b"")
        assert (answer.status_code, answer.content) == (200, b"a" * MAX_ANSWER_BYTES)


def test_a_restarted_endpoint_gets_every_span_once(tmp_path: Path) -> None:
    """Accepted spans are not sent again. Spans from the time without an endpoint are sent when it is back."""
    port, path = free_port(), tmp_path / "run.json"
    with sink(port) as first:
        recorder = TrajectoryRecorder(path, exporters=[otlp(first.url, flush_seconds=0.4)])
        recorder.start()
        recorder.record_llm_interaction([{"role": "user", "content": "q"}], {"content": "1"}, "openai", "m")
        wait_for(first, 1)
    recorder.record_llm_interaction([{"role": "user", "content": "q"}], {"content": "2"}, "openai", "m")
    recorder.finalize()

    with sink(port) as second:
        invoke("export", path, "--format", "otlp", "--endpoint", second.url, "--resume")

        assert (first.names(), second.names()) == (["chat m"], ["chat m", "invoke_agent"])
        assert {span.span_id for span in first.spans()}.isdisjoint(span.span_id for span in second.spans())


def test_later_rewards_and_annotations_are_sent_by_resume_once(tmp_path: Path) -> None:
    """Later rewards of the run and of a step, and later annotations, are separate spans within the span that they
    concern.
    """
    path = tmp_path / "run.json"
    with sink() as server:
        with TrajectoryRecorder(path, exporters=[otlp(server.url, flush_seconds=20)]) as recorder:
            with recorder.step():
                recorder.record_llm_interaction([{"role": "user", "content": "q"}], {"content": "a"}, "openai", "m")
            wait_for(server, 2)
            recorder.reward("late", 0.25, step_number=1)
            recorder.reward("in time", 1.0)
        names = ["chat m", "evaluate late", "invoke_agent", "step 1"]
        assert server.names() == names
        append_rewards(path, [{"name": "after", "value": 0.5}])
        append_annotation(path, "checked_by", "someone")
        resume = ("export", path, "--format", "otlp", "--endpoint", server.url, "--resume")
        assert [invoke(*resume).exit_code for _ in range(2)] == [0, 0]

        assert server.names() == sorted([*names, "annotate checked_by", "evaluate after"])
        spans = {span.name: span for span in server.spans()}
        assert spans["evaluate late"].parent_span_id == spans["step 1"].span_id
        assert spans["evaluate after"].parent_span_id == spans["invoke_agent"].span_id
        assert [event.name for event in spans["evaluate after"].events] == ["gen_ai.evaluation.result"]
        said = attributes(spans["evaluate after"])
        assert (said["gen_ai.evaluation.name"], said["gen_ai.evaluation.score.value"]) == ("after", 0.5)
        assert [event.name for event in spans["invoke_agent"].events] == ["gen_ai.evaluation.result"]


def test_the_application_s_span_is_the_parent(tmp_path: Path) -> None:
    """A run that begins within a span of the application belongs to its trace, also when the run is sent again."""
    tracer = TracerProvider().get_tracer("application")
    path = tmp_path / "run.json"
    with sink() as server:
        with tracer.start_as_current_span("request") as outer:
            record(path, otlp(server.url, flush_seconds=20))
        invoke("export", path, "--format", "otlp", "--endpoint", server.url)
        context = outer.get_span_context()

        assert {span.trace_id for span in server.spans()} == {context.trace_id.to_bytes(16)}
        roots = [span for span in server.spans() if span.name == "invoke_agent"]
        assert [span.parent_span_id for span in roots] == [context.span_id.to_bytes(8)] * 2
        assert len({span.span_id for span in server.spans()}) == len(SPANS)
    assert trace.get_current_span().get_span_context().is_valid is False


def test_contents_can_be_left_out(tmp_path: Path) -> None:
    """Without contents, only names, times and tokens are sent."""
    with sink() as server:
        record(tmp_path / "run.json", otlp(server.url, content=False, flush_seconds=20))

        sent = b"".join(body for _, _, body in server.requests)
        assert [text for text in (b"How many", b"Three", b"path") if text in sent] == []
        assert b"gen_ai.usage.input_tokens" in sent


def test_a_fork_marks_its_replayed_call(tmp_path: Path) -> None:
    """The mark is sent during the run, once, in place of the call's tokens."""
    path = tmp_path / "fork.json"
    with serving(*(plain(spoken(text)) for text in ("1", "2", "b"))) as provider, sink() as server:
        parent = TrajectoryRecorder(tmp_path / "parent.json")
        with parent:
            parent_client = parent.wrap(client(f"{provider.url}/v1"))
            first, second = (ask(parent_client, text) for text in ("one", "two"))
        recorder = TrajectoryRecorder(path, exporters=[otlp(server.url, flush_seconds=20)])
        with fork(tmp_path / "parent.json", at="llm_2", recorder=recorder) as branch:
            answers = [ask(branch.wrap(client(f"{provider.url}/v1")), text) for text in ("one", "two")]

        assert (first, second, answers) == ("1", "2", ["1", "b"])
        spans = sorted(server.spans(), key=lambda one: one.start_time_unix_nano)
        calls = [attributes(span) for span in spans if span.name == "chat m"]
        marks = [json.loads(call.get("trace_recorder.replayed_from", "null")) for call in calls]
        parent_id = load(tmp_path / "parent.json").trajectory_id
        taken = {"input_tokens": 10, "output_tokens": 5}
        assert marks == [{"trajectory_id": parent_id, "interaction_id": "llm_1", "usage": taken}, None]
        assert [call.get("gen_ai.usage.input_tokens") for call in calls] == [None, 10]
        sent = len(server.spans())
        assert invoke("export", path, "-f", "otlp", "--endpoint", server.url, "--resume").exit_code == 0
        assert len(server.spans()) == sent
