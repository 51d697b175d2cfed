"""The HTTP dialects. Each is a package: `request` decodes its JSON to a `TurnRequest`, `reply`
writes the events of a turn as its stream, `routes` has its paths. What dialects share is in `turns`
and `http`. Start with `chat`, which is the simplest.
"""
