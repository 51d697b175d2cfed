"""The parts of a turn that end it, or change it: they know the turn itself, not only its view.

`table` lists all parts, also those that only steer. Start there.
"""
