"""FedFB: the method of the paper, the search for its weights, and thresholds by group."""
