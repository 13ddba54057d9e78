"""Hospitals that disagree on who is disfavoured: fairness in each of them is not fairness in all.

Three hospitals decide who gets a place in a care programme. In the two small ones men are referred
more often than women, in the large one women are, and it sees mostly women. Over all of them women
are referred less. Hospitals that each train to be fair to their own patients (LFT) pull in opposite
directions, and most of the gap stays, however the models are put together. FedFB weighs groups by
what all three say together, in sums, and the gap goes.

    python examples/hospitals.py            (--quick: a look in a few seconds)
"""

import sys

import numpy as np
import pandas as pd

from fedfb.estimator import (
    FedAvgClassifier,
    FedFBClassifier,
    LFTEnsembleClassifier,
    LFTFedAvgClassifier,
)

#           hospital: (patients, share of women, need of women, need of men)
HOSPITALS = {
    "clinic": (1500, 0.3, -0.2, 0.6),
    "county": (1500, 0.4, 0.0, 0.7),
    "university": (3000, 0.8, -1.0, -1.6),
}


def patients(seed: int) -> pd.DataFrame:
    """Draw patients: what is measured of them, and whether they were referred."""
    rng = np.random.default_rng(seed)
    parts = []
    for hospital, (count, women, need_of_women, need_of_men) in HOSPITALS.items():
        woman = rng.random(count) < women
        need = np.where(woman, need_of_women, need_of_men) + rng.normal(size=count)
        part = {
            "blood pressure": 120 + 12 * need + rng.normal(0, 6, count),
            "visits": rng.poisson(np.exp(0.4 + 0.3 * need)),
            "sex": np.where(woman, "woman", "man"),
            "hospital": hospital,
            "referred": np.where(need + rng.normal(0, 0.4, count) > 0, "yes", "no"),
        }
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def gap(chosen: pd.Series, rows: pd.DataFrame) -> float:
    """Return how much more often women are chosen than men."""
    rate = chosen.groupby(rows["sex"]).mean()
    return float(rate["woman"] - rate["man"])


def of(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the groups of rows: the model is given them, or it could not tell who needs what."""
    return {"sensitive_features": rows["sex"]}


def main() -> None:
    quick = {"rounds": 3, "local_epochs": 5, "lr": 0.02} if "--quick" in sys.argv else {}
    train, test = patients(seed=0), patients(seed=1)
    measured = ["blood pressure", "visits"]
    print("Referred in the past, women less men:")
    for hospital, rows in train.groupby("hospital"):
        print(f"  {hospital:12}{gap(rows['referred'] == 'yes', rows):+.2f}")
    print(f"  {'all':12}{gap(train['referred'] == 'yes', train):+.2f}\n")
    print(f"{'':14}{'accuracy':>10}{'all':>10}" + "".join(f"{name:>12}" for name in HOSPITALS))
    for name, method in {
        "FedAvg": FedAvgClassifier,
        "LFT+FedAvg": LFTFedAvgClassifier,
        "LFT+Ensemble": LFTEnsembleClassifier,
        "FedFB": FedFBClassifier,
    }.items():
        model = method(sensitive_at_prediction=True, **quick)
        model.fit(train[measured], train["referred"], **of(train), client=train["hospital"])
        accuracy = model.score(test[measured], test["referred"], **of(test))
        chosen = pd.Series(model.decide(test[measured], **of(test)))
        inside = [gap(chosen[rows.index], rows) for _, rows in test.groupby("hospital")]
        gaps = "".join(f"{value:>+12.2f}" for value in inside)
        print(f"{name:14}{accuracy:>10.2f}{gap(chosen, test):>+10.2f}{gaps}")


if __name__ == "__main__":
    main()
