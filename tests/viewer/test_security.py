"""The viewer's server answers only clients that have its token, and hostile content stays text."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from tests.viewer.recorded import TASK, growing, record
from tests.viewer.serving import TOKEN, serving
from trace_recorder import load

RUN = "/api/runs/run.json"
HOSTILE = (
    "</script><script>alert(1)</script><!-- \u202e\x1b]0;owned\x07\x1b[2J \u2028 "
    "[x](javascript:alert(1)) <img src=x onerror=alert(1)>"
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    inside = tmp_path / "runs"
    inside.mkdir()
    record(inside / "run.json", growing(1))
    return inside


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ü"]
)
def test_without_the_token_there_is_no_answer(directory: Path, authorization: str) -> None:
    """A client without the token gets neither the page nor a run."""
    with serving(directory) as client:
        headers = {"authorization": authorization.encode()}
        answers = [
            client.get(address, headers=headers) for address in ("/", "/api/runs", RUN, "/?token=wrong", "/nothing")
        ]

    assert {answer.status_code for answer in answers} == {401}
    assert not any("fix the failing test" in answer.text for answer in answers)


def test_an_unreadable_cookie_hides_no_other(directory: Path) -> None:
    """The server finds its own cookie among unreadable cookies of other servers on this machine."""
    with serving(directory) as client:
        entered = client.get(f"/?token={TOKEN}", headers={"authorization": ""})
        cookie = entered.headers["set-cookie"].partition(";")[0]
        page = client.get("/", headers=[("authorization", ""), ("cookie", "a/b=1"), ("cookie", cookie)])

    assert page.status_code == 200


@pytest.mark.parametrize("address", ["/", "/?token=wrong", RUN])
@pytest.mark.parametrize(
    ("headers", "status", "reason"),
    [
        ({"authorization": "Bearer wrong"}, 401, "the token is missing or wrong"),
        ({"host": "evil.example"}, 403, "this server answers only at its own address"),
    ],
)
def test_a_browser_without_the_token_gets_an_explanation(
    directory: Path, address: str, headers: dict[str, str], status: int, reason: str
) -> None:
    """Without the token, a browser gets a page that explains the refusal, with its policy and no data.

    A program gets JSON.
    """
    with serving(directory) as client:
        page = client.get(address, headers={"accept": "text/html,*/*", **headers})
        program = client.get(address, headers=headers)

    assert (page.status_code, program.status_code) == (status, status)
    data = page.text.partition('id="trace-recorder-data">')[2].partition("</script>")[0]
    assert json.loads(data).keys() == {"kind", "error"}
    assert json.loads(data)["error"] == program.json()["error"]
    assert reason in program.json()["error"]
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_the_url_with_the_token_sets_a_cookie(directory: Path) -> None:
    """The address with the token sets a cookie that no script can read, and redirects to the address without it."""
    with serving(directory) as client:
        entered = client.get("/", params={"token": TOKEN}, headers={"authorization": ""})
        cookie = entered.headers["set-cookie"]
        page = client.get("/", headers={"authorization": "", "cookie": cookie.partition(";")[0]})
        other = client.get("/", headers={"authorization": "", "cookie": f"trace_recorder_1={TOKEN}"})

    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert (page.status_code, other.status_code) == (200, 401)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "127.0.0.1:{port}.evil"]
)
def test_a_different_host_name_is_refused(directory: Path, host: str) -> None:
    """A request with the name of another host is refused, even with the token."""
    with serving(directory) as client:
        port = client.base_url.port
        refused = client.get("/api/runs", headers={"host": host.format(port=port)})
        local = client.get("/api/runs", headers={"host": f"localhost:{port}"})

    assert (refused.status_code, local.status_code) == (403, 200)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"},
    ],
)
def test_a_different_origin_cannot_add(directory: Path, headers: dict[str, str]) -> None:
    """A post from a page of another origin is refused, even with the browser's cookie, and nothing is written."""
    before = (directory / "run.jsonl").read_bytes()
    with serving(directory) as client:
        posted = client.post(f"{RUN}/rewards", json={"name": "x", "value": 1}, headers=headers)

    assert posted.status_code == 403
    assert (directory / "run.jsonl").read_bytes() == before


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_form_cannot_add(directory: Path, kind: str) -> None:
    """A body of a type that HTML forms can post is refused, because it is not JSON."""
    with serving(directory) as client:
        posted = client.post(f"{RUN}/rewards", content=b'{"name":"x","value":1}', headers={"content-type": kind})

    assert posted.status_code == 415
    assert load(directory / "run.json").rewards == ()


def test_the_page_itself_may_add(directory: Path) -> None:
    """A post from the server's own page is accepted."""
    with serving(directory) as client:
        origin = {"origin": f"http://127.0.0.1:{client.base_url.port}", "sec-fetch-site": "same-origin"}
        assert client.post(f"{RUN}/rewards", json={"name": "x", "value": 1}, headers=origin).status_code == 201


@pytest.mark.parametrize(
    "name",
    [
        "../secret.json",
        "..%2Fsecret.json",
        "%2e%2e%2fsecret.json",
        "..",
        "%2Fetc%2Fpasswd",
        "run.json%00",
        "link.json",
        "beside.json",
        "sub",
        ".hidden.json",
    ],
)
def test_only_files_of_the_directory_are_read(directory: Path, name: str) -> None:
    """No path and no link in a request leads to a file outside of the directory."""
    record(directory.parent / "secret.json", growing(1))
    record(directory / ".hidden.json", growing(1))
    (directory / "sub").mkdir()
    (directory / "link.json").symlink_to(directory.parent / "secret.json")
    (directory / "beside.json").write_text("{}")
    (directory / "beside.jsonl").symlink_to(directory.parent / "secret.jsonl")
    with serving(directory) as client:
        answered = client.request("GET", client.base_url.copy_with(raw_path=f"/api/runs/{name}".encode()))
        listed = client.get("/api/runs").json()

    assert answered.status_code == 404
    assert [one["id"] for one in listed["runs"] + listed["unreadable"]] == ["run.json"]


@pytest.mark.parametrize("replaced", ["run.json", "run.jsonl"])
def test_a_run_replaced_by_a_link_is_not_served(directory: Path, replaced: str) -> None:
    """A link that replaced a run's file is refused at once, without listing the directory again."""
    record(directory.parent / "secret.json", growing(1))
    with serving(directory) as client:
        before = client.get(RUN).status_code
        (directory / replaced).unlink()
        (directory / replaced).symlink_to((directory.parent / "secret.json").with_suffix(Path(replaced).suffix))
        answers = [client.get(RUN), client.get(f"{RUN}/interactions/1/raw"), client.get(f"{RUN}/file")]

    assert (before, [answer.status_code for answer in answers]) == (200, [404, 404, 404])


def test_only_get_and_post_are_known(directory: Path) -> None:
    """Methods other than GET and POST are refused, and so is a POST to an address that accepts no data."""
    with serving(directory) as client:
        found = [client.request(method, RUN, json={}) for method in ("PUT", "DELETE", "PATCH", "POST", "OPTIONS")]

    assert {one.status_code for one in found} == {405}


def test_hostile_text_is_sent_as_json(tmp_path: Path) -> None:
    """Texts of models and tools come back unchanged, as JSON that no browser can take for a page."""
    prompt = [{"role": "system", "content": HOSTILE}, TASK]
    record(tmp_path / "run.json", [prompt], metadata={"note": HOSTILE})
    with serving(tmp_path) as client:
        outline, message = client.get(RUN), client.get(f"{RUN}/messages/0")
        page = client.get("/")

    assert message.json()["parts"][0]["text"] == HOSTILE
    assert outline.json()["run"]["metadata"] == {"note": HOSTILE}
    for answered in (outline, message):
        assert answered.headers["content-type"] == "application/json"
        assert answered.headers["x-content-type-options"] == "nosniff"
    assert HOSTILE not in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-frame-options"] == "DENY"


def test_five_megabytes_on_one_line_are_cut(tmp_path: Path) -> None:
    """A very long line is cut in the outline and in lists of messages, and whole if requested alone."""
    record(tmp_path / "run.json", [[{"role": "user", "content": "y" * 5_000_000}]])
    with serving(tmp_path) as client:
        sizes = [len(client.get(f"{RUN}{name}").content) for name in ("", "/messages", "/messages/0")]

    assert sizes[0] < 10_000
    assert sizes[1] < 30_000
    assert sizes[2] > 5_000_000


def test_text_outside_of_utf_8_is_sent_as_json(tmp_path: Path) -> None:
    """Half of a surrogate pair is written as an escape, and a number that JSON lacks as its name."""
    record(tmp_path / "run.json", growing(1))
    path = tmp_path / "run.json"
    document = json.loads(path.read_text())
    path.with_suffix(".jsonl").unlink()
    document["final_result"] = "half \ud83d"
    document["metadata"] = {"number": float("nan")}
    path.write_text(json.dumps(document))
    with serving(tmp_path) as client:
        answered = client.get(RUN)

    run = json.loads(answered.content, parse_constant=pytest.fail)["run"]
    assert run["final_result"] == [{"type": "text", "text": "half \ud83d"}]
    assert run["metadata"] == {"number": "nan"}


@pytest.mark.parametrize("damage", ["torn", "flipped", "empty", "garbage", "lost start"])
def test_a_damaged_journal_is_shown_so_far(directory: Path, damage: str) -> None:
    """A damaged journal gets an outline or a refusal of one sentence, and the other runs stay in the list."""
    path = directory / "bad.jsonl"
    data = (directory / "run.jsonl").read_bytes()
    path.write_bytes(
        {
            "torn": data[: len(data) // 2],
            "flipped": data.replace(b"failing", b"fXiling"),
            "empty": b"",
            "garbage": os.urandom(10_000),
            "lost start": data.partition(b"\n")[2],
        }[damage]
    )
    with serving(directory) as client:
        listed = client.get("/api/runs").json()
        answered = client.get("/api/runs/bad.jsonl")

    assert "run.json" in [run["id"] for run in listed["runs"]]
    assert "bad.jsonl" in [one["id"] for one in listed["runs"] + listed["unreadable"]]
    assert answered.status_code == (422 if damage == "garbage" else 200)
    assert isinstance(answered.json().get("error", ""), str)


def test_a_document_of_a_different_kind_is_named_with_the_reason(directory: Path) -> None:
    """A JSON file that is not a trajectory is listed as unreadable, with the reason."""
    (directory / "notes.json").write_text('{"hello": 1}')
    with serving(directory) as client:
        [other] = client.get("/api/runs").json()["unreadable"]
        answered = client.get("/api/runs/notes.json")

    assert other["id"] == "notes.json"
    assert "not a trajectory" in other["error"]
    assert answered.status_code == 422


def test_a_client_without_the_host_header_is_refused(directory: Path) -> None:
    """A request of HTTP/1.0 without `Host` gets no data of a run."""
    with serving(directory) as client:
        with socket.create_connection(("127.0.0.1", client.base_url.port or 0)) as raw:
            raw.sendall(f"GET /api/runs HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            answered = raw.recv(65536)

    assert b" 403 " in answered.partition(b"\r\n")[0] or b" 400 " in answered.partition(b"\r\n")[0]
