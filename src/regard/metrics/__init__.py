"""Scores of what a model wrote (`text`), and numbers about what it looked at (`attention`,
`alignment`)."""
