"""Who answers an algorithm's questions, and the loop that asks them."""

from fedfb.runtime.archive import RoundRecord as RoundRecord
from fedfb.runtime.archive import Trained as Trained
from fedfb.runtime.archive import as_arrays as as_arrays
from fedfb.runtime.archive import from_arrays as from_arrays
from fedfb.runtime.local import DivergedError as DivergedError
from fedfb.runtime.local import cores as cores
from fedfb.runtime.local import make_ask as make_ask
from fedfb.runtime.local import participants as participants
from fedfb.runtime.local import reduce_uploads as reduce_uploads
from fedfb.runtime.loop import Progress as Progress
from fedfb.runtime.loop import Saving as Saving
from fedfb.runtime.loop import train as train
