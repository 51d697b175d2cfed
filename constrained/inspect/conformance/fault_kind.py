"""The kinds of faults of servers: ids of findings depend on them, and not on the wording of a
message."""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any


class FaultKind(StrEnum):
    """What is wrong, without the details."""

    CONTENT = "other content"
    NO_CONTENT = "no content"
    LOST_CALL = "lost call"
    EXTRA_CALL = "extra call"
    CALL_ORDER = "order of calls"
    ARGUMENTS = "other arguments"
    NO_JSON = "not JSON"
    SCHEMA = "schema"
    CALL_ID = "id of a call"
    FINISH_REASON = "finish_reason"
    TAG = "tag in the content"
    FORM = "form of the answer"
    NO_ANSWER = "no answer"
    ACCEPTED = "accepted"
    NO_MESSAGE = "no error message"
    CLIENT_ERROR = "status 4xx"
    SERVER_ERROR = "status 5xx"
    STATUS = "other status"


def find_status_kind(status: int) -> FaultKind:
    """Returns the kind of a wrong HTTP status."""
    match status // 100:
        case 2:
            return FaultKind.ACCEPTED
        case 4:
            return FaultKind.CLIENT_ERROR
        case 5:
            return FaultKind.SERVER_ERROR
        case _:
            return FaultKind.STATUS


def compare_calls(
    wanted: Sequence[tuple[str, Any]], got: Sequence[tuple[str, Any]]
) -> Iterator[FaultKind]:
    """Yields the kinds of differences between calls that are not the same.

    Args:
        wanted, got: the name and the arguments of each call.
    """
    wanted_names = [name for name, _ in wanted]
    got_names = [name for name, _ in got]
    lost = Counter(wanted_names) - Counter(got_names)
    extra = Counter(got_names) - Counter(wanted_names)
    if lost:
        yield FaultKind.LOST_CALL
    if extra:
        yield FaultKind.EXTRA_CALL
    if not lost and not extra:
        yield FaultKind.ARGUMENTS if got_names == wanted_names else FaultKind.CALL_ORDER
