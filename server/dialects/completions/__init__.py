"""OpenAI's legacy Completions: raw prompts, without a chat template."""
