"""The traces of services, fetched by the services' own clients: each once, in complete files, after any
interruption.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.formats.services.stand_ins import LangfuseServer, LangSmithServer, PhoenixServer, StandIn, serving
from trace_recorder import load
from trace_recorder.errors import MissingExtraError
from trace_recorder.formats.imported_runs import Imported, import_traces
from trace_recorder.formats.langfuse.service import Langfuse
from trace_recorder.formats.langsmith.service import LangSmith
from trace_recorder.formats.mlflow.service import MLflow
from trace_recorder.formats.phoenix.service import Phoenix
from trace_recorder.formats.trace_services import FetchError, TraceService, client_module


@contextmanager
def _langfuse(address: str, project: str) -> Iterator[TraceService]:
    """Close the connections: the client has no method that closes them."""
    api, httpx = pytest.importorskip("langfuse.api"), pytest.importorskip("httpx")
    keys = {"username": "pk-lf-public", "password": "sk-lf-secret-key"}
    with httpx.Client() as http:
        yield Langfuse(project, api.LangfuseAPI(base_url=address, httpx_client=http, **keys))


@contextmanager
def _langsmith(address: str, project: str) -> Iterator[TraceService]:
    langsmith = pytest.importorskip("langsmith")
    retries = {"total": 0}
    settings = {"auto_batch_tracing": False, "retry_config": _retry(**retries)}
    with closing(langsmith.Client(api_url=address, api_key="lsv2_secret-key", **settings)) as client:
        yield LangSmith(project, client)


def _retry(**settings: int) -> object:
    return pytest.importorskip("urllib3.util").Retry(**settings)


@contextmanager
def _phoenix(address: str, project: str) -> Iterator[TraceService]:
    client = pytest.importorskip("phoenix.client").Client(base_url=address, api_key="secret-key")
    yield Phoenix(project, client)


@dataclass(frozen=True)
class Kind:
    """A kind of service: its stand-in, and the constructor of its real client."""

    server: Callable[[int], StandIn]
    service: Callable[[str, str], AbstractContextManager[TraceService]]

    @contextmanager
    def with_traces(self, count: int, project: str = "demo") -> Iterator[tuple[StandIn, TraceService]]:
        """Serve a project with this many traces."""
        kept = self.server(count)
        with serving(kept) as address, self.service(address, project) as service:
            yield kept, service


KINDS = {
    "langfuse": Kind(LangfuseServer, _langfuse),
    "langsmith": Kind(LangSmithServer, _langsmith),
    "langsmith before 0.16": Kind(lambda count: LangSmithServer(count, "0.12.3"), _langsmith),
    "phoenix": Kind(PhoenixServer, _phoenix),
}
each_service = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def _done(runs: Iterator[Imported]) -> list[str]:
    return [run.done for run in runs]


@each_service
def test_a_project_is_imported_page_by_page_and_not_fetched_again(kind: Kind, tmp_path: Path) -> None:
    with kind.with_traces(5) as (kept, service):
        assert _done(import_traces(service, tmp_path)) == ["written"] * 5
        assert set(kept.fetched) == set(kept.ids)
        kept.fetched.clear()
        assert _done(import_traces(service, tmp_path)) == ["unchanged"] * 5
        assert kept.fetched == []
        new = kept.add()
        assert sorted(_done(import_traces(service, tmp_path))) == ["unchanged"] * 5 + ["written"]
        assert set(kept.fetched) == {new}
    run = load(tmp_path / f"{service.format}-{kept.ids[0]}.json")
    assert (len(run.llm_interactions), run.metadata["imported_from"]["file"]) == (1, f"{service.format}:demo")
    assert run.metrics["tool_calls"] == 1


@each_service
def test_an_import_continues_after_the_service_was_away(kind: Kind, tmp_path: Path) -> None:
    """A broken connection ends the import with a sentence. The next import fetches the missing traces."""
    with kind.with_traces(4) as (kept, service):
        broken = kept.ids[2]
        kept.fails[broken] = 0
        runs, done = import_traces(service, tmp_path), []
        with pytest.raises(FetchError, match=r"did not answer.*Run the command again"):
            done += _done(runs)
        here = {path.stem.partition("-")[2] for path in tmp_path.glob("*.json")}
        assert here
        assert broken not in here
        kept.fails.clear()
        kept.fetched.clear()
        assert sorted(_done(import_traces(service, tmp_path))) == sorted(
            ["unchanged"] * len(here) + ["written"] * (4 - len(here))
        )
        assert here.isdisjoint(kept.fetched)


@each_service
def test_a_trace_that_the_service_cannot_give_does_not_stop_the_others(kind: Kind, tmp_path: Path) -> None:
    with kind.with_traces(3) as (kept, service):
        kept.fails[kept.ids[1]] = 404
        done = [*import_traces(service, tmp_path)]
    assert [one.done for one in done] == ["written", "unreadable", "written"]
    assert f"trace {kept.ids[1]}: it cannot be read (HTTP status 404)" in done[1].why


@each_service
def test_several_consecutive_failures_end_the_import(kind: Kind, tmp_path: Path) -> None:
    with kind.with_traces(6) as (kept, service):
        kept.fails.update(dict.fromkeys(kept.ids[1:5], 400))
        with pytest.raises(FetchError, match="3 traces in a row"):
            _done(import_traces(service, tmp_path))
        assert kept.ids[5] not in kept.fetched


@each_service
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "refused the key (HTTP status 401). Its key and its address are read from "),
        (403, "gives no access to this (HTTP status 403). Its key and its address are read from "),
        (429, "asks for fewer requests (HTTP status 429). The imported runs stay"),
    ],
)
def test_a_refusal_is_one_sentence_without_a_key(kind: Kind, tmp_path: Path, status: int, message: str) -> None:
    with kind.with_traces(1) as (kept, service):
        kept.refuses = status
        with pytest.raises(FetchError) as raised:
            _done(import_traces(service, tmp_path))
    assert str(raised.value).startswith(f"{service.address}: the ")
    assert message in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("status", "message"),
    [(401, "refused the key"), (403, "gives no access"), (429, "asks for fewer requests"), (0, "did not answer")],
)
def test_a_refusal_of_mlflow_is_one_sentence(
    status: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real server in `test_real_servers.py` cannot be made to refuse a request, so this test uses a stand-in."""
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret-key")
    with serving(_Refusing(status)) as address:
        service = MLflow("demo", mlflow.MlflowClient(tracking_uri=address))
        with pytest.raises(FetchError, match=f"^mlflow:demo: the .*{message}") as raised:
            _done(import_traces(service, tmp_path))
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


class _Refusing(StandIn):
    def __init__(self, status: int) -> None:
        super().__init__(0)
        self._status = status

    def answer(self, path: str, given: dict[str, object]) -> tuple[int, object]:
        return self._status, "Not for you."


@each_service
def test_a_project_that_does_not_exist_is_named(kind: Kind, tmp_path: Path) -> None:
    with kind.with_traces(1, "demos") as (_, service), pytest.raises(FetchError, match=f"{service.format}:demos"):
        _done(import_traces(service, tmp_path))
    assert [*tmp_path.iterdir()] == []


@each_service
def test_a_missing_service_is_reported_in_one_sentence(kind: Kind, tmp_path: Path) -> None:
    with serving(kind.server(0)) as address:
        pass
    with kind.service(address, "demo") as service:
        with pytest.raises(FetchError, match=f"{service.address}: the service did not answer"):
            _done(import_traces(service, tmp_path))


def test_a_run_has_everything_that_langfuse_has_of_its_trace(tmp_path: Path) -> None:
    """The run has the first observation's name and session, the scores of both kinds, and metadata in full length."""
    with KINDS["langfuse"].with_traces(1) as (_, service):
        _done(import_traces(service, tmp_path))
    run = load(tmp_path / "langfuse-t0.json")
    assert (run.metadata["name"], run.metadata["sessionId"], run.metadata["tags"]) == ("weather", "s", ["a"])
    assert [(reward.name, reward.value, reward.explanation) for reward in run.rewards] == [("right", 0.5, "half")]
    assert run.annotations["tone"] == "kind"
    (one,) = run.llm_interactions
    assert (one.model, one.response.id) == ("gpt-4o", f"t0-{'x' * 300}")
    assert (one.response.usage.input_tokens, one.response.usage.cost) == (6, 0.5)
    assert "p" * 300 in (tmp_path / "langfuse-t0.jsonl").read_text()


def test_keys_of_another_project_of_langfuse_are_refused(tmp_path: Path) -> None:
    with (
        KINDS["langfuse"].with_traces(1, "other") as (_, service),
        pytest.raises(FetchError, match="belong to another project: demo"),
    ):
        _done(import_traces(service, tmp_path))


def test_an_unfinished_trace_is_fetched_until_it_has_ended(tmp_path: Path) -> None:
    with KINDS["langfuse"].with_traces(1) as (kept, service):
        assert isinstance(kept, LangfuseServer)
        (root,) = (observation for observation in kept.observations if observation["isRootObservation"])
        ended, root["endTime"] = root["endTime"], None
        seen: dict[str, str] = {}
        assert _done(import_traces(service, tmp_path, seen)) == ["written"]
        assert _done(import_traces(service, tmp_path, seen)) == ["unchanged"]
        root["endTime"] = ended
        assert _done(import_traces(service, tmp_path, seen)) == ["replaced"]
        assert _done(import_traces(service, tmp_path, seen)) == []


def test_a_changed_trace_is_replaced(tmp_path: Path) -> None:
    with KINDS["phoenix"].with_traces(1) as (kept, service):
        assert isinstance(kept, PhoenixServer)
        assert _done(import_traces(service, tmp_path)) == ["written"]
        kept.spans[0]["end_time"] = "2025-10-09T09:00:00+00:00"
        kept.spans[0]["attributes"]["output.value"] = "19"
        assert _done(import_traces(service, tmp_path)) == ["replaced"]
    assert load(tmp_path / "phoenix-t0.json").final_result == "19"


def test_new_feedback_in_langsmith_makes_a_new_version(tmp_path: Path) -> None:
    with KINDS["langsmith"].with_traces(1) as (kept, service):
        assert isinstance(kept, LangSmithServer)
        assert _done(import_traces(service, tmp_path)) == ["written"]
        kept.runs[kept.ids[0]][0]["feedback_stats"] = {"right": {"n": 1, "avg": 0.5}}
        assert _done(import_traces(service, tmp_path)) == ["replaced"]
    (run,) = (load(path) for path in tmp_path.glob("*.json"))
    assert run.annotations["right"]["avg"] == 0.5


def test_both_interfaces_of_langsmith_give_the_same_run(tmp_path: Path) -> None:
    told = []
    for name in ("langsmith", "langsmith before 0.16"):
        with KINDS[name].with_traces(1) as (kept, service):
            _done(import_traces(service, tmp_path / name))
        run = load(tmp_path / name / f"langsmith-{kept.ids[0]}.json")
        (interaction,) = run.llm_interactions
        calls = [
            [result.name, result.success, result.error, result.result]
            for step in run.agent_steps
            for result in step.tool_results
        ]
        told.append(
            json.dumps([interaction.response.to_document(), len(interaction.input_messages), run.final_result, calls])
        )
    assert told[0] == told[1]


def test_an_import_has_langsmith_trace_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that traces has a thread that asks the service by itself, also without a key."""
    pytest.importorskip("langsmith")
    monkeypatch.setenv("LANGSMITH_API_KEY", "lsv2_secret-key")
    with serving(LangSmithServer(1)) as address:
        monkeypatch.setenv("LANGSMITH_ENDPOINT", address)
        service = LangSmith("demo")
        assert _done(import_traces(service, tmp_path)) == ["written"]
        with closing(service.client):
            assert service.client.tracing_queue is None


def test_a_missing_document_is_written_by_the_next_import(tmp_path: Path) -> None:
    """An import that is killed between the two files of a run leaves a journal without a document."""
    with KINDS["phoenix"].with_traces(2) as (_, service):
        _done(import_traces(service, tmp_path))
        before = (tmp_path / "phoenix-t0.json").read_bytes()
        (tmp_path / "phoenix-t0.json").unlink()
        assert _done(import_traces(service, tmp_path)) == ["written", "unchanged"]
    assert (tmp_path / "phoenix-t0.json").read_bytes() == before


def test_a_client_that_is_not_installed_is_named() -> None:
    with pytest.raises(MissingExtraError, match=r"trace-recorder\[langsmith\]"):
        client_module("no_such_client", "langsmith")
