"""The parts of a turn that end it, or change it: they know the turn itself, not only its view.

`table` lists all parts, also those that only steer: token healing, the reasoning budget and the
completion reserve, which stand beside this room, and `drafts` and `endless`. Start there.
"""
