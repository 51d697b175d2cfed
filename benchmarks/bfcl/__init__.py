"""Rows of the Berkeley function-calling leaderboard, what models answered, and how that is judged
and drawn: for `benchmarks.real`, `benchmarks.best_of`, `benchmarks.calibration`. Start with `rows`.
"""
