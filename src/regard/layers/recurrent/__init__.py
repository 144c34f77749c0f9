"""Recurrent layers: cells, scans over a sequence, stacks of layers."""
