"""Training in several processes: replicas, sharded weights and their files."""
