"""An audit to look at: in a terminal, as one page, and as a model card."""
