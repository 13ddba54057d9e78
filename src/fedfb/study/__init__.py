"""A study: the same algorithms on real machines, with one server and several clients.

``study`` is what all agree on, ``keys`` who may speak for whom. The server's process runs
``server`` and ``exchange``, the client's process ``client`` and ``worker``. ``transport`` carries
their messages; it is the only place that imports Flower.
"""
