"""Engines on other machines: they draw the tokens, and every token that comes back is checked here.

Needs `decode`, `schedule`, `engine`. Start with `sampler`, the protocol, and `remote_turn`, which
checks; `engines` speak to those that there are, `handshake` compares them with
the local vocabulary, `identity` knows them again, `remote_runner` carries the turns out.
"""
