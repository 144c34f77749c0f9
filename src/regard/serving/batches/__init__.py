"""The way of texts through the models: jobs of requests, and batches of texts."""
