"""Build models from their configuration. Each function has one `match` over the kinds of its
part, and imports the family that it builds."""
