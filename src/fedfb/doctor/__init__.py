"""``fedfb doctor``: examine files before training, and write a schema that settles problems."""
