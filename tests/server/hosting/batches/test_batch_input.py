"""The lines of a batch: what is a request, and what is wrong with a line that is none."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.errors import HttpError
from server.hosting.batches import batch_input
from server.hosting.batches.batch_input import BatchLine, LineResult, fail_line, read_lines

CHAT = "/v1/chat/completions"
Json = dict[str, Any]


def write_line(**changes: Any) -> bytes:
    line = {"custom_id": "a", "method": "POST", "url": CHAT, "body": {"n": 1}} | changes
    return json.dumps(line).encode()


def test_requests_and_blank_lines() -> None:
    other = write_line(custom_id="b", url="/v1/messages")
    read = read_lines([b"\xef\xbb\xbf" + write_line() + b"\r\n", b"\n", other, b""])
    assert read.faults == ()
    assert read.lines == (
        BatchLine(1, "a", CHAT, b'{"n": 1}'),
        BatchLine(3, "b", "/v1/messages", b'{"n": 1}'),
    )


FAULTS: list[tuple[bytes, str, str | None]] = [
    (b"{", "invalid_json_line", None),
    (b"[" * 100_000, "invalid_json_line", None),
    (b'{"custom_id": ' + b"1" * 5_000 + b"}", "invalid_json_line", None),
    (b"\xff\xfe\xfd", "invalid_json_line", None),
    (b'["custom_id"]', "invalid_json_line", None),
    (b'{"method": "POST"}', "missing_required_parameter", "custom_id"),
    (write_line(custom_id=7), "missing_required_parameter", "custom_id"),
    (write_line(custom_id=""), "invalid_custom_id", "custom_id"),
    (write_line(custom_id="x" * 513), "invalid_custom_id", "custom_id"),
    (write_line(method="GET"), "invalid_method", "method"),
    (write_line(url="/v1/images/generations"), "invalid_url", "url"),
    (write_line(url=CHAT + "?x"), "invalid_url", "url"),
    (write_line(url="/v1/messages"), "mismatched_url", "url"),
    (write_line(body=None), "missing_required_parameter", "body"),
    (write_line(body=[]), "missing_required_parameter", "body"),
    (write_line(custom_id="first"), "duplicate_custom_id", "custom_id"),
]


@pytest.mark.parametrize(("line", "code", "param"), FAULTS)
def test_what_is_no_request(line: bytes, code: str, param: str | None) -> None:
    read = read_lines([write_line(custom_id="first"), line], CHAT)
    assert [(fault.code, fault.line, fault.param) for fault in read.faults] == [(code, 2, param)]
    assert len(read.lines) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"n": ' + b"1" * 5_000 + b"}", "an integer has more than 4,300 digits, at byte 6"),
        (b'{"n": NaN}', "NaN is not a JSON number"),
        (b'{"n" 1}', "Expecting ':' delimiter, at byte 5"),
        (b"[" * 100_000, "the line is nested more than 512 deep"),
        (b"[" + b"1," * 300_000 + b"1]", "the line has more than 200,000 values"),
    ],
)
def test_a_line_that_is_no_json_is_refused_as_a_body_is(line: bytes, message: str) -> None:
    (fault,) = read_lines([line]).faults
    assert message in fault.message


def test_a_file_without_requests() -> None:
    assert [fault.code for fault in read_lines([b"\n"]).faults] == ["empty_file"]


def test_too_many_requests() -> None:
    lines = [write_line(custom_id=str(number)) for number in range(3)]
    read = read_lines(lines, max_lines=2)
    assert [(fault.code, fault.line) for fault in read.faults] == [("too_many_requests", 3)]


def test_faults_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_input, "MAX_FAULTS", 2)
    assert [fault.line for fault in read_lines([b"x"] * 5).faults] == [1, 2]


def test_responses_are_kept_where_a_line_says_so() -> None:
    lines = [
        write_line(url="/v1/responses", body={"input": "x"}),
        write_line(url="/v1/responses", body={"store": True}, custom_id="b"),
    ]
    bodies = [json.loads(line.body) for line in read_lines(lines).lines]
    assert bodies == [{"input": "x", "store": False}, {"store": True}]


@given(st.lists(st.binary(max_size=60) | st.just(write_line()), max_size=5))
def test_any_bytes_are_lines_or_faults(lines: list[bytes]) -> None:
    read = read_lines(lines)
    assert read.lines or read.faults
    blank = sum(not line.strip() for line in lines)
    if lines != [] and blank != len(lines):
        assert len(read.lines) + len(read.faults) == len(lines) - blank


def test_results_as_they_are_written() -> None:
    written = json.loads(LineResult("a", 200, {"text": "é\ud800"}).encode())
    assert written["response"]["body"] == {"text": "é\ud800"}
    line = BatchLine(1, "b", CHAT, b"{}")
    written = json.loads(fail_line(line, HttpError(504, "late", "batch_expired")).encode())
    assert written["id"].startswith("batch_req_")
    assert written["response"] is None
    assert written["error"] == {"code": "batch_expired", "message": "late"}


def test_lines_are_bounded_and_faults_are_short() -> None:
    line = {"custom_id": "a", "method": "POST", "url": "x" * 100_000, "body": {}}
    text = json.dumps(line).encode()
    (fault,) = read_lines([text]).faults
    assert fault.code == "invalid_url"
    assert len(fault.message) < 600
    (fault,) = read_lines([text], max_bytes=1_000).faults
    assert (fault.code, "--max-line" in fault.message) == ("line_too_long", True)
