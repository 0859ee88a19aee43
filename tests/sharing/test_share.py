"""Runs in one file: written, read back in every way, equal or without texts, and never half written."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from tests import histories
from tests.attach.test_content import PLANTED, WORDS, _work
from tests.cli.invoking import invoke, recorded
from tests.counting import watch
from tests.faults.killed_calls import Killer
from tests.storage.content_tiers.texts import figures_of, found_in
from trace_recorder import TrajectoryRecorder, load, load_all
from trace_recorder.errors import SharingError, TrajectoryFormatError
from trace_recorder.reading.validate import validate
from trace_recorder.sharing.contents import shared_contents
from trace_recorder.sharing.runs import RunToShare, runs_to_share
from trace_recorder.sharing.shared_file import MOST_RUNS_IN_A_PAGE, SharePlan, write_shared_file
from trace_recorder.sharing.textless_runs import TextlessRuns
from trace_recorder.storage.content_tiers.tiers import Content
from trace_recorder.values.message_equality import json_key

FORMS = ("zip", "html")


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Return two runs with the planted text in every place: one that has ended, and one that is imported."""
    directory = tmp_path / "runs"
    with TrajectoryRecorder(directory / "worked at Acme.json", task=PLANTED, metadata={PLANTED: PLANTED}) as recorder:
        for _ in _work(recorder):
            continue
        recorder.finalize(success=True, final_result=PLANTED)
    return [directory / "worked at Acme.json", recorded(directory / "second.json", PLANTED)]


def _state(paths: list[Path]) -> dict[Path, bytes]:
    return {file: file.read_bytes() for path in paths for file in path.parent.iterdir()}


@pytest.mark.parametrize("form", FORMS)
def test_a_full_file_has_the_same_runs(form: str, runs: list[Path], tmp_path: Path) -> None:
    """Read by `load_all`, and imported: the documents and journals are equal. The runs are not changed."""
    before, target = _state(runs), tmp_path / f"shared.{form}"
    result = invoke("share", *runs, "-o", target, "--content", "full", "--yes")
    assert (result.exit_code, _state(runs)) == (0, before)

    assert [run.to_document() for run in load_all(target)] == [load(path).to_document() for path in runs]
    imported = tmp_path / "imported"
    assert invoke("import", target, "-o", imported).exit_code == 0
    names = ["worked-at-Acme.jsonl", "second.jsonl"]
    assert [(imported / name).read_bytes() for name in names] == [
        path.with_suffix(".jsonl").read_bytes() for path in runs
    ]
    assert "2 unchanged" in invoke("import", target, "-o", imported).output
    assert [validate(imported / name).findings for name in names] == [(), ()]


@pytest.mark.parametrize("form", FORMS)
def test_a_file_without_texts_has_the_same_figures(form: str, runs: list[Path], tmp_path: Path) -> None:
    """Nothing of the runs is in the file, neither packed nor encoded, nor in names. The runs are not changed."""
    before, target = _state(runs), tmp_path / f"shared.{form}"
    assert invoke("share", *runs, "-o", target, "--content", "none", "--yes").exit_code == 0
    assert _state(runs) == before
    assert found_in([PLANTED, *WORDS[:2], "and more text", "Acme", str(tmp_path)], [target]) == []
    assert [figures_of(run) for run in load_all(target)] == [figures_of(load(path)) for path in runs]


@pytest.mark.parametrize("form", FORMS)
def test_one_run_is_loaded_and_viewed(form: str, runs: list[Path], tmp_path: Path) -> None:
    """Commands take the file as they take a run. `load` refuses a file with several."""
    single, several = tmp_path / f"one.{form}", tmp_path / f"two.{form}"
    invoke("share", runs[1], "-o", single, "--content", "full", "--yes")
    invoke("share", *runs, "-o", several, "--content", "full", "--yes")
    assert load(single).to_document() == load(runs[1]).to_document()
    assert PLANTED in invoke("show", single).output
    assert invoke("view", single, "-o", tmp_path / "view.html").exit_code == 0
    with pytest.raises(TrajectoryFormatError, match="has several runs"):
        load(several)


def test_a_run_that_is_being_recorded_is_shared_as_it_is(tmp_path: Path) -> None:
    """The copy ends where the journal ended."""
    with TrajectoryRecorder(tmp_path / "run.json", task="still going") as recorder:
        recorder.annotate("a", 1)
        assert (
            invoke("share", tmp_path / "run.json", "-o", tmp_path / "a.zip", "--content", "none", "--yes").exit_code
            == 0
        )
    assert load(tmp_path / "a.zip").trajectory_id == load(tmp_path / "run.json").trajectory_id


def test_files_of_other_tools_and_shared_files_are_shared(runs: list[Path], tmp_path: Path) -> None:
    """A shared file can be shared again with less. A document without a journal is shared too."""
    target, again = tmp_path / "a.zip", tmp_path / "b.zip"
    invoke("share", *runs, "-o", target, "--content", "full", "--yes")
    runs[1].with_suffix(".jsonl").unlink()
    assert invoke("share", target, runs[1], "-o", again, "--content", "none", "--yes").exit_code == 0
    assert len([*load_all(again)]) == 3
    assert found_in([PLANTED], [again]) == []


def test_masked_hides_names_that_the_runs_state(tmp_path: Path) -> None:
    """The host of the first record, and users of home directories, wherever they are."""
    path = tmp_path / "runs" / "run.json"
    with TrajectoryRecorder(path, task="Fix /home/wanda/a.py") as recorder:
        recorder.annotate("note", "wanda asked wanda@example.com at 10.9.8.7")
    target = tmp_path / "a.zip"
    summary = invoke("share", path, "-o", target, "--content", "masked", "--yes").output
    assert "1 email-address" in summary
    assert "wanda" in summary
    assert found_in(["wanda", "wanda@example.com", "10.9.8.7"], [target]) == []
    with zipfile.ZipFile(target) as archive:
        assert b'"content":"masked"' in archive.read("run.jsonl")
        assert b'"host"' not in archive.read("run.jsonl")


def test_nothing_is_written_without_a_yes(runs: list[Path], tmp_path: Path) -> None:
    """Without a terminal the summary is printed, and the command says what to add. Other mistakes are sentences."""
    target = tmp_path / "a.zip"
    result = invoke("share", *runs, "-o", target, "--content", "none")
    assert (result.exit_code, target.exists()) == (1, False)
    assert "8 calls" in result.output
    assert "nothing was written: --yes writes" in result.output
    reviewed = invoke("share", *runs, "-o", target, "--content", "none", "--review")
    assert "--review asks questions, and the input is not a terminal" in reviewed.output
    assert invoke("share", *runs, "-o", tmp_path / "a.txt", "--content", "none").exit_code == 2
    assert invoke("share", *runs, "-o", target, "--content", "some").exit_code == 2
    assert "no run matches" in invoke("share", *runs, "-o", target, "--content", "none", "--where", "is:failed").output
    target.write_text("mine")
    assert "exists: give another -o" in invoke("share", *runs, "-o", target, "--content", "none", "--yes").output
    assert target.read_text() == "mine"
    assert invoke("share", *runs, "-o", target, "--content", "none", "--yes", "--force").exit_code == 0
    assert len([*load_all(target)]) == 2
    assert oct(target.stat().st_mode & 0o777) == "0o600"


def test_a_directory_is_not_a_file(runs: list[Path], tmp_path: Path) -> None:
    """It is said before anything is read, and --force is not offered."""
    (tmp_path / "a.zip").mkdir()
    for more in ([], ["--force"]):
        result = invoke("share", *runs, "-o", tmp_path / "a.zip", "--content", "none", "--yes", *more)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "is a directory: give the name of a file as -o" in result.output


def test_each_message_is_read_once_for_the_summary(tmp_path: Path) -> None:
    """Images are counted in the messages of a run, and not in each prompt that has them."""
    histories.record(tmp_path / "run.json", histories.clock, 20)
    names: list[str] = []
    runs = [*runs_to_share([tmp_path / "run.json"], tmp_path)]

    watch(
        lambda: shared_contents(runs, "full", TextlessRuns(tmp_path)), lambda frame: names.append(frame.f_code.co_name)
    )

    prompts = [call.input_messages or () for call in load(tmp_path / "run.json").llm_interactions]
    assert sum(map(len, prompts)) > 10 * len(prompts)
    assert names.count("parts_of") == len({json_key(message) for prompt in prompts for message in prompt})


def test_a_run_without_texts_is_made_once(tmp_path: Path) -> None:
    """The summary makes it, and the file has it. If a person hides an identifier, it is made again without that."""
    histories.record(tmp_path / "run.json", histories.clock, 3)
    runs = [*runs_to_share([tmp_path / "run.json"], tmp_path)]
    textless = TextlessRuns(tmp_path)
    shared_contents(runs, "none", textless)
    made: list[tuple[int, bool]] = []
    for number, removed in enumerate(((), ("m",))):
        target, names = tmp_path / f"{number}.zip", list[str]()
        plan = SharePlan("none", removed=frozenset(removed))
        watch(
            lambda target=target, plan=plan: write_shared_file(runs, target, plan, textless=textless),
            lambda frame, names=names: names.append(frame.f_code.co_name),
        )
        made.append((names.count("saved_data"), load(target).llm_interactions[0].model == "m"))
    assert made[0] == (0, True)
    assert (made[1][0] > 0, made[1][1]) == (True, False)


def test_a_run_that_changes_after_the_summary_is_not_shared(tmp_path: Path) -> None:
    """The file would have another content than the summary says."""
    path = recorded(tmp_path / "run.json", "hello")
    runs, textless = [*runs_to_share([path], tmp_path)], TextlessRuns(tmp_path)
    shared_contents(runs, "none", textless)
    with runs[0].journal.open("ab") as journal:
        journal.write(b"more")

    with pytest.raises(SharingError, match="was written to while it was read"):
        write_shared_file(runs, tmp_path / "a.zip", SharePlan("none"), textless=textless)
    assert not (tmp_path / "a.zip").exists()


def test_a_run_for_which_there_is_no_room_is_made_again(tmp_path: Path) -> None:
    """The temporary directory has a bounded size. Equal texts of all runs have equal digests."""
    paths = [recorded(tmp_path / f"{number}.json", "hello") for number in range(2)]
    runs = [*runs_to_share(paths, tmp_path)]
    textless = TextlessRuns(tmp_path, runs[0].journal.stat().st_size)
    shared_contents(runs, "none", textless)
    assert [*textless.made] == [runs[0].journal]

    write_shared_file(runs, tmp_path / "a.zip", SharePlan("none"), textless=textless)
    first, second = (run.llm_interactions[0].response.content for run in load_all(tmp_path / "a.zip"))
    assert first == second


def test_a_run_that_is_named_twice_does_not_change_the_others(tmp_path: Path) -> None:
    """Each run without texts has a file of its own."""
    paths = [recorded(tmp_path / f"{number}.json", f"hello {number}") for number in range(2)]
    first, second = runs_to_share(paths, tmp_path)
    runs, textless = [first, first, second], TextlessRuns(tmp_path)
    shared_contents(runs, "none", textless)

    write_shared_file(runs, tmp_path / "a.zip", SharePlan("none"), textless=textless)
    ids = [load(paths[number]).trajectory_id for number in (0, 0, 1)]
    assert [run.trajectory_id for run in load_all(tmp_path / "a.zip")] == ids


def test_a_page_has_few_runs(tmp_path: Path) -> None:
    """A zip has any number."""
    runs = [RunToShare("run", tmp_path / "none.jsonl")] * (MOST_RUNS_IN_A_PAGE + 1)
    with pytest.raises(SharingError, match=r"write a \.zip"):
        write_shared_file(runs, tmp_path / "a.html", SharePlan("none"))


def test_the_review_masks_and_keeps_what_a_person_says(tmp_path: Path) -> None:
    """In a real terminal: one secret is kept, a name is masked in every spelling, and a stop writes nothing."""
    key = "sk-proj-" + "a1B2c3D4e5" * 5
    path = tmp_path / "runs" / "run.json"
    with TrajectoryRecorder(path, redact=None, task=f"use {key}") as recorder:
        recorder.annotate("mail", "ask carla@example.com")
    target = tmp_path / "a.zip"
    command: list[object] = ["share", path, "-o", target, "--content", "full", "--review"]
    output = _typed(command, "keep\nwhat\nmask\n" + "\n" * 20)
    assert "keep, mask or stop" in output
    assert "Please say keep, mask or stop" in output
    assert not target.exists()
    output = _typed([*command, "--yes"], "keep\nmask\n" + "\n" * 20)
    assert found_in([key], [target]) == [key]
    assert found_in(["carla@example.com"], [target]) == []
    target.unlink()
    assert "stopped: nothing was written" in _typed([*command, "--yes"], "stop\n")
    assert not target.exists()


def test_the_review_of_a_run_without_texts_asks_for_all_that_stays(tmp_path: Path) -> None:
    """Tools that were offered, models that answered, and each other word. What is masked is in no part of the file."""
    path, target = recorded_by_hand(tmp_path / "runs" / "run.json"), tmp_path / "a.zip"
    words = ["acme_tool", "acme-model", "acme-answered", "acme-provider", "acme-reward", "AcmeError"]
    command: list[object] = ["share", path, "-o", target, "--content", "none", "--yes"]
    output = invoke(*command).output
    assert [word for word in words if word not in output] == []
    assert found_in(words, [target]) == sorted(words)
    output = _typed([*command, "--force", "--review"], "mask\n" * 30)
    assert [word for word in words if word not in output] == []
    assert found_in(words, [target]) == []
    assert len(load(target).llm_interactions) == 1


class AcmeError(Exception):
    """An error of an agent."""


def recorded_by_hand(path: Path) -> Path:
    """Record a run in which each identifier is a word that says who recorded it."""
    with suppress(AcmeError), TrajectoryRecorder(path) as recorder:
        tools = [{"name": "acme_tool", "input_schema": {}}]
        answer = {"content": "Hello", "model": "acme-answered"}
        recorder.record_llm_interaction(
            [{"role": "user", "content": "Hi"}], answer, "acme-provider", "acme-model", tools
        )
        recorder.reward("acme-reward", 1.0)
        raise AcmeError
    return path


def _typed(command: list[object], keys: str) -> str:
    """Return what a command prints if these keys are typed into its terminal."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, keys.encode())
        program = [sys.executable, "-m", "trace_recorder", *map(str, command)]
        done = subprocess.run(program, stdin=theirs, capture_output=True, check=False)
    finally:
        os.close(ours)
        os.close(theirs)
    return (done.stdout + done.stderr).decode()


# ── kills ────────────────────────────────────────────────────────────────────────────────────────────────────────────

STEP = int(os.environ.get("TRACE_RECORDER_SHARE_STEP", "5"))
"""Every so many system calls, one is tried."""


def share_all(directory: Path) -> None:
    """Share the runs of a directory as a zip and as a page, over an earlier zip."""
    paths = sorted(directory.glob("runs/*.json"))
    made = directory / "made"
    made.mkdir(exist_ok=True)
    contents: tuple[tuple[str, Content], ...] = (("a.zip", "none"), ("b.html", "masked"))
    for name, content in contents:
        write_shared_file([*runs_to_share(paths, made)], directory / name, SharePlan(content), replace=True)


def test_a_killed_share_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    """At each system call that changes files. The runs are as they were, and a second share completes."""
    for name in ("killed", "warm"):
        recorded(tmp_path / name / "runs" / "run.json", PLANTED)
    directory = tmp_path / "killed"
    before, call, whole = _state([directory / "runs" / "run.json"]), 1, 0
    with Killer(f"{__name__}:{share_all.__name__}", tmp_path / "warm", tmp_path / "killing.so") as killer:
        while killer.kill(directory, call):
            assert _state([directory / "runs" / "run.json"]) == before
            for shared in (directory / "a.zip", directory / "b.html"):
                if shared.exists():
                    whole += 1
                    assert len([*load_all(shared)]) == 1
            call += STEP
    assert [len([*load_all(directory / name)]) for name in ("a.zip", "b.html")] == [1, 1]
    assert whole
