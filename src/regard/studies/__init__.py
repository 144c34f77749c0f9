"""Studies of several runs: comparisons and sweeps."""
