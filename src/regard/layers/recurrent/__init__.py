"""Recurrent layers: cells, scans over a sequence, single layers, stacks of layers."""
