"""Which earlier request a prompt could have gone on from: that of the same conversation, or one
whose system message and tools are nearly the same.

Agents, their sub-agents and users who have nothing to do with each other ask in turn. What differs
between them is no loss; what one of them changes from request to request is.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from server.observe.prompt_parts import PromptParts, count_same

MAX_CHANGED = 4
"""A part is nearly the same if less than one in so many characters has changed."""
LEAST_SAME = 100
"""Characters of a system message and of tools that have to be the same, at least: two short ones
are alike by chance."""


MAX_TRIED = 16
"""Messages that are tried as the first one that was not dropped."""


class Relation(IntEnum):
    """What an earlier request has to do with a later one."""

    NONE = 0
    ALIKE = 1
    """Another conversation behind nearly the same system message and tools."""
    CONTINUED = 2
    """The later request goes on with its conversation."""


@dataclass(frozen=True)
class Kin:
    """An earlier request that a later one is compared with."""

    parts: PromptParts
    relation: Relation


def find_kin(kept: Iterable[PromptParts], later: PromptParts) -> Kin | None:
    """The earlier request that has most to do with a later one; None if there is none.

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
            # Of conversations that run side by side and do the same, it is the one whose beginning
            # is the same; of the requests of that one, the last.
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
        return Kin(continued, Relation.CONTINUED)
    # Where the same beginning was there before, nothing of it is lost: whoever asks with two system
    # messages in turn, such as an agent and its helper, has both in the cache.
    if alike is None or is_head_known:
        return None
    return Kin(alike, Relation.ALIKE)


def continues(earlier: PromptParts, later: PromptParts) -> bool:
    """True if the later request goes on with the conversation of the earlier one, whatever has
    changed in it. The same question alone is no sign: many ask it."""
    before, after = earlier.messages, later.messages
    if not before:
        return False
    if find_dropped(earlier, later) is not None:
        return True
    if len(after) < len(before) or len(after) == 1:
        return False
    # Examples of questions and answers may stand in front of many questions.
    if len(after) == len(before) and after[-1] != before[-1]:
        return False
    aligned = _count_aligned(earlier, later)
    return aligned == len(before) or (aligned >= 2 and aligned * 2 >= len(before))


def find_dropped(earlier: PromptParts, later: PromptParts) -> range | None:
    """The numbers of the messages that the later request leaves out, with what followed them in
    their place, two messages at least: a client that keeps to the last ones. None: there are no
    such messages."""
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
            if tried == MAX_TRIED:  # a conversation of the same message again and again
                break
    return None


def _count_same_messages(earlier: PromptParts, later: PromptParts) -> int:
    """The messages from the beginning that are the same."""
    same = 0
    for before, after in zip(earlier.messages, later.messages, strict=False):
        if before != after:
            break
        same += 1
    return same


def _count_aligned(earlier: PromptParts, later: PromptParts) -> int:
    """The messages that are the same at the same place."""
    pairs = zip(earlier.messages, later.messages, strict=False)
    return sum(before == after for before, after in pairs)


def _count_kept_messages(earlier: PromptParts, later: PromptParts) -> int:
    """The messages that the later request still has, those behind dropped ones included."""
    dropped = find_dropped(earlier, later)
    if dropped is None:
        return _count_aligned(earlier, later)
    return len(earlier.messages) - len(dropped)


def are_alike(earlier: PromptParts, later: PromptParts) -> bool:
    """True if system message and tools are nearly those of the earlier request: of the same names,
    for who offers others has another question."""
    names = sorted(name for name, _ in earlier.tools)
    if names != sorted(name for name, _ in later.tools):
        return False
    total = max(earlier.head_size, later.head_size)
    same_system = _count_kept(earlier.system, later.system)
    longest = max(len(earlier.system), len(later.system))
    if (longest - same_system) * MAX_CHANGED > longest:
        return False
    if earlier.system != later.system and same_system < LEAST_SAME:
        return False
    same = same_system + _count_kept_tools(earlier, later)
    return same >= LEAST_SAME and (total - same) * MAX_CHANGED <= total


def _count_kept_tools(earlier: PromptParts, later: PromptParts) -> int:
    """The characters of tools that are the same, wherever a tool stands."""
    before: dict[str, list[str]] = {}
    for name, text in earlier.tools:
        before.setdefault(name, []).append(text)
    return sum(_count_kept(before[name].pop(0), text) for name, text in later.tools)


def _count_kept(before: str, after: str) -> int:
    """The characters that are the same from the beginning and from the end."""
    start = count_same(before, after)
    if start == len(before) == len(after):
        return start
    behind = count_same(before[start:][::-1], after[start:][::-1])
    return start + behind
