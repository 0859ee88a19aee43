"""pyproject.toml, noxfile.py, README and results/versions.md state the same supported versions."""

from __future__ import annotations

import re
from itertools import product

from tests.supported_versions import EXTRAS, PROJECT, matrix, results_of, rows


def supported() -> dict[str, str]:
    """Return the oldest supported version of each SDK, by the extras."""
    extras = PROJECT["optional-dependencies"]
    return dict(extras[name][0].split(">=") for name in EXTRAS)


def test_the_oldest_supported_version_is_tested() -> None:
    """The lower bounds of the extras are the first rows of the test matrix."""
    run = {requirements[0] for requirements in matrix()["OLDEST"].values()}

    assert run == {f"{name}=={version}" for name, version in supported().items()}


def test_every_supported_python_is_tested() -> None:
    """The classifiers and requires-python name the Pythons of the test matrix."""
    found = (re.fullmatch(r".*:: (3\.\d+)", classifier) for classifier in PROJECT["classifiers"])
    named = tuple(match[1] for match in found if match)

    assert (named, f">={named[0]}") == (matrix()["PYTHONS"], PROJECT["requires-python"])


def test_the_documented_results_are_those_of_the_matrix() -> None:
    """results/versions.md has a row without failed tests for each session of the matrix."""
    tables = matrix()
    names = [name for table in ("OLDEST", "BETWEEN", "NEWEST") for name in tables[table]]
    said = [(row, python, failed) for row, python, _, _, failed, _ in results_of("results/versions.md")]

    assert said == [(name, python, "0") for name, python in product(names, tables["PYTHONS"])]


def test_the_readme_names_the_tested_versions() -> None:
    """The README's ranges go from the lower bounds to the newest versions in the results."""
    installed = ", ".join(row[2] for row in rows("results/versions.md", "Results"))
    newest = {
        name: max(
            re.findall(rf"(?<![\w-]){name} ([\d.]+\d)", installed),
            key=lambda version: tuple(map(int, version.split("."))),
        )
        for name in supported()
    }

    assert rows("README.md", "Supported versions") == [
        [name, oldest, newest[name]] for name, oldest in supported().items()
    ]
