"""Objectives of a training: likelihood, rewards, distillation, consistency."""
