"""What the benchmarks are fed with: chat templates, tool sets, questions, texts, instances of
schemas. Start with `stage`."""
