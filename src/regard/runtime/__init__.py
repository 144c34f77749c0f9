"""The process and its machine: device, processes, signals, memory, instruction set."""
