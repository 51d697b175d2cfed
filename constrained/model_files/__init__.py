"""The files of models: on this machine, in packages, in the cache of the Hugging Face Hub, or
downloaded from it. Start with `sources`."""
