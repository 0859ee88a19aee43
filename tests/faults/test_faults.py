"""The system refuses operations for a while: the agent does not notice, the user is warned once, and everything
possible is written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from tests.faults import bedrock_calls
from tests.faults.answering import Provider, answer_to
from tests.faults.refusing import environment
from tests.faults.unlucky import FAULTS, LENGTH, LIBRARIES, ON_A_MOUNT, REFUSING, questions
from tests.processes import OPENAI_RECORDS, ROOT, in_forks
from trace_recorder import LLMInteraction, Trajectory, load
from trace_recorder.reading.validate import validate

NO_RECORD_LOST = {"write the document", "keep the journal where it was"}
"""The gaps that are allowed although every record is in the journal."""


@dataclass(frozen=True)
class Endured:
    """The results of an agent that had a fault: how it ended, its answers and warnings, and the place of its files."""

    fault: str
    returncode: int
    stderr: str
    answers: list[str]
    log: list[str]
    document: Path

    @property
    def trajectory(self) -> Trajectory:
        """Return the recorded trajectory."""
        return load(self.document)


def _needs_its_own_process(fault: str) -> bool:
    return fault in ON_A_MOUNT or fault in REFUSING


def _arguments(fault: str, phases: str, directory: Path, provider: Provider, library: str) -> list[str]:
    return [library, fault, phases, str(directory / "trajectories"), provider.address_for("unlucky")]


def _ended_alone(arguments: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    """Run an agent in a new process, on a mount or with a library that refuses system calls."""
    fault = arguments[1]
    apart = ["unshare", "--mount"] if fault in ON_A_MOUNT else []
    env = environment(directory) if fault in REFUSING else None
    command = [*apart, sys.executable, "-m", "tests.faults.unlucky", *arguments]
    try:
        ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)
    except FileNotFoundError as error:
        pytest.skip(f"{fault}: {error}")
    if apart and ended.returncode and "unshare" in ended.stderr:
        pytest.skip(f"{fault}: {ended.stderr}")
    return ended


def _ended_in_forks(
    cases: list[tuple[str, str]], place: Path, provider: Provider, library: str
) -> dict[tuple[str, str], subprocess.CompletedProcess[str]]:
    """Run the agents of these faults and phases, which need nothing around their process."""
    programs = {}
    for fault, phases in cases:
        directory = _directory(place, fault, phases)
        directory.mkdir(parents=True)
        code = (
            f"from tests.faults.unlucky import run; run(*{_arguments(fault, phases, directory, provider, library)!r})"
        )
        programs[f"{fault}, {phases}"] = (code, ROOT)
    imports = f"{OPENAI_RECORDS}\nimport tests.faults.unlucky"
    if library in bedrock_calls.LIBRARIES:
        imports += f"\nfrom tests.faults.bedrock_calls import warm_up\nwarm_up({library!r})"
    ended = in_forks(programs, imports, os.environ)
    return dict(zip(cases, ended.values(), strict=True))


def _directory(place: Path, fault: str, phases: str) -> Path:
    return place / f"{fault} {phases}".replace(" ", "-")  # LD_PRELOAD separates names by blanks


def _read(fault: str, directory: Path, ended: subprocess.CompletedProcess[str]) -> Endured:
    """Return what an agent had to endure. Skip the test if the fault cannot be produced."""
    told = json.loads(ended.stdout or '{"answers": [], "log": []}')
    if "unavailable" in told:
        pytest.skip(f"{fault}: {told['unavailable']}")
    left = directory / "left" / "run.json"
    return Endured(fault, ended.returncode, ended.stderr, told["answers"], told["log"], left)


Endure = Callable[[str, str, str], Endured]
WHOLE, UNTIL_THE_FAULT = "before during after", "before during"
ENDING = ("limited size", "no descriptors", "immutable directory", "removed directory")
"""The faults during which a run of openai's SDK ends."""


@pytest.fixture(scope="module")
def endure(provider: Provider) -> Iterator[Endure]:
    """A function that runs an agent with a library, a fault, and phases.

    The agents of a library are forks of one process, because the imports take longer than an agent. Their files are on
    a disk, because a file system in memory lets an open file be written although the file is immutable.
    """
    with tempfile.TemporaryDirectory(dir="/var/tmp" if Path("/var/tmp").is_dir() else None) as directory:

        @cache
        def in_forks_of(library: str) -> dict[tuple[str, str], subprocess.CompletedProcess[str]]:
            cases = [(fault, WHOLE) for fault in FAULTS if not _needs_its_own_process(fault)]
            if library == "openai":
                cases += [(fault, UNTIL_THE_FAULT) for fault in ENDING]
            return _ended_in_forks(cases, Path(directory, library), provider, library)

        def endure(library: str, fault: str, phases: str) -> Endured:
            place = _directory(Path(directory, library), fault, phases)
            if not _needs_its_own_process(fault):
                return _read(fault, place, in_forks_of(library)[fault, phases])
            place.mkdir(parents=True)
            return _read(fault, place, _ended_alone(_arguments(fault, phases, place, provider, library), place))

        yield endure


@pytest.fixture(scope="module", params=product(LIBRARIES, FAULTS), ids=" ".join)
def endured(request: pytest.FixtureRequest, endure: Endure) -> Endured:
    """An agent that had each of the faults for a while, by each library."""
    library, fault = request.param
    return endure(library, fault, WHOLE)


def whole(phase: str) -> list[tuple[str, bool, str]]:
    """Return the expected calls of a phase."""
    return [(question, True, answer_to(question, LENGTH)) for question in questions(phase)]


def on_file(trajectory: Trajectory, phase: str) -> list[tuple[str, bool, str]]:
    """Return the recorded calls of a phase."""
    calls_by_prompt = [(str(call.input_messages[-1].content), call) for call in trajectory.llm_interactions]
    return [
        (question, call.complete, _content(call)) for question, call in calls_by_prompt if question.startswith(phase)
    ]


def _content(one: LLMInteraction) -> str:
    return str(one.response.content) if one.response else ""


def test_a_fault_does_not_reach_the_agent(endured: Endured) -> None:
    """During a fault every call is answered as without a recorder, and no exception is raised."""
    expected = [answer_to(one, LENGTH) for phase in ("before", "during", "after") for one in questions(phase)]

    assert (endured.returncode, endured.stderr, endured.answers) == (0, "", expected)


def test_the_user_is_warned_once(endured: Endured) -> None:
    """Each kind of failure is logged once, however often it happens."""
    kinds = [message.split(" (the agent is not affected")[0].split("Error")[0] for message in endured.log]

    assert kinds
    assert sorted(kinds) == sorted(set(kinds))


def test_calls_before_and_after_a_fault_are_complete(endured: Endured) -> None:
    """The files are valid, and the calls before and after the fault are recorded with their answers."""
    errors = [finding for finding in validate(endured.document).findings if finding.severity == "error"]
    trajectory = endured.trajectory

    assert (errors, trajectory.status) == ([], "completed")
    assert (on_file(trajectory, "before"), on_file(trajectory, "after")) == (whole("before"), whole("after"))


def test_records_that_could_not_be_written_are_gaps(endured: Endured) -> None:
    """Gaps state the reasons. A record is missing only if a call during the fault is incomplete."""
    trajectory = endured.trajectory
    missing = set(whole("during")) - set(on_file(trajectory, "during"))
    facts = [gap for gap in trajectory.gaps if gap.what not in NO_RECORD_LOST]

    assert trajectory.gaps
    assert all("Error" in gap.why for gap in trajectory.gaps)
    assert (len(facts) >= len(missing), bool(facts)) == (True, bool(missing))


@pytest.mark.parametrize("fault", ENDING)
def test_a_run_may_end_during_a_fault(fault: str, endure: Endure) -> None:
    """The agent ends as without a recorder, and the earlier records remain."""
    endured = endure("openai", fault, UNTIL_THE_FAULT)

    expected = [answer_to(one, LENGTH) for phase in ("before", "during") for one in questions(phase)]
    assert (endured.returncode, endured.stderr, endured.answers) == (0, "", expected)
    assert on_file(endured.trajectory, "before") == whole("before")
