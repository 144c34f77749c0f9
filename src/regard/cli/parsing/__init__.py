"""From the words of a command to options and experiments, and help."""
