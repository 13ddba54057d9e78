"""The command line: every command is a thin reading of one library call."""

from fedfb.cli.app import main as main
