"""Pictures drawn from traces."""
