"""fedfb's methods as scikit-learn classifiers.

``fit`` takes rows, the group of each row (``sensitive_features``) and its client (``client``).
Every method that ends in one model for all clients has a class. Ditto trains a model for each
client and is available on the command line only.
"""

from fedfb.estimator.classifier import FederatedClassifier


class FedFBClassifier(FederatedClassifier, method="fedfb"): ...


class FedAvgClassifier(FederatedClassifier, method="fedavg"): ...


class FedProxClassifier(FederatedClassifier, method="fedprox"): ...


class CFLClassifier(FederatedClassifier, method="cfl"): ...


class FedFBSumsClassifier(FederatedClassifier, method="fedfb-sums"): ...


class FedFBThresholdsClassifier(FederatedClassifier, method="fedfb-thresholds", by_group=True): ...


class LFTEnsembleClassifier(FederatedClassifier, method="lft-ensemble"): ...


class LFTFedAvgClassifier(FederatedClassifier, method="lft-fedavg"): ...


class FairFedClassifier(FederatedClassifier, method="fairfed"): ...


class ReweighingClassifier(FederatedClassifier, method="reweighing"): ...


class HardtClassifier(FederatedClassifier, method="hardt", by_group=True): ...


class FairBatchClassifier(FederatedClassifier, method="fairbatch"): ...


class ZafarClassifier(FederatedClassifier, method="zafar"): ...


class AgnosticFairClassifier(FederatedClassifier, method="agnosticfair"): ...


class FPFLClassifier(FederatedClassifier, method="fpfl"): ...


class FedFairClassifier(FederatedClassifier, method="fedfair"): ...


class FCFLClassifier(FederatedClassifier, method="fcfl"): ...


class FairFLClassifier(FederatedClassifier, method="fairfl"): ...


class QFFLClassifier(FederatedClassifier, method="q-ffl"): ...


class GIFAIRClassifier(FederatedClassifier, method="gifair"): ...


class AFLClassifier(FederatedClassifier, method="afl"): ...


class TERMClassifier(FederatedClassifier, method="term"): ...


CLASSIFIERS = tuple(FederatedClassifier.__subclasses__())
"""All classifiers. The first is the paper's method."""

__all__ = ["CLASSIFIERS", "FederatedClassifier", *(cls.__name__ for cls in CLASSIFIERS)]
