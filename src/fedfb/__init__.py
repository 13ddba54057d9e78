"""fedfb: one accurate classifier that treats groups alike, from data that may not leave its owners.

>>> import fedfb
>>> result = fedfb.run(fedfb.Experiment(rows=300, test_rows=300, rounds=2, local_epochs=2))
>>> result.notion
'demographic_parity'
"""

from typing import TYPE_CHECKING

from fedfb.extras import export_lazily

if TYPE_CHECKING:
    from fedfb.core import ClientData as ClientData
    from fedfb.core import ClientTask as ClientTask
    from fedfb.core import Examples as Examples
    from fedfb.data.federation import Federation as Federation
    from fedfb.data.loading import load as load
    from fedfb.data.own import federation_from_frames as federation_from_frames
    from fedfb.data.request import DataRequest as DataRequest
    from fedfb.errors import ConfigError as ConfigError
    from fedfb.errors import DataError as DataError
    from fedfb.errors import DisclosureError as DisclosureError
    from fedfb.errors import DivergenceError as DivergenceError
    from fedfb.errors import FedFBError as FedFBError
    from fedfb.estimator import FedFBClassifier as FedFBClassifier
    from fedfb.experiments.compare import compare as compare
    from fedfb.experiments.outcome import Outcome as Outcome
    from fedfb.experiments.outcome import run as run
    from fedfb.experiments.outcome import train as train
    from fedfb.experiments.result import Comparison as Comparison
    from fedfb.experiments.result import Result as Result
    from fedfb.experiments.run_folder import load_model as load_model
    from fedfb.experiments.run_folder import save as save
    from fedfb.experiments.shortfall_warnings import ShortfallWarning as ShortfallWarning
    from fedfb.experiments.shortfall_warnings import (
        TargetNotReachedWarning as TargetNotReachedWarning,
    )
    from fedfb.experiments.spec import Experiment as Experiment

# Imported when first used: a command line that only prints its help must not wait for numpy.
_HOME = {
    "ClientData": "core",
    "ClientTask": "core",
    "Comparison": "experiments.result",
    "ConfigError": "errors",
    "DataError": "errors",
    "DataRequest": "data.request",
    "DisclosureError": "errors",
    "DivergenceError": "errors",
    "Examples": "core",
    "Experiment": "experiments.spec",
    "FedFBError": "errors",
    "FedFBClassifier": "estimator",
    "Federation": "data.federation",
    "Outcome": "experiments.outcome",
    "Result": "experiments.result",
    "ShortfallWarning": "experiments.shortfall_warnings",
    "TargetNotReachedWarning": "experiments.shortfall_warnings",
    "compare": "experiments.compare",
    "federation_from_frames": "data.own",
    "load": "data.loading",
    "load_model": "experiments.run_folder",
    "run": "experiments.outcome",
    "save": "experiments.run_folder",
    "train": "experiments.outcome",
}

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = export_lazily(__name__, _HOME, "__version__")
