"""`constrained suite --url`: a right server has no finding, and each fault of a server one."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from constrained.errors import RequestError
from constrained.inspect.conformance.server_check import check_server
from tests.command_line import Run

Json = dict[str, Any]
WEATHER = {"city": "Paris", "unit": "celsius", "days": 3}
FLIGHT = {"from": "BER", "to": "CDG", "passengers": [{"name": "Ann", "child": False}], "seat": None}
ARGUMENTS = {"get_weather": WEATHER, "book_flight": FLIGHT}
ANSWER = {"capital": "Paris", "continent": "Europe", "rivers": ["Seine"]}


def answer(body: Json, fault: str) -> Json:
    """The message of a server that knows all answers, with a fault by name."""
    choice = body.get("tool_choice", "auto")
    if "response_format" in body:
        content = "Paris" if fault == "ignores the format" else json.dumps(ANSWER)
        return {"role": "assistant", "content": content}
    if choice == "none":
        content = "<tool_call>" if fault == "leaves a tag" else "It is sunny."
        return {"role": "assistant", "content": content}
    if choice == "auto" or fault == "never calls":
        return {"role": "assistant", "content": "It is sunny."}
    name = "get_weather"
    if isinstance(choice, dict) and fault not in ("ignores the name", "ignores mistakes"):
        name = choice["function"]["name"]
    value = {**ARGUMENTS[name], "days": 70} if fault == "breaks the schema" else ARGUMENTS[name]
    function = {"name": name, "arguments": json.dumps(value)}
    call = {"id": "call_1", "type": "function", "function": function}
    both = fault == "calls twice" and body.get("parallel_tool_calls") is False
    calls = [call, {**call, "id": "call_2"}] if both else [call]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def write_chunks(message: Json, reason: str, fault: str) -> list[Json]:
    content = message["content"]
    if content and fault == "streams something else":
        content += " And warm."
    deltas: list[Json] = [{"role": "assistant", "content": content}]
    for index, call in enumerate(message.get("tool_calls", ())):
        begun = {**call["function"], "arguments": ""}
        rest = {"arguments": call["function"]["arguments"]}
        deltas.append({"tool_calls": [{**call, "index": index, "function": begun}]})
        number = index + 1 if fault == "counts on" else index
        deltas.append({"tool_calls": [{"index": number, "function": rest}]})
    choices = [{"delta": delta, "finish_reason": None} for delta in deltas]
    return [{"choices": [choice]} for choice in [*choices, {"delta": {}, "finish_reason": reason}]]


def make_handler(fault: str) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(200, json.dumps({"data": [{"id": "some-model"}]}))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            # All requests that cannot be carried out say hello, and no others do.
            if body["messages"][0]["content"] == "Hello" and fault != "ignores mistakes":
                self.reply(400, json.dumps({"error": {"message": "that cannot be"}}))
                return
            if fault == "hangs up" and "response_format" in body:
                self.close_connection = True
                return
            if fault == "takes no calls back" and len(body["messages"]) > 1:
                self.reply(500, "oops")
                return
            message = answer(body, fault)
            reason = "tool_calls" if "tool_calls" in message else "stop"
            if body.get("stream"):
                lines = [json.dumps(chunk) for chunk in write_chunks(message, reason, fault)]
                self.reply(200, "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]))
                return
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self.reply(200, json.dumps({"choices": [choice]}))

        def reply(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *_: Any) -> None:
            pass

    return Answers


@contextmanager
def serving(fault: str) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), make_handler(fault))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_right_server_has_no_finding() -> None:
    with serving("none") as url:
        report = check_server(url)
    assert report.findings == []
    assert report.model == "some-model"


@pytest.mark.parametrize(
    ("fault", "checks", "kinds"),
    [
        ("never calls", {"calls_when_required", "calls_what_is_named"}, {"lost call"}),
        ("ignores the name", {"calls_what_is_named"}, {"extra call"}),
        (
            "leaves a tag",
            {"calls_nothing_when_none", "takes_its_calls_back"},
            {"tag in the content"},
        ),
        ("calls twice", {"calls_one_if_not_parallel"}, {"extra call"}),
        ("counts on", {"streams_the_reply"}, {"form of the answer"}),
        ("streams something else", {"streams_the_reply"}, {"other content"}),
        ("ignores the format", {"answers_in_the_format"}, {"not JSON"}),
        ("takes no calls back", {"takes_its_calls_back"}, {"status 5xx"}),
        (
            "ignores mistakes",
            {"calls_what_is_named", "refuses_what_cannot_be"},
            {"accepted", "extra call"},
        ),
        ("hangs up", {"answers_in_the_format"}, {"no answer"}),
    ],
)
def test_each_fault_is_found_by_its_check(fault: str, checks: set[str], kinds: set[str]) -> None:
    with serving(fault) as url:
        found = check_server(url).findings
    assert {finding.check for finding in found} == checks
    assert {kind for finding in found for kind in finding.kinds} == kinds
    assert all(finding.reproduce.startswith("curl http://127.0.0.1:") for finding in found)


def test_arguments_that_do_not_fit_are_found() -> None:
    with serving("breaks the schema") as url:
        found = check_server(url).findings
    assert any("70 is greater than the maximum of 7 (at /days)" in one.what for one in found)
    assert {kind for finding in found for kind in finding.kinds} == {"schema"}


def test_the_command_tells_by_its_code(run: Run) -> None:
    with serving("none") as url:
        code, out, _ = run("suite", "--url", url)
    assert (code, out.count("\n")) == (0, 1)
    with serving("ignores the name") as url:
        code, out, _ = run("suite", "--url", url, "--json")
    assert code == 1
    assert json.loads(out.splitlines()[0])["check"] == "calls_what_is_named"


def test_a_server_that_is_not_there_is_an_error() -> None:
    with pytest.raises(RequestError, match="cannot be reached"):
        check_server("http://127.0.0.1:1/v1")
    with pytest.raises(RequestError, match="is not an HTTP URL"):
        check_server("127.0.0.1:8080")
