"""The agent loop: the model calls functions and reads their results, until it answers.

Needs `reply` and `tools`. Start with `run`, which carries out what `loop` decides; `early_calls`
begins calls while a turn is being written, `repetition`, `budget` and `context` bound a run.
"""
