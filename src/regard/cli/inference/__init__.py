"""Commands that run a model on inputs, serve it or convert it."""
