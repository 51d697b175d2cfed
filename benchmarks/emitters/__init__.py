"""Engines that judge the grammars that are emitted for them: for `benchmarks.emitted` and tests.
Start with `engine_reading`."""
