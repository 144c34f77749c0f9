"""Drawings of traces: `heatmap`, `overlay` and `sentence` as figures, `terminal` as text; `curve`
draws training logs. Only this folder imports matplotlib, and only when something is drawn."""
