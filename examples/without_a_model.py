"""The grammar and the parser alone: text in, text out.

python -m examples.without_a_model
"""

from constrained.prompt.tools import read_tools
from grammars.parse import Parser, collect
from grammars.parse.render import render
from grammars.turn import Policy, ToolCall, Turn
from grammars.turn_grammar.turn import build_grammar
from grammars.wire.formats import FORMATS

TOOLS = read_tools(
    [
        {
            "name": "write_file",
            "input_schema": {
                "type": "object",
                "properties": {"mode": {"type": "integer"}, "path": {"type": "string"}},
                "required": ["path"],
            },
        }
    ]
)
WRITTEN = Turn(calls=(ToolCall("write_file", {"mode": 420, "path": "a.py"}),))


def main() -> None:
    """Prints the grammar of each format, and what the parser reads, fed three bytes at a time."""
    for format in FORMATS:
        print(f"--- {format.name}")
        print(build_grammar(format, TOOLS, Policy.named("write_file")))
        parser, text = Parser(format, TOOLS), render(WRITTEN, format)
        events = [e for at in range(0, len(text), 3) for e in parser.feed(text[at : at + 3])]
        turn = collect([*events, *parser.close()])
        print(turn.calls[0].name, turn.calls[0].arguments, f"valid: {turn.calls[0].valid}")


if __name__ == "__main__":
    main()
