"""A parser for the pipe of `constrained suite`: ours, with a fault by name.

python piped_parser.py [FAULT [ABILITY ...]]
"""

import json
import sys

from constrained.prompt.tools.shapes import read_tools
from grammars.parse.parser import Parser, parse
from grammars.turn import ArgumentsDelta, CallOpened, ContentDelta, Event, ReasoningDelta
from grammars.wire.formats import HERMES


def show(event: Event) -> dict[str, object]:
    match event:
        case ContentDelta(text):
            return {"content": text}
        case ReasoningDelta(text):
            return {"reasoning": text}
        case CallOpened(index, name):
            return {"calls": [{"index": index, "name": name}]}
        case ArgumentsDelta(index, text):
            return {"calls": [{"index": index, "arguments": text}]}
        case _:
            return {}


def answer(request: dict[str, object], fault: str) -> dict[str, object]:
    tools = read_tools(request["tools"])
    if "chunks" in request:
        parser = Parser(HERMES, tools, stream=True)
        events = [event for chunk in request["chunks"] for event in parser.feed(chunk)]
        deltas = [show(event) for event in events + parser.close()]
        if fault == "tells twice":
            deltas += [delta for delta in deltas if "name" in json.dumps(delta)]
        return {"deltas": deltas}
    turn = parse(request["text"], HERMES, tools, recover=True)
    calls = [{"name": call.name, "arguments": call.arguments} for call in turn.calls]
    content = turn.content + turn.unfinished
    return {"content": content, "reasoning": turn.reasoning, "calls": calls}


def main(fault: str = "none", *abilities: str) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "hello" in request:
            print(json.dumps({"id": request["id"], "can": abilities}), flush=True)
            continue
        told = json.dumps({"id": request["id"], **answer(request, fault)})
        print(told, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
