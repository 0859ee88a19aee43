"""Thousands of texts without a secret.

`python -m tests.secrets.harmless` prints what is masked in them. The texts are of two kinds: files of the installed
packages (code, prose, licences, metadata), cut to the length that a tool shows at once; and generated logs, lock files,
shells and documents, drawn by a seed.
"""

# ruff: noqa: E501 - lines of logs
from __future__ import annotations

import base64
import json
import re
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

from tests.secrets.corpus import masked

AT_ONCE = 4000
"""How many characters of a file are one text."""
FILES = 1500
_SUFFIXES = {".py": "code", ".pyi": "code", ".js": "code", ".c": "code", ".h": "code", ".md": "prose", ".rst": "prose"}
_SUFFIXES |= {
    ".txt": "prose",
    "": "prose",
    ".json": "data",
    ".toml": "data",
    ".cfg": "data",
    ".css": "code",
    ".html": "code",
}


def installed() -> Iterator[tuple[str, str, str]]:
    """Yield texts from files of installed packages: their kind, a name, the text."""
    for name in ("purelib", "stdlib"):
        root = Path(sysconfig.get_paths()[name])
        yield from _under(root, [path for path in sorted(root.rglob("*")) if name != "stdlib" or not _is_other_s(path)])


def _is_other_s(path: Path) -> bool:
    return "site-packages" in path.parts


def _under(root: Path, paths: list[Path]) -> Iterator[tuple[str, str, str]]:
    files = [path for path in paths if path.suffix in _SUFFIXES and path.is_file() and path.stat().st_size < 200_000]
    for path in Random(3).sample(files, min(FILES, len(files))):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        kind = "prose" if path.name in ("METADATA", "LICENSE", "AUTHORS") else _SUFFIXES[path.suffix]
        for at in range(0, min(len(text), 5 * AT_ONCE), AT_ONCE):
            yield kind, f"{path.relative_to(root)}:{at}", text[at : at + AT_ONCE]


def made() -> Iterator[tuple[str, str, str]]:
    """Yield generated texts."""
    random = Random(5)
    for number in range(200):
        yield "logs", f"log {number}", "\n".join(_log_line(random) for _ in range(30))
        yield "lock files", f"lock {number}", _lock(random)
        yield "data", f"ids {number}", _ids(random)
        yield "data", f"image {number}", _image(random)
        yield "code", f"shell {number}", _shell(random)


def _hex(random: Random, length: int) -> str:
    return random.randbytes(length // 2).hex()


def _uuid(random: Random) -> str:
    return re.sub(r"(.{8})(.{4})(.{4})(.{4})(.{12})", r"\1-\2-\3-\4-\5", _hex(random, 32))


def _log_line(random: Random) -> str:
    return random.choice(
        [
            f"2025-06-12T22:05:{random.randint(10, 59)}.{random.randint(100, 999)}Z INFO [http] GET /v1/items/{_uuid(random)} 200 {random.randint(1, 999)}ms",
            f"[{random.randint(1, 9999):>8}.{random.randint(1, 999999):06}] usb 1-1: new device number {random.randint(1, 99)} using xhci_hcd",
            f'level=info ts=170{random.randint(1000000, 9999999)} caller=main.go:{random.randint(1, 400)} msg="token refreshed" request_id={_uuid(random)}',
            f"tests/test_{random.choice(['auth', 'token', 'password', 'keys'])}.py::test_{random.choice(['login', 'reset', 'rotate'])}[param{random.randint(0, 9)}] PASSED [ {random.randint(1, 99)}%]",
            f"trace_id={_hex(random, 32)} span_id={_hex(random, 16)} duration={random.random():.3f}s tokens=1{random.randint(100, 999)}",
            f"Successfully built image sha256:{_hex(random, 64)}",
            f"commit {_hex(random, 40)}",
            f"prompt_tokens: {random.randint(100, 99999)}, completion_tokens: {random.randint(100, 9999)}, max_tokens=4096",
            f'ETag: "{_hex(random, 32)}"',
            f'password authentication failed for user "app{random.randint(1, 9)}"',
            f"Set token: expires in {random.randint(100, 4000)} seconds; key: user:{random.randint(1, 99999)}:profile",
            f"WARN cache key=items:v2:{_hex(random, 40)} evicted",
        ]
    )


def _lock(random: Random) -> str:
    integrity = base64.b64encode(random.randbytes(64)).decode()
    blocks = [
        f'"node_modules/a{random.randint(1, 99)}": {{\n  "version": "1.{random.randint(0, 99)}.0",\n  "resolved": '  # noqa: ISC004 - one block
        f'"https://registry.npmjs.org/a/-/a-1.0.{random.randint(0, 9)}.tgz",\n  "integrity": "sha512-{integrity}"\n}}',
        f'[[package]]\nname = "token-utils"\nversion = "0.{random.randint(1, 99)}"\nchecksum = "{_hex(random, 64)}"',
        f'    {{file = "passlib-1.7.4-py2.py3-none-any.whl", hash = "sha256:{_hex(random, 64)}"}},',
        f"golang.org/x/crypto v0.{random.randint(1, 40)}.0 h1:{base64.b64encode(random.randbytes(32)).decode()}",
        f"secretstorage==3.3.{random.randint(0, 9)} \\\n    --hash=sha256:{_hex(random, 64)}",
        f'"keyv@npm:^4.5.3":\n  version: 4.5.{random.randint(0, 9)}\n  checksum: 10/{_hex(random, 128)}',
    ]
    return "\n".join(random.choices(blocks, k=12))


def _ids(random: Random) -> str:
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    drawn = ["".join(random.choices(letters, k=24)) for _ in range(8)]
    ids = ("call_", "toolu_", "chatcmpl-", "msg_", "resp_", "req_", "run_", "asst_")
    return json.dumps({f"id{n}": prefix + one for n, (prefix, one) in enumerate(zip(ids, drawn, strict=True))} | {
        "uuid": _uuid(random), "sha": _hex(random, 40), "model": "gpt-4o-2024-08-06", "usage": {"total_tokens": 812},
        "signature": base64.b64encode(random.randbytes(600)).decode(), "fingerprint": f"fp_{_hex(random, 10)}",
        "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + base64.b64encode(random.randbytes(30)).decode(),
        "encrypted_content": "gAAAAAB" + base64.urlsafe_b64encode(random.randbytes(900)).decode(),
    })  # fmt: skip


def _image(random: Random) -> str:
    encode = random.choice([base64.b64encode, base64.urlsafe_b64encode])
    return f"data:image/png;base64,{encode(random.randbytes(random.randint(100, 9000))).decode()}"


def _shell(random: Random) -> str:
    return "\n".join(
        random.choices(
            [
                "export OPENAI_API_KEY=$(pass show openai)",
                "export API_KEY=${API_KEY:?set it}",
                'curl -H "Authorization: Bearer $TOKEN" https://api.example.com/v1/items',
                'curl -u "$USER:$PASSWORD" https://example.com/',
                "OPENAI_API_KEY=sk-... python main.py",
                "export GITHUB_TOKEN=<your token>",
                "API_KEY=YOUR_API_KEY npm start",
                "psql postgresql://user:password@localhost:5432/db",
                'docker run -e PASSWORD="$PASSWORD" -p 8080:80 nginx:1.25',
                "ssh-keygen -t ed25519 -f ~/.ssh/id_ed25519 -N ''",
                "pip install sk-learn scikit-learn==1.4.2",
                "grep -rn 'password' src/ | head -20",
                "kubectl create secret generic db --from-literal=password=$PW",
                "mysql -u root -p app < dump.sql",
                "git clone https://github.com/org/token-service.git",
                "aws s3 cp s3://bucket/key-2024-01-01/file.tar.gz .",
            ],
            k=12,
        )
    )


@cache
def texts() -> tuple[tuple[str, str, str], ...]:
    """Return all texts."""
    return (*installed(), *made())


def alarms() -> dict[str, list[tuple[str, str]]]:
    """Return the texts in which something is masked, by kind: their names, and their masked form."""
    by_kind: dict[str, list[tuple[str, str]]] = {}
    for kind, name, text in texts():
        left = masked(text)
        if left != text:
            by_kind.setdefault(kind, []).append((name, left))
    return by_kind


def main() -> None:
    """Print the table."""
    by_kind = alarms()
    for kind in sorted({kind for kind, _, _ in texts()}):
        several = sum(one == kind for one, _, _ in texts())
        print(f"{kind:12} {len(by_kind.get(kind, [])):4} of {several:5} texts")
    if "-v" in sys.argv:
        by_name = {name: text for _, name, text in texts()}
        for some in by_kind.values():
            for name, left in some:
                text = by_name[name]
                at = left.index("[REDACTED") if "[REDACTED" in left else 0
                at = next((n for n, (a, b) in enumerate(zip(text, left, strict=False)) if a != b), at)
                print(name[-60:], "|", repr(text[max(0, at - 50) : at + 50]), "|", repr(left[at : at + 28]))


if __name__ == "__main__":
    main()
