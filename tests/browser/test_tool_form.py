"""The form for tools, which is in step with their JSON."""

import json
from typing import Any

import pytest

from tests.browser.conftest import Watched
from tests.browser.page_checks import ask, check_looks, open_chat

pytestmark = pytest.mark.browser
FORM = "#tool-form"


def read_tools(page: Any) -> Any:
    return json.loads(page.input_value("#tools"))


def write_json(page: Any, document: Any) -> None:
    """Writes the JSON by hand, and goes back to the form."""
    page.click("#tab-tool-json")
    page.fill("#tools", document if isinstance(document, str) else json.dumps(document))
    page.click("#tab-tool-form")


def test_a_tool_that_is_made_in_the_form_is_called(watched: Watched):
    page = open_chat(watched)
    page.get_by_role("button", name="Add a tool").click()
    page.keyboard.type("set_timer")  # its name has the focus
    tool = page.locator(f"{FORM} .tool[open]")
    tool.get_by_label("Description").fill("Start a timer")
    tool.get_by_role("button", name="Add a parameter").click()
    page.keyboard.type("minutes")
    minutes = tool.get_by_role("group", name="Parameter minutes")
    minutes.get_by_label("Type").select_option("integer")
    minutes.get_by_label("required").check()
    tool.get_by_role("button", name="Add a parameter").click()
    page.keyboard.type("sound")
    sound = tool.get_by_role("group", name="Parameter sound")
    sound.get_by_label("Description").fill("What is played")
    sound.get_by_label("Allowed values").fill("bell, horn")
    tool.get_by_label("Example result").fill('{"started": true}')
    check_looks(page)
    assert read_tools(page)[2]["function"] == {
        "name": "set_timer",
        "description": "Start a timer",
        "parameters": {
            "type": "object",
            "properties": {
                "minutes": {"type": "integer"},
                "sound": {
                    "type": "string",
                    "description": "What is played",
                    "enum": ["bell", "horn"],
                },
            },
            "required": ["minutes"],
        },
    }
    assert json.loads(page.input_value("#mocks"))["set_timer"] == {"started": True}
    page.select_option("#choice", "set_timer")
    ask(page, "Set a timer for 10 minutes")
    page.get_by_role("button", name="Send results").wait_for()
    assert page.locator(".call h2").inner_text() == "set_timer"
    assert page.locator(".call .value").first.inner_text() == "10"
    assert page.locator(".call textarea").input_value() == '{"started": true}'


def test_the_form_follows_the_json(watched: Watched):
    page = open_chat(watched)
    inner = {"type": "object", "properties": {"a": {"type": "integer"}}}
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1, "enum": [1, 2]},
            "names": {"type": "array", "items": {"type": "string"}},
            "inner": inner,
            "places": {"type": "string", "enum": ["a, b", "c"]},
        },
        "required": ["n", "inner"],
    }
    write_json(page, {"tools": [{"name": "find", "inputSchema": schema}]})
    form = page.locator(FORM)
    assert form.locator(".tool > summary").all_inner_texts() == ["find"]
    assert page.locator(f"{FORM} select").evaluate_all("all => all.map((one) => one.value)") == [
        "integer",
        "list of strings",
        "as in the JSON",
        "string",
    ]
    allowed = form.get_by_label("Allowed values")
    assert [field.input_value() for field in allowed.all()] == ["1, 2", '["a, b","c"]']
    boxes = form.get_by_label("required")
    assert [box.is_checked() for box in boxes.all()] == [True, False, True, False]
    form.get_by_role("group", name="Parameter n").get_by_label("Name").first.fill("number")
    form.get_by_role("group", name="Parameter inner").get_by_label("Description").fill("Inside")
    form.get_by_role("button", name="Remove names").click()
    assert read_tools(page) == {
        "tools": [
            {
                "name": "find",
                "inputSchema": {
                    "type": "object",
                    "properties": {
                        "number": {"type": "integer", "minimum": 1, "enum": [1, 2]},
                        "inner": {**inner, "description": "Inside"},
                        "places": {"type": "string", "enum": ["a, b", "c"]},
                    },
                    "required": ["number", "inner"],
                },
            }
        ]
    }


def test_mistakes_in_the_form_change_nothing(watched: Watched):
    page = open_chat(watched)
    before = read_tools(page)
    form = page.locator(FORM)
    unit = form.get_by_role("group", name="Parameter unit")
    unit.get_by_label("Name").first.fill("city")
    assert "Another parameter has this name" in unit.inner_text()
    days = form.get_by_role("group", name="Parameter days")
    days.get_by_label("Allowed values").fill("1, two")
    assert "Not every value is of type integer" in days.inner_text()
    form.locator(".tool-name").first.fill("order_pizza")
    assert "Another tool has this name" in form.inner_text()
    assert read_tools(page) == before


def test_a_mistake_in_the_json_is_told_in_the_form(watched: Watched):
    page = open_chat(watched)
    write_json(page, "[{")
    assert "This is not JSON" in page.locator(FORM).inner_text()
    assert page.input_value("#tools") == "[{"
    write_json(page, "[3]")
    assert "A tool must be a JSON object" in page.locator(FORM).inner_text()
    page.click("#tab-tool-json")
    page.click("#example-tools")
    page.click("#tab-tool-form")
    assert page.locator(f"{FORM} .tool").count() == 2


def test_a_tool_is_renamed_and_removed_with_its_result(watched: Watched):
    page = open_chat(watched)
    page.locator(f"{FORM} .tool-name").first.fill("weather_of")
    assert list(json.loads(page.input_value("#mocks"))) == ["order_pizza", "weather_of"]
    assert "weather_of" in page.locator("#choice").inner_text()
    page.get_by_role("button", name="Remove this tool").first.click()
    assert list(json.loads(page.input_value("#mocks"))) == ["order_pizza"]
    assert [tool["function"]["name"] for tool in read_tools(page)] == ["order_pizza"]


def test_numbers_keep_their_digits(watched: Watched):
    page = open_chat(watched)
    write_json(page, LONG_NUMBERS)
    page.locator(f"{FORM} .tool-name").fill("g")
    assert page.input_value("#tools").split() == LONG_NUMBERS.replace('"f"', '"g"').split()
    assert page.evaluate("JSON.stringify(readTools('tools'))") == "".join(
        page.input_value("#tools").split()
    )
    page.locator(f"{FORM} .tool").get_by_label("Example result").fill("9007199254740993")
    assert '"g": 9007199254740993' in page.input_value("#mocks")


LONG_NUMBERS = """[
  {
    "name": "f",
    "parameters": {
      "properties": {
        "n": { "type": "integer", "minimum": 1, "maximum": 9223372036854775807 },
        "x": { "type": "number", "minimum": 1.0 }
      }
    }
  }
]"""
NASTY = [
    ["a", "b c"],
    ["a, b", "c"],
    [" a"],
    [""],
    ["[1]"],
    ['"'],
    ["12", "null"],
    ["\u00fc,", "\n"],
]


def test_allowed_values_are_read_as_they_were_written(watched: Watched):
    page = open_chat(watched)
    read = "(all) => all.map((values) => readAllowed(writeAllowed(values), 'string'))"
    assert page.evaluate(read, NASTY) == NASTY
    numbers = [[1, 2], [-3, 10**15]]
    read = "(all) => all.map((values) => readAllowed(writeAllowed(values), 'integer'))"
    assert page.evaluate(read, numbers) == numbers


def test_every_type_is_known_again(watched: Watched):
    page = open_chat(watched)
    types = page.evaluate("Object.entries(TYPES).map(([name, schema]) => [name, typeOf(schema)])")
    assert [known for _, known in types] == [name for name, _ in types]
    others = [{}, {"type": ["string", "null"]}, {"$ref": "#/$defs/a"}, {"type": "array"}]
    assert page.evaluate("(all) => all.map(typeOf)", others) == ["as in the JSON"] * 4
