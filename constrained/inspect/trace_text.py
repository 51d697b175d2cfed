"""A trace as text for a terminal: the tokens, coloured by what decided about them."""

from collections.abc import Iterator, Mapping
from typing import Any

from constrained.decode.token_trace import TokenSource
from constrained.model.trace.places import TracedPart
from grammars.turn import Start

RESET = "\x1b[0m"
COLOURS = {
    TokenSource.DRAWN.value: "",
    TokenSource.ONLY.value: "\x1b[36m",  # cyan
    TokenSource.FORCED.value: "\x1b[32m",  # green
    TokenSource.INSERTED.value: "\x1b[35m",  # magenta
    TokenSource.WRITTEN.value: "\x1b[90m",  # grey
}
WANTED = "\x1b[1;33m"  # yellow: the model preferred another token
DIM = "\x1b[2;9m"  # struck out: discarded
MARKS = {
    TokenSource.ONLY.value: "=",
    TokenSource.FORCED.value: ">",
    TokenSource.INSERTED.value: "+",
    TokenSource.WRITTEN.value: "~",
}


def write_text(
    trace: Mapping[str, Any], *, is_coloured: bool, lists_tokens: bool = False
) -> Iterator[str]:
    """Yields the lines that display a trace.

    Args:
        trace: what `TurnTrace.to_json` returned.
        is_coloured: use colours (escape codes of terminals); False: marks in place of colours.
        lists_tokens: add a line for each token.
    """
    request = trace.get("request")
    if request:
        yield _escape_line(f"request {request['id']} of {request['time']}, {request['model']}")
    begins = Start(trace["start_state"]).words
    about = f"format {trace['format']}, begins {begins}, {_count(trace)}"
    yield _escape_line(about)
    text = "".join(_show(token, is_coloured=is_coloured) for token in trace["tokens"])
    yield from text.split("\n")
    yield ""
    if lists_tokens:
        yield from _list_tokens(trace["tokens"])
        yield ""
    yield from _list_wanted(trace["tokens"])
    yield _explain(is_coloured=is_coloured)


def _count(trace: Mapping[str, Any]) -> str:
    counts: dict[str, int] = {}
    for token in trace["tokens"]:
        counts[token["source"]] = counts.get(token["source"], 0) + 1
    listed = ", ".join(f"{count} {source}" for source, count in counts.items())
    return f"{len(trace['tokens'])} tokens ({listed}), ended by {trace['finish_reason']}"


def _show(token: Mapping[str, Any], *, is_coloured: bool) -> str:
    text = "".join(_escape(char) for char in token["text"])
    if token.get("end"):
        text = f"[{text or token['token']}]"
    if is_coloured:
        colour = COLOURS[token["source"]]
        if token.get("discarded"):
            colour = DIM
        elif find_wanted(token) is not None:
            colour = WANTED
        return f"{colour}{text}{RESET}" if colour else text
    mark = MARKS.get(token["source"], "")
    if token.get("discarded"):
        mark = "-"
    elif find_wanted(token) is not None:
        mark += "!"
    return f"{mark}{{{text}}}" if mark else text


def _escape(char: str) -> str:
    """Escapes a control character: the text of a model could move the cursor with it."""
    if char.isprintable() or char == "\n":
        return char
    return char.encode("unicode_escape").decode("ascii")


def _escape_line(text: str) -> str:
    return "".join(map(_escape, text)).replace("\n", "\\n")


def _describe_place(token: Mapping[str, Any]) -> str:
    """Returns where a token is."""
    part = token.get("part", "discarded")
    pointer = _escape_line(token.get("pointer", ""))
    if part == TracedPart.ARGUMENTS.value and pointer:
        described = f"argument {pointer}"
    else:
        described = f"{part} {pointer}".strip()
    if "call" in token:
        described += f" of call {token['call'] + 1}"
    return described


def _list_tokens(tokens: list[Mapping[str, Any]]) -> Iterator[str]:
    for number, token in enumerate(tokens):
        text = _escape_line(token["text"]) or "[end]"
        yield f"{number:>5}  {token['source']:<8}  {text!r:<20}  {_describe_place(token)}"


def find_wanted(token: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the alternative that the model would have preferred, if that was forbidden."""
    for best in token.get("alternatives", ())[:1]:
        if not best["allowed"]:
            return best
    return None


def _list_wanted(tokens: list[Mapping[str, Any]]) -> Iterator[str]:
    for number, token in enumerate(tokens):
        best = find_wanted(token)
        if best is None:
            continue
        yield (
            f"token {number} ({_describe_place(token)}): "
            f"wanted {best['text']!r} ({best['probability']:.0%}), "
            f"which is not allowed; has {token['text']!r} ({token['probability']:.0%} before, "
            f"{token['masked_probability']:.0%} after the mask of {token['allowed']} tokens)"
        )


def _explain(*, is_coloured: bool) -> str:
    if is_coloured:
        parts = [
            f"{COLOURS['only']}the only one allowed{RESET}",
            f"{COLOURS['forced']}forced{RESET}",
            f"{COLOURS['inserted']}inserted{RESET}",
            f"{COLOURS['written']}written by another process{RESET}",
            f"{WANTED}the model wanted another{RESET}",
            f"{DIM}discarded{RESET}",
        ]
        return "plain: drawn; " + "; ".join(parts)
    return (
        "={}: the only one allowed; >{}: forced; "
        "+{}: inserted; ~{}: written by another process; !: the model wanted another; "
        "-{}: discarded; all others were sampled"
    )
