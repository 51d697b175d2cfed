"""Replies without what differs between two computations of the same one."""

from dataclasses import replace

from constrained.model.reply import Reply, Usage


def uncounted(reply: Reply) -> Reply:
    """The reply, whatever it took to compute it."""
    return replace(reply, usage=Usage(0, 0, 0))
