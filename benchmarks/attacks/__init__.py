"""Requests that are meant to bring a server down: what each is, in one place for the benchmark
(`python -m benchmarks.siege`) and the tests (`tests/hostile`). Start with `attack`."""
