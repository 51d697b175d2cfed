"""What GGUF files say of themselves, read without llama.cpp, which ends the process on some damaged
files. `contents.py` first; `reader.py` reads the bytes, `metadata_limits.py` checks the numbers."""
