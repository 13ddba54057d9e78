"""The same algorithms on real nodes: questions and secure sums carried by Flower's messages.

The only place that imports flwr. Nothing leaves the machine but messages of the study: Flower's
telemetry, its look for newer versions and the installation of packages at run time are off.
"""

import os

OFFLINE = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_LOG_LEVEL": "CRITICAL",
}

# Flower reads these when it is imported, so they must stand before that.
for _name, _value in OFFLINE.items():
    os.environ.setdefault(_name, _value)
