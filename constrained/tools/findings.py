"""What a report on a schema looks like: as JSON, and in lines."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields

from grammars.errors import Error
from grammars.schema.nodes import Finding, Report
from grammars.schema.subschemas import find_keyword

STATES = tuple(part.name for part in fields(Report))
_WORDS = {
    "enforced": "held by the mask",
    "checked": "checked after generation",
    "repaired": "repaired",
    "ignored": "ignored",
}


def show_report(report: Report) -> dict[str, list[dict[str, str]]]:
    """The findings of each state as `{pointer, keyword, reason}`."""
    return {state: [asdict(finding) for finding in getattr(report, state)] for state in STATES}


def describe_report(report: Report, states: Sequence[str]) -> Iterator[str]:
    """The findings of some states, one a line."""
    for state in states:
        for finding in getattr(report, state):
            where = finding.pointer or "the root"
            reason = f" ({finding.reason})" if finding.reason else ""
            yield f"{_WORDS[state]}: {finding.keyword} at {where}{reason}"


def explain_refusal(error: Error, hint: str | None = None) -> dict[str, str | None]:
    """Why something is refused: `{pointer, keyword, reason, hint}`.

    Args:
        hint: what to do if the error does not say it.
    """
    where = error.where or ""
    why = Finding(where, find_keyword(where), error.message)
    return {**asdict(why), "hint": error.hint or hint}
