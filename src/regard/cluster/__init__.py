"""Work on a Ray cluster: bulk inference, sweeps, the service, and joining a cluster."""
