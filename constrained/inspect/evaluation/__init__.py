"""Does a model file call tools, which quantisation still does, and is it the syntax that breaks or
the wits? Behind `constrained eval`.

Start with `run`, then `ways` (what is asked), `judging`, `report`. `bfcl/rows.jsonl` is a sample of
the Berkeley function-calling leaderboard (Apache-2.0).
"""

from constrained.inspect.evaluation.run import evaluate

__all__ = ["evaluate"]
