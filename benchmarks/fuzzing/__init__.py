"""What `python -m benchmarks.fuzz` tries: inputs that are damaged in many places, and who reads
them."""
