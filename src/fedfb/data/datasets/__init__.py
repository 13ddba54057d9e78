"""The built-in data sets: one loader each, and the addresses of their files."""
