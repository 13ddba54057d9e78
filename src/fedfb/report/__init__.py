"""Results for people: tables for a terminal, pictures for a page."""
