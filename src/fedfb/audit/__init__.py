"""Audit a classifier by group, from tables of counts that clients upload. No row moves."""
