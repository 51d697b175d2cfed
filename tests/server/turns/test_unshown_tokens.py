"""Which tokens are shown with a piece of content."""

import pytest

from constrained.mask.logprobs import TokenDrawn
from server.turns.unshown_tokens import UnshownTokens


def add(unshown: UnshownTokens, *texts: bytes) -> None:
    for text in texts:
        unshown.add(TokenDrawn(0, text))


def take(unshown: UnshownTokens, text: str) -> list[bytes]:
    return [token.text for token in unshown.take(text)]


@pytest.mark.parametrize(
    ("waiting", "pieces"),
    [
        ([b"<final>", b"a"], {"a": [b"a"]}),
        ([b"<", b"final", b">", b"f"], {"f": [b"f"]}),
        ([b"</think>", b"\n\n", b"Hi", b" there"], {"Hi": [b"Hi"], " there": [b" there"]}),
        ([b"<final>Hi", b" ", b"<"], {"Hi": [b"<final>Hi"], " ": [b" "]}),
        ([b"ab", b"c"], {"a": [b"ab"], "b": [], "c": [b"c"]}),  # `b` may have begun a stop text
        ([b"ab", b"c", b"b"], {"a": [b"ab"], "bc": [b"c"], "b": [b"b"]}),
        ([b"a\xff", b"b"], {"a\ufffdb": [b"a\xff", b"b"]}),  # in another form
        ([b"a"], {"a": [b"a"], "x": []}),
    ],
)
def test_the_tokens_of_a_piece_of_content(
    waiting: list[bytes], pieces: dict[str, list[bytes]]
) -> None:
    unshown = UnshownTokens()
    add(unshown, *waiting)
    assert {text: take(unshown, text) for text in pieces} == pieces


def test_text_that_was_held_back_is_shown_from_its_beginning() -> None:
    unshown = UnshownTokens()
    add(unshown, b"a")
    assert take(unshown, "a") == [b"a"]
    add(unshown, b"-", b"- ", b"-")
    assert [take(unshown, piece) for piece in ("-", "- ", "-")] == [[b"-"], [b"- "], [b"-"]]
    add(unshown, b"</a>", b"<b>")
    unshown.take_all()
    add(unshown, b"<a>", b"a")
    assert take(unshown, "a") == [b"a"]
