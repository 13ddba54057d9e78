"""Files, frames and databases become columns: numbers and words, with the place of each cell."""
