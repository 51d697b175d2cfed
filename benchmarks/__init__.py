"""Measurements, and checks that are too long for the tests: one command per file. The head of each
file says what it measures and prints; `python -m benchmarks.NAME` runs it. The results are in
`docs/figures.md`.

- whether turns are valid, whatever the model wants: adversary, endings, reasoning, determinism,
  streamed, totality, linear, coercion, fuzz;
- chat templates and formats: templates, arrival, unseen, faithful, replay, known_templates, doctor;
- schemas: schemas, instances, orders, tool_reports;
- real weights: real, asked_calls, bfcl_judge, best_of, calibration, instructions;
- compared with others: peers, side_by_side, prompts_beside, compared, emitted, foreign_parsers;
- the decode loop: step_parts, device_share, together, forced, passes, attention, busy, copying,
  drafting, compiling, completions, large_choices, learning, tracing, startup;
- prompt caching: sharing, histories, first_token, agent_replay, lost_prefix;
- the server: overhead, queueing, delays, load, soak, hoarding, hostile, siege, smooth, stops;
- agents: early_dispatch, tool_search, mcp_agent, crashed_runs;
- several machines: cluster_simulation, cluster_kills;
- the code and the docs: shape, pictures, screenshots.

What several of them need is in the folders.
"""
