"""Engines on other machines, which sample the tokens; every token that comes back is checked here.

Needs `decode`, `schedule`, `engine`. Start with `sampler`, the protocol, and `remote_turn`, which
checks tokens; `engines` has the clients of vLLM and others, `handshake` compares an engine with the
local vocabulary, `identity` recognises an engine after a restart, `remote_runner` executes turns.
"""
