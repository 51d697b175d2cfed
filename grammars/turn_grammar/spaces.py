"""White space around the texts of a turn, where a model may add some."""

import re
from collections.abc import Sequence

from grammars.regex.writing import escape_regex
from grammars.spelling.names import BLANK
from grammars.turn_grammar.ir import nodes as ir
from grammars.turn_grammar.ir.grammar import GrammarBuilder
from grammars.turn_grammar.values import LOOSE
from grammars.wire.format import Format

_GAP = re.compile(r"(^\s*|(?<=^,)\s+|(?<=[\[\]}>])\s*(?=[\[\]{<])|\s+$)")
"""Where the model chooses the white space: around texts, between two calls in JSON, between tags
and brackets."""


class SpacedTexts:
    """Adds the rules of fixed texts to a grammar, with the white space around them."""

    def __init__(self, format: Format, builder: GrammarBuilder, *, has_answer: bool):
        self._format = format
        self._builder = builder
        self._has_answer = has_answer

    @property
    def is_answer_first(self) -> bool:
        """True if a turn may begin with an answer of a given form. If content has an opener, that
        comes before the answer, as before any other content."""
        return self._has_answer and not self._format.contents[0].opener

    def text(self, text: str, *, spaced: bool) -> ir.Expression:
        """Returns the text. If white space may precede it, both are one terminal: otherwise content
        that begins with the same white space would win over a terminal of white space alone."""
        return self._spaced(text) if spaced else self._builder.fixed(text)

    def text_after(self, text: str) -> ir.Expression:
        """Returns a text that follows other parts of a call, or the last call."""
        return self.text(text, spaced=self._format.is_loose and bool(text.strip()))

    def spaced(self, marker: str) -> ir.Expression:
        """Returns the marker after optional white space, which some models write.

        If the marker is text, both are one terminal, since content may also begin with white space.
        If a turn may begin with an answer, they are two: the lexer would not give up one terminal
        for the answer.
        """
        if not self.is_answer_first:
            return self._spaced(marker)
        text = marker.lstrip()
        if text == marker:
            return ir.sequence(ir.optional(self.space()), self._builder.fixed(marker))
        # Two terminals of white space cannot share it: the first one would take all of it.
        lead = escape_regex(marker.removesuffix(text))
        space = self._space(f"{self._blanks(0)}{lead}")
        return ir.sequence(space, self._builder.fixed(text))

    def _spaced(self, text: str) -> ir.Expression:
        if self._format.is_loose:
            return self._loosen(text)
        first, *rest = self._builder.cut(text)
        if first in self._builder.ids:
            return ir.sequence(ir.optional(self.space()), self._builder.fixed(text))
        pattern = ir.Pattern(f"{self._blanks(0)}{escape_regex(first)}")
        head = self._builder.terminal(pattern, "CALL")
        return ir.sequence(head, self._builder.fixed("".join(rest)))

    def _loosen(self, text: str) -> ir.Expression:
        pieces = self._builder.cut(text)
        parts: list[ir.Expression] = []
        if pieces[0] in self._builder.ids:
            parts.append(ir.optional(self._space(LOOSE)))
        for piece in pieces:
            if piece in self._builder.ids:
                parts.append(self._builder.fixed(piece))
            elif piece.isspace():
                parts.append(ir.optional(self._space(_any_space(piece))))
            else:
                parts.append(self._builder.terminal(ir.Pattern(_loosen_gaps(piece)), "CALL"))
        return ir.sequence(*parts)

    def space(self) -> ir.Expression:
        return self._space(self._blanks(1))

    def _space(self, pattern: str) -> ir.Expression:
        return self._builder.terminal(ir.Pattern(pattern), "SPACE")

    def space_instead_of(self, texts: Sequence[str]) -> ir.Expression:
        """Returns optional white space in a place where one of these texts may follow, too.

        The white space in front of a special token is a terminal of its own. Of two terminals for
        the same white space, the lexer would consider only one; so these are taken here, too.
        """
        firsts = [pieces[0] for pieces in map(self._builder.cut, texts) if pieces]
        blanks = [first for first in firsts if first.isspace()]
        if self._format.is_loose:
            patterns = dict.fromkeys(map(_any_space, blanks))
            return ir.optional(ir.choice(self._space(pattern) for pattern in patterns or [LOOSE]))
        if blanks:
            return ir.optional(ir.choice(map(self._builder.fixed, dict.fromkeys(blanks))))
        return ir.optional(self.space())

    def space_before_answer(self) -> ir.Expression:
        most = self._format.max_answer_space
        return self._space(f"{BLANK}{{1,{most}}}")

    def _blanks(self, least: int) -> str:
        return f"{BLANK}{{{least},{self._format.max_space}}}"


def _loosen_gaps(text: str) -> str:
    pattern = ""
    for i, part in enumerate(_GAP.split(text)):
        is_gap = i % 2 == 1  # `re.split` returns what the group has matched at odd places
        pattern += f"{_any_space(part)}?" if is_gap else escape_regex(part)
    return pattern


def _any_space(written: str) -> str:
    """Returns a pattern for the white space of a gap: any, or the one of the template."""
    return f"({LOOSE}|{escape_regex(written)})" if len(written) > 1 else LOOSE
