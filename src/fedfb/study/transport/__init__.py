"""How messages of a study travel: one file for each side, and the only place that imports flwr."""
