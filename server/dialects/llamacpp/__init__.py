"""llama-server's own paths: tokens, chat template, properties and slots."""
