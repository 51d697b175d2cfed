"""The draft that a `$schema` means: one that the validator knows, however its URI is written."""

import re

from grammars.schema.validator import LATEST

_KNOWN = re.compile(r"https?://json-schema\.org/(draft-0[467]|draft/20(19-09|20-12))/schema#?|#?")
_HOST = r"(?:https?://)?(?:www\.)?json-schema\.org"
_BY_YEAR = re.compile(rf"{_HOST}/(draft/20(?:19-09|20-12))(?:/|$)")
_BY_NUMBER = re.compile(rf"{_HOST}/draft-0([3-7])(?:/|$)")
_SUCCESSORS = {"3": "4", "5": "4"}
_EXTENSIONS = re.compile(
    rf"{_HOST}/(?:schema|v1|draft/next)(?:/|$)|(?:https?://)?spec\.openapis\.org/oas/3\.1(?:/|$)"
)
"""What extends the newest draft: JSON Schema 1 and the schemas of OpenAPI 3.1."""


def read_dialect(given: str) -> str | None:
    """Returns the URI of a draft in its usual spelling; for drafts 3 and 5, which the validator
    does not know, the URI of the next draft.

    Returns:
        the URI itself if the validator knows it; None if it means none of the drafts.
    """
    if _KNOWN.fullmatch(given):
        return given
    plain = given.strip().lower().rstrip("#")
    by_year = _BY_YEAR.match(plain)
    if by_year is not None:
        return f"https://json-schema.org/{by_year[1]}/schema"
    by_number = _BY_NUMBER.match(plain)
    if by_number is not None:
        number = _SUCCESSORS.get(by_number[1], by_number[1])
        return f"http://json-schema.org/draft-0{number}/schema#"
    if _EXTENSIONS.match(plain):
        return LATEST
    return None
