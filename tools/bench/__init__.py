"""Parts of tools/bench_peers.py: the programs that are compared, and the comparison."""
