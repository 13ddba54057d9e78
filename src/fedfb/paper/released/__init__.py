"""The variant ``released``: the rules, data and random numbers behind the paper's printed digits.

Only the reproduction uses it. Each difference from FedFB as it should be is a named switch
(:mod:`fedfb.paper.released.flags`), so one cause can be removed at a time.
"""

from fedfb.paper.released.data import DATA as DATA
from fedfb.paper.released.data import load as load
from fedfb.paper.released.flags import METHODS as METHODS
from fedfb.paper.released.flags import Flags as Flags
from fedfb.paper.released.flags import as_federation as as_federation
from fedfb.paper.released.run import run as run
