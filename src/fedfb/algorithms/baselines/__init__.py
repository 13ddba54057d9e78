"""Methods to compare with: one paper, one file."""
