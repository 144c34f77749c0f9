"""HTTP/1.1: connections with bounds, strict parsing, and addresses of requests."""
