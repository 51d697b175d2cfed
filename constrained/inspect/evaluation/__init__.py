"""Rows of the Berkeley function-calling leaderboard, what models answered, and how that is judged:
for `benchmarks.real`. Start with `rows`."""
