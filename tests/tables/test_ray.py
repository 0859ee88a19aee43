"""Ray runs the work of commands on several nodes, with the results of a single machine.

`nox -s ray` runs these tests.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: nox -s ray")

from ray.cluster_utils import Cluster  # noqa: E402

from tests.catalog.many_runs import settle  # noqa: E402
from tests.cli.invoking import invoke, recorded  # noqa: E402
from tests.formats.files import PRODUCED  # noqa: E402
from tests.processes import ROOT  # noqa: E402
from trace_recorder import TrajectoryRecorder, load, read_runs, to_arrow  # noqa: E402
from trace_recorder.cli.engines import Engine  # noqa: E402
from trace_recorder.cli.export_files import Export, ExportTarget  # noqa: E402
from trace_recorder.cli.export_run import Conversion, ExportOutcome, table_part  # noqa: E402
from trace_recorder.tables.ray_data import in_order_by_ray  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start a cluster of two nodes with one core each on this machine."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Write forty runs, of which one is damaged and one is of another tool."""
    for number in range(40):
        recorded(tmp_path / "runs" / f"run{number:02}.json", f"answer {number}", success=number % 3 > 0)
    (tmp_path / "runs" / "damaged.json").write_text("{")
    (tmp_path / "runs" / "foreign.json").write_text('{"a": 1}')
    (tmp_path / "nodes").mkdir()
    (tmp_path / "rewards.py").write_text(
        "import time\nfrom pathlib import Path\nimport ray\n\ndef slow(trajectory):\n"
        f"    Path({str(tmp_path / 'nodes')!r}, ray.get_runtime_context().get_node_id()).touch()\n"
        "    time.sleep(0.3)\n    return len(trajectory.llm_interactions[0].response.content)\n"
    )
    return tmp_path / "runs"


def by_ray(cluster: Any, *arguments: object) -> Any:
    return invoke(*arguments, "--engine", "ray", "--address", cluster.address)


@contextmanager
def _killed_node(cluster: Any, nodes: Path) -> Iterator[tuple[str, list[bool]]]:
    """Add a node, and kill it when a task has put its name into `nodes`. Yield its id, and a list that then has whether
    that happened.
    """
    node = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    killed: list[bool] = []

    def kill() -> None:
        deadline = time.monotonic() + 120
        while not (nodes / node.node_id).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        killed.append((nodes / node.node_id).exists())
        cluster.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    yield node.node_id, killed
    killer.join()


@pytest.mark.parametrize("command", [("stats", "--json"), ("validate", "--json"), ("export", "-f", "openai")])
def test_the_output_equals_that_of_one_machine(cluster: Any, runs: Path, command: tuple[str, ...]) -> None:
    """Commands print the same output and reports with Ray, and have the same exit code."""
    here, there = invoke(*command, runs), by_ray(cluster, *command, runs)

    assert here.exit_code == 1
    assert (there.exit_code, there.stdout, there.stderr) == (here.exit_code, here.stdout, here.stderr)


def _tree(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*.*")}


@pytest.mark.parametrize("name", ["parquet", "trae", "traces"])
def test_the_files_equal_those_of_one_machine(cluster: Any, runs: Path, tmp_path: Path, name: str) -> None:
    """An export with Ray writes the same files, refuses existing ones, and with --resume keeps equal ones."""
    here = invoke("export", runs, "-f", name, "-o", tmp_path / "here")
    there = by_ray(cluster, "export", runs, "-f", name, "-o", tmp_path / "there")
    assert _tree(tmp_path / "there") == _tree(tmp_path / "here")
    assert there.stderr.replace("/there", "/here") == here.stderr

    refused = [
        invoke("export", runs, "-f", name, "-o", tmp_path / "here"),
        by_ray(cluster, "export", runs, "-f", name, "-o", tmp_path / "here"),
    ]
    assert (refused[0].exit_code, refused[0].stderr) == (refused[1].exit_code, refused[1].stderr)
    resumed = by_ray(cluster, "export", runs, "-f", name, "-o", tmp_path / "there", "--resume")
    assert "exists" not in resumed.stderr
    assert _tree(tmp_path / "there") == _tree(tmp_path / "here")


def _part_on_nodes(nodes: Path, killed: str, runs: Sequence[Path]) -> ExportOutcome:
    """Do what `export` does for a part. The node `killed` does not end it, and the others wait until it has begun."""
    node = ray.get_runtime_context().get_node_id()
    (nodes / node).touch()
    deadline = time.monotonic() + 120
    while (node == killed or not (nodes / killed).exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return table_part(Conversion("parquet"), runs)


def test_a_killed_node_changes_no_table(cluster: Any, runs: Path, tmp_path: Path) -> None:
    """If a node is killed while it makes parts, the files of the parts equal those of one machine."""
    parts = [[run] for run in sorted(runs.glob("run*.json"))]
    expected = [table_part(Conversion("parquet"), part) for part in parts]

    with _killed_node(cluster, tmp_path / "nodes") as (node, killed):
        work = partial(_part_on_nodes, tmp_path / "nodes", node)
        done = [*in_order_by_ray(work, parts, cluster.address, 1)]

    assert killed == [True]
    assert [outcome.rows for outcome in done] == [outcome.rows for outcome in expected]
    assert [outcome.counts for outcome in done] == [outcome.counts for outcome in expected]


def test_an_export_with_several_parts_is_continued_by_ray(cluster: Any, runs: Path, tmp_path: Path) -> None:
    """An export that one machine began, and Ray continues, has the files of one machine."""
    summaries = []
    for name, engine in (("here", Engine()), ("there", Engine("ray", cluster.address))):
        target = ExportTarget(directory=tmp_path / name)
        Export(Conversion("parquet"), target, part_runs=5).run(sorted(runs.glob("run0*.json")))
        resumed = Export(Conversion("parquet", resume=True), target, engine=engine, part_runs=5)
        resumed.run(sorted(runs.glob("*.json")))
        summaries.append([*resumed.summary("out")])

    assert summaries[0] == summaries[1]
    assert len([*(tmp_path / "here").rglob("*.parquet")]) == 6 * 9
    assert _tree(tmp_path / "there") == _tree(tmp_path / "here")


def test_an_index_by_ray_has_what_one_machine_writes(cluster: Any, runs: Path, tmp_path: Path) -> None:
    """An index that Ray reads the runs for has the same contents. A run without an end is read by this process."""
    running = TrajectoryRecorder(runs / "running.json")
    running.record_llm_interaction([{"role": "user", "content": "q"}], {"content": "a"}, "openai", "m")
    settle(runs)
    here = invoke("index", runs, "--json", "--index", tmp_path / "here.sqlite3")
    there = by_ray(cluster, "index", runs, "--json", "--index", tmp_path / "there.sqlite3")
    running.finalize()

    assert json.loads(here.stdout)["runs"] == 40
    assert (there.exit_code, there.stdout) == (here.exit_code, here.stdout)
    contents = []
    for name in ("here", "there"):
        with closing(sqlite3.connect(tmp_path / f"{name}.sqlite3")) as connection:
            contents.append([*connection.execute("SELECT * FROM files"), *connection.execute("SELECT * FROM kept")])
    assert contents[0] == contents[1]


def test_runs_of_other_tools_are_imported_as_on_one_machine(cluster: Any, tmp_path: Path) -> None:
    """Runs of other tools, even those with several files, are imported with the same files and messages, each once."""

    def imported(out: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in out.iterdir()}

    (tmp_path / "broken.jsonl").write_text('{"type": "user"')
    sources = (PRODUCED, tmp_path / "broken.jsonl")
    here = invoke("import", *sources, "-o", tmp_path / "here")
    there = by_ray(cluster, "import", *sources, "-o", tmp_path / "there")
    again = by_ray(cluster, "import", *sources, "-o", tmp_path / "there")

    assert len(imported(tmp_path / "here")) > 20
    assert imported(tmp_path / "there") == imported(tmp_path / "here")
    assert (there.exit_code, there.stderr) == (here.exit_code, here.stderr)
    assert there.stdout.replace("/there/", "/here/") == here.stdout
    assert (again.stdout, "0 runs written" in again.stderr) == ("", True)


def test_a_killed_node_changes_no_result(cluster: Any, runs: Path, tmp_path: Path) -> None:
    """After a node was killed, each run has its reward once, and a repeated `score` adds none."""
    with _killed_node(cluster, tmp_path / "nodes") as (_, killed):
        result = by_ray(cluster, "score", runs, "--reward", f"{tmp_path / 'rewards.py'}:slow")
    again = by_ray(cluster, "score", runs, "--reward", f"{tmp_path / 'rewards.py'}:slow")

    rewards = [
        [(reward.name, reward.value) for reward in load(path).rewards] for path in sorted(runs.glob("run*.json"))
    ]
    assert killed == [True]
    assert rewards == [[("slow", float(len(f"answer {number}")))] for number in range(40)]
    assert (result.exit_code, again.exit_code) == (1, 1)
    assert "scored 40 of 42 runs" in result.stdout
    assert "40 scored before" in again.stdout


def _die_once(path: Path) -> str:
    if not path.exists():
        path.touch()
        os._exit(1)
    return path.name


def test_a_task_is_repeated_if_its_process_dies(cluster: Any, tmp_path: Path) -> None:
    """A task whose process dies is repeated, and results come in the order of the tasks."""
    tasks = [tmp_path / f"{number}" for number in range(3)]

    assert [*in_order_by_ray(_die_once, tasks, cluster.address)] == ["0", "1", "2"]


def test_an_exception_of_a_task_is_raised(cluster: Any) -> None:
    """An exception in a task is raised as without Ray."""
    with pytest.raises(ValueError, match="invalid literal"):
        [*in_order_by_ray(int, ["1", "no"], cluster.address)]


def test_runs_are_a_dataset(cluster: Any, runs: Path) -> None:
    """Runs, also at a URL, are a lazy dataset with the rows of the tables."""
    (runs / "damaged.json").unlink()
    (runs / "foreign.json").unlink()
    expected = to_arrow([load(path) for path in sorted(runs.glob("*.json"))], of="runs")
    ray.init(address=cluster.address, ignore_reinit_error=True)

    assert read_runs(runs).take_all() == expected.to_pylist()
    remote = read_runs(f"file://{runs}").take_all()
    assert [row["trajectory_id"] for row in remote] == expected["trajectory_id"].to_pylist()
    assert read_runs([runs], of="messages").count() == 40


def test_an_unreadable_file_is_an_error_of_the_dataset(cluster: Any, runs: Path) -> None:
    """An unreadable file is an error of the dataset, or with an option is left out."""
    assert read_runs(runs, strict=False).count() == 40
    with pytest.raises(Exception, match="damaged"):
        read_runs(runs).count()
