"""The variant ``released``: the rules, data and random numbers behind the paper's printed digits.

Only the reproduction uses it. Each difference from FedFB as it should be is a named switch
(:mod:`fedfb.paper.released.rules`), so one cause can be removed at a time.
"""

from fedfb.paper.released.data import RELEASED_DATA as RELEASED_DATA
from fedfb.paper.released.data import load_released as load_released
from fedfb.paper.released.rules import RELEASED_METHODS as RELEASED_METHODS
from fedfb.paper.released.rules import Flags as Flags
from fedfb.paper.released.rules import as_federation as as_federation
from fedfb.paper.released.run import run_released as run_released
