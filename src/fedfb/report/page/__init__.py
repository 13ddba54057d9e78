"""The report as one page: a file that needs no network, made of what a run has left behind."""
