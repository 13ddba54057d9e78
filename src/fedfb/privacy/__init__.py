"""Differential privacy: noise on every upload, and the epsilon of a whole run."""

from fedfb.privacy.accounting import Budget as Budget
from fedfb.privacy.accounting import Spent as Spent
from fedfb.privacy.accounting import Workload as Workload
from fedfb.privacy.accounting import calibrate as calibrate
from fedfb.privacy.accounting import epsilon_of as epsilon_of
from fedfb.privacy.noise import Protection as Protection
from fedfb.privacy.noise import protect as protect
