"""Methods for comparison: one file for each paper."""
