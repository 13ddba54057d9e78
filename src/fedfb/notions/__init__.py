"""What is to be equal: one file per notion, and disparities with their intervals.

Disparities serve evaluation only.
"""

from fedfb.notions.base import Notion as Notion
from fedfb.notions.base import Surrogate as Surrogate
from fedfb.notions.client_parity import ClientParity as ClientParity
from fedfb.notions.client_parity import PooledClientParity as PooledClientParity
from fedfb.notions.demographic_parity import DemographicParity as DemographicParity
from fedfb.notions.equal_opportunity import EqualOpportunity as EqualOpportunity
from fedfb.notions.equalized_odds import EqualizedOdds as EqualizedOdds
from fedfb.notions.registry import long_name as long_name
from fedfb.notions.registry import make_notion as make_notion
from fedfb.notions.registry import symmetric as symmetric
