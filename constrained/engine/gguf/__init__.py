"""Reads the metadata of GGUF files without llama.cpp, which crashes on some damaged files.

Start with `contents`; `reader` reads the bytes."""
