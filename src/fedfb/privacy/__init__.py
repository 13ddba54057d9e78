"""Differential privacy: noise on all that leaves a silo, and what it adds up to."""

from fedfb.privacy.accounting import Budget as Budget
from fedfb.privacy.accounting import Silo as Silo
from fedfb.privacy.accounting import Spent as Spent
from fedfb.privacy.accounting import calibrate as calibrate
from fedfb.privacy.accounting import epsilon_of as epsilon_of
from fedfb.privacy.noise import Protection as Protection
from fedfb.privacy.noise import protected as protected
