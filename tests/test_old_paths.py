"""Modules that documents named before they were moved are found by those names, too."""

from importlib import import_module

import pytest

MOVED = {
    "constrained.embedded": "constrained.model_files.embedded",
    "constrained.job": "constrained.prompt.job",
    "constrained.mcp.server": "constrained.agent.mcp.server",
    "constrained.reply": "constrained.model.reply",
    "constrained.tools": "constrained.prompt.tools",
    "constrained.trace.turn_trace": "constrained.model.trace.turn_trace",
    "grammars.format_text": "grammars.wire.format_text",
    "grammars.formats": "grammars.wire.formats",
    "grammars.formats.hermes": "grammars.wire.formats.json_call",
    "grammars.lark": "grammars.turn_grammar.turn",
    "grammars.lowering.lower": "grammars.schema.lowering.lower",
    "grammars.render": "grammars.parse.render",
    "grammars.steps": "grammars.limits.steps",
}


@pytest.mark.parametrize("former", MOVED)
def test_a_former_name_finds_the_same_module(former: str) -> None:
    assert import_module(former) is import_module(MOVED[former])


def test_what_was_never_there_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match="formats_of_yore"):
        import_module("grammars.formats_of_yore")
