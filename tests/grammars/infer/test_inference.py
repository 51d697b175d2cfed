"""The format of a template that nobody has described."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from constrained.prompt.template.chat_template import ChatTemplate
from grammars.errors import DetectError
from grammars.wire.format import (
    CallId,
    CallIndex,
    Content,
    ContentPlace,
    Format,
    JsonArguments,
    JsonCall,
    KeywordArguments,
    Literal,
    Marker,
    Name,
    TaggedArguments,
    find_named,
)
from grammars.wire.format_text import dump_format, load_format
from grammars.wire.formats import NATIVE
from tests.found_formats import infer
from tests.real_templates import real_templates

FILE = Path(__file__).parents[2] / "data" / "inferred_formats.jsonl"
ROWS = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def sketch(format: Format) -> dict[str, Any]:
    """A format in a few words: a call with arguments, and what stands around calls."""
    holes = {Name: "NAME", CallId: "ID", CallIndex: "INDEX"}
    call = ""
    for node in format.call:
        match node:
            case Literal(text) | Marker(text):
                call += text
            case JsonCall(name, arguments, id=id, id_key=key):
                first = f"{key}, " * bool(id and node.id_first)
                call += f"JSON({first}{name}, {arguments}{f', {key}' * bool(id and not first)})"
            case JsonArguments(style):
                call += f"{{KEY{style.key}{style.quotes[0]}VALUE{style.quotes[0]}}}"
            case KeywordArguments(item, after_key, quote=quote):
                call += f"KEY{after_key}{quote}VALUE{quote}{item}..."
            case TaggedArguments():
                kind = f"KIND{node.after_kind}" if node.kinds else ""
                call += f"{node.open}KEY{node.after_key}{kind}VALUE{node.close}...{node.end}"
            case _:
                call += holes[type(node)]
    fixed = {"opening": format.opening, "closing": format.closing}
    drawn: dict[str, Any] = {"format": format.name, "call": call}
    drawn |= {key: "".join(node.text for node in nodes) for key, nodes in fixed.items() if nodes}
    drawn |= {key: text for key in ("before", "between", "after") if (text := getattr(format, key))}
    (content,) = format.contents
    if content != Content():
        drawn["content"] = f"{content.opener}TEXT{content.closer}"
    return drawn | ({"single": True} if format.single else {}) | {"ends": list(format.ends)}


def test_the_table_is_about_all_templates() -> None:
    assert [row["template"] for row in ROWS] == list(real_templates())
    assert sum("format" in row for row in ROWS) == 58


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["template"])
def test_a_real_template(row: dict[str, Any]) -> None:
    template = real_templates()[row["template"]]
    if "error" in row:
        with pytest.raises(DetectError) as info:
            infer(template.render)
        assert row["error"] in info.value.message
    else:
        expected = {key: value for key, value in row.items() if key != "template"}
        found = infer(template.without_forms().render).format
        assert sketch(found) == expected
        assert load_format(dump_format(found)) == found


def test_what_has_a_name_is_what_has_that_name() -> None:
    """Apart from what the templates of a family do differently."""
    for row in ROWS:
        known = find_named(row.get("format", ""), NATIVE)
        if known is not None:
            found = infer(real_templates()[row["template"]].render).format
            own = {key: getattr(found, key) for key in ("reasoning", "before", "between", "after")}
            style = found.hole.style
            nodes = tuple(
                replace(node, style=style) if isinstance(node, JsonCall) else node
                for node in known.call
            )
            assert found == replace(known, call=nodes, ends=found.ends, **own)


def test_the_evidence_tells_what_was_seen() -> None:
    rows = infer(real_templates()["tencent-Hy3"].render).evidence
    told = {row.probe: (row.text, row.conclusion) for row in rows}
    assert "between them: '\\n'" in told["two calls"][1]
    assert told["null"][0].count("<arg_value:opensource>null</arg_value:opensource>") == 1
    assert told["content and three calls"][1] == "written alike"
    assert {"content", "one call", "content and a call", "reasoning and a call"} < told.keys()


AFTER = """
{%- for m in messages -%}
<|{{ m.role }}|>
{%- for c in m.tool_calls -%}
<call>{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}</call>
{%- endfor -%}
AMID{{ m.content }}<|end|>
{%- endfor -%}
{%- if add_generation_prompt %}<|assistant|>{% endif -%}
"""


def test_content_that_a_template_writes_behind_calls_stands_there() -> None:
    found = infer(ChatTemplate(AFTER.replace("AMID", "")).render)
    assert found.format.content_places == (ContentPlace.AFTER, ContentPlace.BEFORE)
    told = {row.probe: row.conclusion for row in found.evidence}
    assert told["content and a call"] == "content stands after calls"
    assert told["content and three calls"] == "written alike"


def test_what_stands_behind_the_end_of_a_turn_is_no_content_of_it() -> None:
    header = "{% if m.tool_calls and m.content %}<|end|><|assistant|>{% endif %}"
    found = infer(ChatTemplate(AFTER.replace("AMID", header)).render)
    assert found.format.content_places == (ContentPlace.BEFORE,)
