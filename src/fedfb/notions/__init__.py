"""Fairness notions for training, and disparities with their intervals for evaluation.

Names are imported at first use: a run needs one notion.
"""

from typing import TYPE_CHECKING

from fedfb.extras import export_lazily

if TYPE_CHECKING:
    from fedfb.notions.base import Notion as Notion
    from fedfb.notions.base import Surrogate as Surrogate
    from fedfb.notions.base import labels_of as labels_of
    from fedfb.notions.base import long_name as long_name
    from fedfb.notions.base import make_notion as make_notion
    from fedfb.notions.base import symmetric as symmetric
    from fedfb.notions.client_parity import ClientParity as ClientParity
    from fedfb.notions.client_parity import PooledClientParity as PooledClientParity
    from fedfb.notions.demographic_parity import DemographicParity as DemographicParity
    from fedfb.notions.equalized_odds import EqualizedOdds as EqualizedOdds
    from fedfb.notions.equalized_odds import EqualOpportunity as EqualOpportunity

_HOME = {
    "ClientParity": "client_parity",
    "DemographicParity": "demographic_parity",
    "EqualOpportunity": "equalized_odds",
    "EqualizedOdds": "equalized_odds",
    "Notion": "base",
    "PooledClientParity": "client_parity",
    "Surrogate": "base",
    "labels_of": "base",
    "long_name": "base",
    "make_notion": "base",
    "symmetric": "base",
}

__getattr__, __dir__, __all__ = export_lazily(__name__, _HOME)
