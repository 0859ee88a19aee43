"""The environments of the readers, one in each row: the packages, the Python versions, and the checks.

`first` are ways to install a package that would be too large otherwise. They are tried in sequence until one works: for
torch, a file that pip's own configuration names, then the build without CUDA, and then whatever pip finds.
"""

from __future__ import annotations

from dataclasses import dataclass

Arguments = tuple[str, ...]

_TORCH: tuple[Arguments, ...] = (
    ("--no-index", "--no-deps", "torch"),
    ("--index-url", "https://download.pytorch.org/whl/cpu", "--retries", "0", "--timeout", "15", "torch"),
    ("torch",),
)


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment for readers that can be installed together."""

    name: str
    requirements: Arguments
    checks: Arguments
    python: tuple[int, int] = (3, 11)
    first: tuple[Arguments, ...] = ()
    alone: Arguments = ()
    """Packages that are installed without their requirements, which are not used here."""


ENVIRONMENTS = (
    Environment("atif", ("harbor==0.25.0", "arize-phoenix-client>=3.5"), ("check_atif",), python=(3, 12)),
    Environment("hierarchy", ("trajectory-sdk==0.5.3",), ("check_hierarchy",), python=(3, 12)),
    Environment("invariant", ("-e.[cli]", "invariant-ai==0.3.5"), ("check_invariant",), python=(3, 11)),
    Environment(
        "services",
        (
            "-e.[cli,langfuse,langsmith,mlflow,openai,phoenix]",
            "httpx",
            "httpx2",
            "hypothesis",
            "pytest>=9.0",
            "zstandard",
        ),
        ("check_services", "check_service_tests"),
    ),
    Environment("mlflow", ("-e.[cli]", "mlflow", "httpx", "httpx2", "hypothesis", "pytest>=9.0"), ("check_mlflow",)),
    Environment(
        "phoenix",
        ("-e.[cli]", "arize-phoenix", "httpx", "httpx2", "hypothesis", "pytest>=9.0"),
        ("check_phoenix",),
    ),
    Environment("inspect", ("inspect_ai>=0.3.285", "msgspec"), ("check_inspect",)),
    Environment("toolbrain", ("pydantic>=2.7",), ("check_toolbrain",), alone=("toolbrain==0.1.4",)),
    Environment("openai", ("openai>=2", "pydantic>=2.7"), ("check_openai",)),
    Environment("trl", ("trl", "datasets>=4.7", "transformers", "jinja2"), ("check_trl",), first=_TORCH),
    Environment("verifiers", ("verifiers>=0.4",), ("check_verifiers",)),
    Environment("traces", ("datasets>=5.2", "teich>=0.3"), ("check_traces",)),
    Environment("duckdb", ("genai-prices", "duckdb", "msgspec"), ("check_duckdb",)),
    Environment("polars", ("genai-prices", "polars", "msgspec"), ("check_polars",)),
    Environment("pandas", ("genai-prices", "pandas", "pyarrow", "msgspec"), ("check_pandas",)),
    Environment("datasets", ("datasets>=5.2", "genai-prices", "msgspec"), ("check_datasets",)),
    Environment("scout", ("inspect_scout>=0.6", "genai-prices", "msgspec"), ("check_scout",)),
)
