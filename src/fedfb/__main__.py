"""``python -m fedfb`` is ``fedfb``."""

from fedfb.cli import main

main()
