"""Which form of a reply a client asks for, by its `Accept` header."""

from collections.abc import Mapping

HTML = "text/html"
JSON = "application/json"


def prefers_html(accept: str) -> bool:
    """Returns whether a client wants HTML rather than JSON, as browsers do. One that takes either
    (`*/*`: curl and most clients) gets JSON.

    Args:
        accept: the value of its `Accept` header; "" if it sends none.
    """
    qualities = dict(map(_read_range, accept.split(",")))
    return _find_quality(qualities, HTML) > _find_quality(qualities, JSON)


def _read_range(text: str) -> tuple[str, float]:
    """Returns a media range, and its quality; 0 if that is no number."""
    name, *parameters = [part.strip().lower() for part in text.split(";")]
    quality = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            quality = _read_quality(value)
    return name, quality


def _read_quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _find_quality(qualities: Mapping[str, float], media_type: str) -> float:
    """Returns the quality of a media type: that of the narrowest range that has it."""
    kind = media_type.partition("/")[0]
    for name in (media_type, f"{kind}/*", "*/*"):
        if name in qualities:
            return qualities[name]
    return 0.0
