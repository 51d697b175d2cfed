"""What every client's scenarios share: names, questions, and one line of JSON for each outcome.

Runs in the virtual environment of a client, beside its script, with the standard library alone.
"""

import json
import re
import sys
import time
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
QUESTION = "What's the weather in Paris tomorrow, in celsius?"
ANSWERED = {"city": "Paris", "day": "tomorrow", "unit": "celsius"}
RESULT = {"city": "Paris", "day": "tomorrow", "forecast": "light rain", "temperature": 14}
TOLD = json.dumps(RESULT)  # the demo model reads JSON with spaces, which not all clients write
NAMES = (
    "plain auto required named none parallel stream reasoning_on reasoning_off round_trip error "
    "cancel".split()
)
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "the name of the city"},
        "day": {"type": "string", "enum": ["today", "tomorrow"]},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
    },
    "required": ["city", "day", "unit"],
    "additionalProperties": False,
}
WEATHER: dict[str, Any] = {
    "name": "get_weather",
    "description": "Get the weather forecast for a city.",
    "parameters": PARAMETERS,
}
LONG_TEXT: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string", "minLength": 800}},
    "required": ["text"],
    "additionalProperties": False,
}
LONG: dict[str, Any] = {
    "name": "write_text",
    "description": "Write a long text.",
    "parameters": LONG_TEXT,
}
"""A call of this one takes many tokens, whatever the model is like: there is time to cancel it."""
GREETING = "Hello!"
TWO_CITIES = "What's the weather in Rome today and in Oslo tomorrow, in celsius?"
PATIENCE = 60  # seconds
_scenarios: dict[str, Callable[[], Any]] = {}


def scenario(function: Callable[[], Any]) -> Callable[[], Any]:
    """Declares a scenario: it raises if something is wrong, and returns what the client got, as
    JSON, without what may differ from run to run (ids, times)."""
    name = function.__name__.rstrip("_")
    assert name in NAMES or name.partition("__")[0] in NAMES, f"{name} is no scenario"
    _scenarios[name] = function
    return function


def main() -> None:
    """Runs all scenarios; a line of JSON for each."""
    for name, function in _scenarios.items():
        line: dict[str, Any] = {"scenario": name}
        try:
            line |= {"ok": True, "result": function()}
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__}: {error}"[:500]
            line |= {"ok": False, "error": said, "line": f"{place.filename}:{place.lineno}"}
        print(json.dumps(line), flush=True)


@contextmanager
def cancelling(turns: int = 1) -> Iterator[None]:
    """Checks that the server ends a turn which the client leaves inside the block."""
    before = _count("unfinished_total")
    yield
    for _ in range(PATIENCE * 20):
        if _count("unfinished_total") >= before + turns and not _count("running"):
            return
        time.sleep(0.05)
    raise AssertionError("the server has not ended the turn")


def _count(name: str) -> int:
    with urllib.request.urlopen(f"{URL}/metrics", timeout=PATIENCE) as response:
        metrics = response.read().decode()
    found = re.search(rf"^constrained_{name} (\d+)", metrics, re.MULTILINE)
    assert found, f"the server has no metric {name}"
    return int(found[1])


def check_weather(name: str, arguments: Any) -> dict[str, Any]:
    """A call of the tool, typed; what it says, as JSON."""
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    assert name == "get_weather", name
    assert set(arguments) == set(ANSWERED), arguments
    assert arguments["unit"] in ("celsius", "fahrenheit"), arguments
    assert arguments["day"] in ("today", "tomorrow"), arguments
    return arguments
