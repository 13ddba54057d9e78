"""FedFB: the method of the paper, how its weights are found, and thresholds by group."""
