"""From a dialect's request to the events of its turns, whatever the dialect.

A dialect decodes its JSON to a `turn_request`; `request_completion` adds what the server decides;
`compiled_request` makes prompt and grammar of it; `active_request` starts its turns and gives their
events; `call_stream` gives those of calls their ids. `fields` has the fields that dialects share.
Needs `constrained`, and knows nothing of HTTP but its errors. Start with `turn_request`, then
`active_request`.
"""
