"""Finds the files of models: on this machine, in Python packages, in the cache of the Hugging Face
Hub, or downloaded from it. Start with `sources`."""
