"""The data sets that fedfb knows by name: one loader each, and where their files are."""
