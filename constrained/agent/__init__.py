"""The agent loop: the model calls functions and reads their results, until it answers.

Needs `reply` and `tools`. Start with `run`, which executes what `loop` and `judge` decide;
`run_tools` has the tools of a run; `repetition`, `budget` and `context` limit it.
"""
