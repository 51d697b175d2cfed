"""The formats that the slow tests look at: every construct of the algebra, not every combination,
and the first format of a kind of arguments that none of them has.

With the profile `thorough` it is all of them; some quick tests always look at all.
"""

import os
from collections.abc import Callable

import pytest

from grammars.spelling.styles import speaks_json
from grammars.wire.format import Content, Format
from grammars.wire.formats import FORMATS
from tests.agreement.real_vocabularies import NAMES

_CONSTRUCTS = (
    "hermes",  # a JSON call between markers
    "qwen3_coder",  # tagged arguments; the marker may be missing
    "mistral_small",  # an id between name and JSON
    "llama3_json",  # no marker
    "generic",  # no reasoning
    "kimi_k2",  # opened together; an index that goes on
    "kimi_k3",  # tags of several tokens, told types, content between tags, a tail
    "command_r7b",  # an index in JSON; content without calls
    "mistral_nemo",  # a list; an id in JSON
    "minimax_m2",  # tagged arguments, opened together
    "glm47",  # a name in front of tags
    "dsml",  # told types, and all others
    "seed_oss",  # Python's spelling between tags
    "minicpm5",  # strings in a wrapper
    "gemma4",  # raw strings between tokens
    "command_r",  # indented
    "apertus",  # the name as a key
    "harmony",  # messages with headers
    "muse",  # a name written twice; a header for each call
    "lfm2",  # calls in Python
    "minimax_m3",  # nested tags
    "functionary_v32",  # content and calls begin alike
)
IS_THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
SCALE = 80 if IS_THOROUGH else 1
"""How many times the examples that are enough for a quick look: there are many formats."""
_COVERED = {type(f.hole) for f in FORMATS if f.name in _CONSTRUCTS}
_FIRST_OF_OTHERS = {type(f.hole): f.name for f in reversed(FORMATS) if type(f.hole) not in _COVERED}
_NAMES = {*_CONSTRUCTS, *_FIRST_OF_OTHERS.values()}
CHOSEN = tuple(f for f in FORMATS if IS_THOROUGH or f.name in _NAMES)
EACH = pytest.mark.parametrize("name", [f.name for f in CHOSEN])


SIMPLE = pytest.mark.parametrize("name", NAMES)


def each(fits: Callable[[Format], bool]) -> pytest.MarkDecorator:
    """The chosen formats that fit."""
    return pytest.mark.parametrize("name", [f.name for f in CHOSEN if fits(f)])


def is_plain(format: Format) -> bool:
    """Is content written as it is?"""
    return format.contents == (Content(),)


def is_json(format: Format) -> bool:
    """Are arguments JSON, or text between tags?"""
    return speaks_json(format.hole.style)
