"""Other projects, each run in a process and an environment of its own by `benchmarks.peers` and
`benchmarks.real`. Start with `lines`: what is said between the processes."""
