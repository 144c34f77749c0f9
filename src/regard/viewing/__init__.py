"""Pictures drawn from traces: `heatmap` to files and figures, `terminal` to text, `curve` of
training. The only place where matplotlib is imported, and only once something is drawn."""
