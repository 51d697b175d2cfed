"""Finds the earlier request that a prompt could have continued: one of the same conversation, or
one with nearly the same system message and tools.

Requests of unrelated agents, sub-agents and users are interleaved. Differences between unrelated
requests are normal; differences between requests of the same client make it lose its cached prefix.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from server.observe.prompt_parts import PromptParts, count_same

MAX_CHANGED = 4
"""Two parts are nearly the same if fewer than one in this many characters differ."""
MIN_SAME = 100
"""The fewest characters of system message and tools that must be equal: short ones may be equal by
chance."""


MAX_TRIED = 16
"""The limit for messages that are tried as the first one that was kept."""


class Relation(IntEnum):
    """How an earlier request relates to a later one."""

    NONE = 0
    ALIKE = 1
    """Another conversation with nearly the same system message and tools."""
    CONTINUED = 2
    """The later request continues the conversation of the earlier one."""


@dataclass(frozen=True)
class RelatedRequest:
    """An earlier request, and its relation to a later one."""

    parts: PromptParts
    relation: Relation


def find_related_request(kept: Iterable[PromptParts], later: PromptParts) -> RelatedRequest | None:
    """Finds the earlier request that is closest to a later one; None if there is none.

    Args:
        kept: earlier requests, the last one first.
        later: the request.
    """
    best: tuple[bool, int, int] = (False, 0, 0)
    continued: PromptParts | None = None
    alike: PromptParts | None = None
    is_head_known = False
    for earlier in kept:
        has_same_head = earlier.head == later.head
        is_head_known = is_head_known or has_same_head
        if continues(earlier, later):
            # Among similar conversations that run in parallel, the one with the same beginning
            # counts; of its requests, the last one.
            score = (
                has_same_head,
                _count_same_messages(earlier, later),
                _count_kept_messages(earlier, later),
            )
            if score > best:
                best, continued = score, earlier
        elif alike is None and not has_same_head and are_alike(earlier, later):
            alike = earlier
    if continued is not None:
        return RelatedRequest(continued, Relation.CONTINUED)
    # If the same beginning was seen before, nothing is lost: a client that alternates between
    # two system messages, such as an agent and its helper, has both in the cache.
    if alike is None or is_head_known:
        return None
    return RelatedRequest(alike, Relation.ALIKE)


def continues(earlier: PromptParts, later: PromptParts) -> bool:
    """Returns whether the later request continues the conversation of the earlier one, even if
    parts have changed. An equal first question is not enough, since many conversations begin with
    the same one."""
    before, after = earlier.messages, later.messages
    if not before:
        return False
    if find_dropped(earlier, later) is not None:
        return True
    if len(after) < len(before) or len(after) == 1:
        return False
    # Many questions may share the same examples of questions and answers.
    if len(after) == len(before) and after[-1] != before[-1]:
        return False
    aligned = _count_aligned(earlier, later)
    return aligned == len(before) or (aligned >= 2 and aligned * 2 >= len(before))


def find_dropped(earlier: PromptParts, later: PromptParts) -> range | None:
    """Returns the numbers of the messages that the later request leaves out, if messages that
    followed them (two at least) are still there. Clients do so that only keep the last messages.
    None: there are no such messages."""
    before, after = earlier.messages, later.messages
    same = _count_same_messages(earlier, later)
    if same >= len(after):
        return None
    tried = 0
    for start in range(same + 1, len(before) - 1):
        if before[start] == after[same]:
            rest = before[start:]
            if after[same : same + len(rest)] == rest:
                return range(same, start)
            tried += 1
            if tried == MAX_TRIED:  # a conversation that repeats one message
                break
    return None


def _count_same_messages(earlier: PromptParts, later: PromptParts) -> int:
    """Returns how many messages are the same, from the first one on."""
    same = 0
    for before, after in zip(earlier.messages, later.messages, strict=False):
        if before != after:
            break
        same += 1
    return same


def _count_aligned(earlier: PromptParts, later: PromptParts) -> int:
    """Returns how many messages are the same at the same index."""
    pairs = zip(earlier.messages, later.messages, strict=False)
    return sum(before == after for before, after in pairs)


def _count_kept_messages(earlier: PromptParts, later: PromptParts) -> int:
    """Returns how many messages the later request still has, including those after dropped ones."""
    dropped = find_dropped(earlier, later)
    if dropped is None:
        return _count_aligned(earlier, later)
    return len(earlier.messages) - len(dropped)


def are_alike(earlier: PromptParts, later: PromptParts) -> bool:
    """Returns whether system message and tools are nearly the same, and the tools have the same
    names: a client with other tools has another task."""
    names = sorted(name for name, _ in earlier.tools)
    if names != sorted(name for name, _ in later.tools):
        return False
    total = max(earlier.head_size, later.head_size)
    same_system = _count_kept(earlier.system, later.system)
    longest = max(len(earlier.system), len(later.system))
    if (longest - same_system) * MAX_CHANGED > longest:
        return False
    if earlier.system != later.system and same_system < MIN_SAME:
        return False
    same = same_system + _count_kept_tools(earlier, later)
    return same >= MIN_SAME and (total - same) * MAX_CHANGED <= total


def _count_kept_tools(earlier: PromptParts, later: PromptParts) -> int:
    """Returns how many characters of tools are the same, whatever the order of tools."""
    before: dict[str, list[str]] = {}
    for name, text in earlier.tools:
        before.setdefault(name, []).append(text)
    return sum(_count_kept(before[name].pop(0), text) for name, text in later.tools)


def _count_kept(before: str, after: str) -> int:
    """Returns how many characters are the same at the beginning and at the end."""
    start = count_same(before, after)
    if start == len(before) == len(after):
        return start
    following = count_same(before[start:][::-1], after[start:][::-1])
    return start + following
