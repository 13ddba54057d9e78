"""The variant ``released``: the rules, data and random numbers behind the paper's printed digits.

It is off by default and nothing but reproduction uses it. Each departure from FedFB as it should be
is a named switch (:mod:`fedfb.released.flags`), so one cause can be removed at a time.
"""

from fedfb.released.data import DATA as DATA
from fedfb.released.data import load as load
from fedfb.released.federation import as_federation as as_federation
from fedfb.released.flags import METHODS as METHODS
from fedfb.released.flags import Flags as Flags
from fedfb.released.run import run as run
