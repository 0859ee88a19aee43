"""Prices of the user's own: which price a model has, what a wrong file says, and that no index keeps old costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.catalog.many_runs import settle
from tests.cli.invoking import invoke
from trace_recorder import PriceFileError, TrajectoryRecorder, compare, load, open_index
from trace_recorder.figures.cost import cost_of, prices, table_name
from trace_recorder.figures.own_prices import OwnPrices, own_prices
from trace_recorder.figures.price_table import PriceTable
from trace_recorder.storage.paths import PRICES_VARIABLE
from trace_recorder.values.token_counts import Counts

FILE = """
[[prices]]
provider = "vllm"
model = "qwen3-*"
input = 2
output = 10
cache_read = 0.5

[[prices]]
model = "qwen3-?b"
input = 1.0
output = 1.0
cache_write = 4.0
"""
AT = datetime(2026, 3, 1)


@pytest.fixture(autouse=True)
def _read_again() -> Iterator[None]:
    """Let each test read the environment."""
    for cached in (own_prices, prices, table_name):
        cached.cache_clear()
    yield
    for cached in (own_prices, prices, table_name):
        cached.cache_clear()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of prices that the environment names."""
    path = tmp_path / "prices.toml"
    path.write_text(FILE)
    monkeypatch.setenv(PRICES_VARIABLE, str(path))
    return path


def record(path: Path, provider: str = "vllm", **usage: float) -> Path:
    with TrajectoryRecorder(path, task="t") as recorder:
        answer = {"content": "a", "usage": {"input_tokens": 1_000_000, "output_tokens": 100_000, **usage}}
        recorder.record_llm_interaction([{"role": "user", "content": "q"}], answer, provider, "qwen3-8b")
    return path


@pytest.mark.parametrize(
    ("provider", "model", "counts", "price"),
    [
        ("vllm", "qwen3-32b", Counts(1_000_000, 100_000), 3.0),
        (
            "vllm",
            "qwen3-32b",
            Counts(1_000_000, 0, cache_read=600_000, cache_write=100_000),
            1.1,
        ),
        ("ollama", "qwen3-8b", Counts(1_000_000, 0, cache_read=600_000, cache_write=100_000), 1.3),
        ("ollama", "qwen3-32b", Counts(1_000_000, 0), None),
        ("vllm", "qwen3-32b", Counts(5, None), None),
    ],
)
def test_the_first_match_has_the_price(
    file: Path, provider: str, model: str, counts: Counts, price: float | None
) -> None:
    """Patterns choose the rates, in the order of the file. A missing rate of the cache is that of the input."""
    assert OwnPrices(file, None)(provider, model, counts, AT) == (price and pytest.approx(price))


def test_other_models_have_the_price_of_the_table(file: Path) -> None:
    """A model that the file does not name has the price of genai-prices."""
    pytest.importorskip("genai_prices", reason="the extra `prices` is not installed")
    table = PriceTable()
    counts = Counts(1000, 10, units=(("web_searches", 2),))
    both = OwnPrices(file, table)

    assert both("openai", "gpt-4o", counts, AT) == table("openai", "gpt-4o", counts, AT)
    assert both.without_rate("openai", "gpt-4o", counts, AT) == table.without_rate("openai", "gpt-4o", counts, AT)
    assert both.without_rate("vllm", "qwen3-32b", counts, AT) == ("web_searches",)


def test_an_estimate_names_its_source_and_a_bill_wins(file: Path, tmp_path: Path) -> None:
    """Costs by the file are estimates with its name. A cost that the provider states stays as it is."""
    [estimated] = load(record(tmp_path / "a.json")).llm_interactions
    [stated] = load(record(tmp_path / "b.json", cost=0.5)).llm_interactions
    estimate, bill = cost_of(estimated), cost_of(stated)

    assert (estimate and estimate.amount, estimate and estimate.estimated) == (3.0, True)
    assert (bill and bill.amount, bill and bill.estimated) == (0.5, False)
    assert "about 3.000000 USD by prices.toml" in invoke("stats", tmp_path / "a.json").stdout
    [group] = compare([load(tmp_path / "a.json")], by="model").groups
    assert group.estimated_costs == 1
    assert "~: a cost with estimates by prices.toml" in invoke("stats", tmp_path / "a.json", "--by", "model").stdout


def test_an_index_with_other_prices_is_not_believed(file: Path, tmp_path: Path) -> None:
    """Without a new index, costs are those of the file as it is now, and the next indexer starts again."""
    runs = tmp_path / "runs"
    record(runs / "a.json")
    settle(runs)
    index = open_index(runs)

    def cost() -> tuple[int, float]:
        """Return how many runs an update reads, and the cost that the command states."""
        own_prices.cache_clear()
        prices.cache_clear()
        before = json.loads(invoke("stats", runs, "--json").stdout)["llm"]["cost"]["estimated"]
        return index.update().read, before

    assert [cost(), cost()] == [(1, 3.0), (0, 3.0)]
    file.write_text(FILE.replace("input = 2", "input = 20"))
    assert [cost(), cost()] == [(1, 21.0), (0, 21.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prices = 3", "Expected `array`, got `int` - at `$.prices`"),
        ("", "missing required field `prices`"),
        ("[[prices]]\nmodel = 'm'\ninput = 1", "missing required field `output`"),
        ("[[prices]]\nmodel = 'm'\ninput = 1\noutput = 'x'", "Expected `float`, got `str`"),
        ("[[prices]]\nmodel = 'm'\ninput = 1\noutput = 1\ninptu = 1", "unknown field `inptu`"),
        ("[[prices]]\nmodel = 'm'\ninput = -1\noutput = 1", "the rate `input` of */m is -1"),
        ("[[prices]]\nmodel = 'm'\ninput = 1\noutput = nan", "the rate `output` of */m is nan"),
        ("[[prices]]\nmodel = 'm'\ninput = inf\noutput = 1", "the rate `input` of */m is inf"),
        ("# a README", "missing required field `prices`"),
        ("[[prices]", "not a file of prices"),
        ("\udcff", "not a file of prices"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(file: Path, tmp_path: Path, text: str | None, message: str) -> None:
    """The sentence names the file and the place. A command prints it once, however many runs there are."""
    for name in "abc":
        record(tmp_path / "runs" / f"{name}.json")
    file.unlink()
    if text is not None:
        file.write_bytes(text.encode(errors="surrogateescape"))
    own_prices.cache_clear()
    result = invoke("stats", tmp_path / "runs")

    assert (result.exit_code, result.stdout) == (1, "")
    [line] = result.stderr.splitlines()
    assert message in line
    assert str(file) in line
    with pytest.raises(PriceFileError):
        own_prices()


def test_a_wrong_file_stops_no_program(file: Path, tmp_path: Path) -> None:
    """A program is recorded although the file is wrong, because recording computes no costs."""
    file.write_text("prices = 3")
    own_prices.cache_clear()
    assert record(tmp_path / "a.json").is_file()
    assert load(tmp_path / "a.json").status == "completed"
