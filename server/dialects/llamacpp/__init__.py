"""llama-server's own paths: completion and infill (`completion_request`, `completion_reply`);
tokens, chat template, properties and slots (`routes`)."""
