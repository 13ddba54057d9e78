"""The training loop, the exchanges of tasks with clients in one process, and their ledger."""

from fedfb.runtime.archive import RoundRecord as RoundRecord
from fedfb.runtime.archive import Trained as Trained
from fedfb.runtime.archive import as_arrays as as_arrays
from fedfb.runtime.archive import from_arrays as from_arrays
from fedfb.runtime.boundary import Carry as Carry
from fedfb.runtime.boundary import bits_of as bits_of
from fedfb.runtime.boundary import carry_unmasked as carry_unmasked
from fedfb.runtime.boundary import reduce_uploads as reduce_uploads
from fedfb.runtime.ledger import Ledger as Ledger
from fedfb.runtime.local import DivergedError as DivergedError
from fedfb.runtime.local import Guard as Guard
from fedfb.runtime.local import cores as cores
from fedfb.runtime.local import make_ask as make_ask
from fedfb.runtime.local import number_taking_part as number_taking_part
from fedfb.runtime.local import participants as participants
from fedfb.runtime.loop import Progress as Progress
from fedfb.runtime.loop import Saving as Saving
from fedfb.runtime.loop import train as train
