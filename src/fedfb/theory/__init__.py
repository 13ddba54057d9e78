"""The fairness that each approach can reach, before any training (the paper's Section 3).

A population says which client holds which groups. Three solvers say what is possible: CFL (all rows
in one place), LFT+Ensemble (fair models trained apart, then a vote) and LFT+FedAvg (one model,
every client bounds its local disparity). ``import fedfb`` does not import this package, which needs
``scipy.optimize``.

>>> from fedfb import theory
>>> both = theory.population([
...     theory.client(q=0.5, group0=theory.Gaussian(3, 1), group1=theory.Gaussian(5, 1)),
...     theory.client(q=0.5, group0=theory.Gaussian(1, 1), group1=theory.Gaussian(-1, 1)),
... ])
>>> round(theory.cfl(both, eps=0.1).outcome.accuracy, 7)
0.8244224
>>> round(theory.ensemble_range(both).least_disparity, 7)
0.1646474
"""

from fedfb.theory.atoms import on_cells as on_cells
from fedfb.theory.cfl import cfl as cfl
from fedfb.theory.cfl import cfl_curve as cfl_curve
from fedfb.theory.cfl import erm as erm
from fedfb.theory.ensemble_curve import lft_ensemble_curve as lft_ensemble_curve
from fedfb.theory.eta import Eta as Eta
from fedfb.theory.eta import eta_named as eta_named
from fedfb.theory.eta import identity as identity
from fedfb.theory.eta import increasing as increasing
from fedfb.theory.eta import logistic as logistic
from fedfb.theory.eta import probit as probit
from fedfb.theory.eta import table as table
from fedfb.theory.fedavg_curve import lft_fedavg_curve as lft_fedavg_curve
from fedfb.theory.fedavg_curve import lft_fedavg_least as lft_fedavg_least
from fedfb.theory.fedavg_curve import lft_fedavg_trade_off as lft_fedavg_trade_off
from fedfb.theory.laws import Atoms as Atoms
from fedfb.theory.laws import Frozen as Frozen
from fedfb.theory.laws import Gaussian as Gaussian
from fedfb.theory.laws import Histogram as Histogram
from fedfb.theory.laws import Mixture as Mixture
from fedfb.theory.lft_ensemble import EnsembleRange as EnsembleRange
from fedfb.theory.lft_ensemble import LocalOptimum as LocalOptimum
from fedfb.theory.lft_ensemble import ensemble_range as ensemble_range
from fedfb.theory.lft_ensemble import lft_ensemble as lft_ensemble
from fedfb.theory.lft_ensemble import local_optima as local_optima
from fedfb.theory.lft_ensemble import tau as tau
from fedfb.theory.lft_fedavg import lft_fedavg as lft_fedavg
from fedfb.theory.measures import PARITY as PARITY
from fedfb.theory.measures import CurvePoint as CurvePoint
from fedfb.theory.measures import Decisions as Decisions
from fedfb.theory.measures import Outcome as Outcome
from fedfb.theory.measures import Rule as Rule
from fedfb.theory.measures import Solution as Solution
from fedfb.theory.measures import Steps as Steps
from fedfb.theory.measures import TradeOff as TradeOff
from fedfb.theory.measures import outcome as outcome
from fedfb.theory.measures import threshold as threshold
from fedfb.theory.population import FIG2_PANELS as FIG2_PANELS
from fedfb.theory.population import FIG3_PANELS as FIG3_PANELS
from fedfb.theory.population import SETTINGS as SETTINGS
from fedfb.theory.population import AtomPopulation as AtomPopulation
from fedfb.theory.population import Client as Client
from fedfb.theory.population import ContinuousPopulation as ContinuousPopulation
from fedfb.theory.population import Population as Population
from fedfb.theory.population import client as client
from fedfb.theory.population import population as population
from fedfb.theory.population import setting as setting
from fedfb.theory.population import toy as toy
from fedfb.theory.vote_limit import Condition as Condition
from fedfb.theory.vote_limit import GapCurves as GapCurves
from fedfb.theory.vote_limit import VoteLimit as VoteLimit
from fedfb.theory.vote_limit import gap_curves as gap_curves
from fedfb.theory.vote_limit import lambda_axis as lambda_axis
from fedfb.theory.vote_limit import vote_limit as vote_limit
