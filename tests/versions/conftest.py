"""What holds for every shape: no proxy and no settings of the environment's own, and quick TLS contexts.

Most of the time of making a client goes into reading two hundred certificates, which no test uses; one is enough.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

_SETTINGS = ("OPENAI_", "AZURE_OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_", "OLLAMA_", "SSL_CERT_")


@pytest.fixture(scope="session")
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """A file with the first certificate of certifi's; None where that is not installed."""
    if find_spec("certifi") is None:
        return None
    import certifi

    _, begin, rest = Path(certifi.where()).read_text(encoding="utf-8").partition("-----BEGIN CERTIFICATE-----")
    path = tmp_path_factory.mktemp("tls") / "one.pem"
    path.write_text(begin + rest.partition("-----BEGIN")[0])
    return path


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, one_certificate: Path | None) -> None:
    for name in os.environ:
        if name.startswith(_SETTINGS) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    if one_certificate is not None:
        monkeypatch.setenv("SSL_CERT_FILE", str(one_certificate))
