"""The HTTP dialects. Each is a package: `request` reads its JSON as a `TurnRequest`, `reply` writes
the events of a turn as its stream, `routes` has its paths. What dialects share is in `common`, in
`turns` and `http`; what those of OpenAI's chunks share is in `chat.reply`. Start with `chat`.
"""
