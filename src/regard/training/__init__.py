"""Loss, schedule, loop and checkpoint."""
