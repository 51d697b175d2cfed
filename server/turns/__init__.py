"""From a dialect's request to the events of its turns, for all dialects.

A dialect decodes its JSON to a `turn_request`; `request_completion` adds what the server decides;
`compiled_request` makes the prompt and the grammar; `active_request` starts the turns and yields
their events; `call_stream` adds ids to the events of calls. `observers` are told of prompts and of
replies, with a `request_record` of each. `fields` has the fields that dialects share. Needs
`constrained`, and of HTTP only its errors. Start with `turn_request`, then `active_request`.
"""
