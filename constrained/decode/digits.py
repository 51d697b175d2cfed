"""The end of numbers: digits that no double can hold are legal JSON, but nobody means them."""

import re

import numpy as np

from constrained.vocabulary.vocabulary import Vocabulary

MOST_FRACTION = 24
"""Digits behind the first one that is not 0; a double has 17, and what is written out in decimals
seldom more than 20."""
MOST_WHOLE = 309
"""Digits without a point: those of the largest double. Keys and hashes are written so, too."""

_NUMBER = re.compile(rb"(\d+)(?:(\.)(\d*))?(?:[eE][+-]?(\d+))?\Z")


def has_too_many_digits(text: bytes | bytearray) -> bool:
    """True if a text ends with a number, or with what looks like one, that is long enough."""
    if not text[-MOST_FRACTION:].isdigit():
        return False
    found = _NUMBER.search(text, max(0, len(text) - 2 * MOST_WHOLE))
    if found is None:
        return False
    whole, point, fraction, exponent = found.groups()
    if exponent is not None:
        return len(exponent) >= MOST_FRACTION
    if point is None:
        return len(whole) >= MOST_WHOLE
    significant = whole.lstrip(b"0") + fraction
    behind = fraction if whole.strip(b"0") else significant.lstrip(b"0")[1:]
    return len(behind) >= MOST_FRACTION or len(fraction) >= MOST_WHOLE


def end_number(logits: np.ndarray, text: bytes | bytearray, vocabulary: Vocabulary) -> bool:
    """Forbids, in place, to go on with the number that a text ends with; False if that is no
    number, or may not end there.

    Args:
        logits: as the mask has left them: where a letter or a quote may come next, the digits are
            those of a string.
        text: of the turn.
        vocabulary: that of the logits.
    """
    if not text[-1:].isdigit():
        return False
    allowed = np.isfinite(logits)
    if (allowed & vocabulary.wordlike).any():
        return False
    others = allowed & ~vocabulary.numeric
    if not others.any():
        return False
    logits[~others] = -np.inf
    return True
