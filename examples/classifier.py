# %% [markdown]
# # A fair classifier from the rows of three banks
#
# Three banks predict who repays a loan. No bank may send its rows to another. `FedFBClassifier`
# trains one model for all banks with the usual `fit` and `predict`, and treats the sexes alike.
#
# The rows are drawn here. Men earn more and work longer hours, and the banks have different
# customers.

# %%
import numpy as np
import pandas as pd

from fedfb.estimator import CFLClassifier, FedAvgClassifier, FedFBClassifier

rng = np.random.default_rng(0)
size = 20_000
rows = pd.DataFrame({"bank": rng.choice(["east", "north", "south"], size, p=[0.5, 0.3, 0.2])})
share_of_men = rows["bank"].map({"east": 0.4, "north": 0.5, "south": 0.7})
rows["sex"] = np.where(rng.random(size) < share_of_men, "m", "f")
men = rows["sex"] == "m"
rows["income"] = rng.normal(30, 8, size) + 4 * men
rows["hours"] = rng.normal(34, 4, size) + 4 * men
rows["job"] = rng.choice(["clerk", "cook", "nurse"], size)
rows["paid"] = np.where(rows["income"] + rng.normal(0, 6, size) > 31, "yes", "no")
training, test = rows[: size // 2], rows[size // 2 :]
rows.head()

# %% [markdown]
# ## Three ways to train
#
# FedAvg is the usual way to train together. FedFB weighs the rows of each sex, and finds the
# weights from sums over the banks. CFL does the same, but needs all rows in one place: it is
# the yardstick. The sex is **not** an input of any of the three models.


# %%
def fit(classifier):
    features = training[["income", "hours", "job"]]
    return classifier.fit(
        features, training["paid"], sensitive_features=training["sex"], client=training["bank"]
    )


def measure(model):
    favoured = model.predict(test[["income", "hours", "job"]]) == "yes"
    rates = pd.Series(favoured).groupby(test["sex"].to_numpy()).mean()
    accuracy = np.mean(favoured == (test["paid"] == "yes"))
    return {"accuracy": accuracy, **rates, "difference": rates["m"] - rates["f"]}


classifiers = {"FedAvg": FedAvgClassifier(), "FedFB": FedFBClassifier(), "CFL": CFLClassifier()}
models = {name: fit(classifier) for name, classifier in classifiers.items()}
pd.DataFrame({name: measure(model) for name, model in models.items()}).T.round(3)

# %% [markdown]
# The columns `f` and `m` are the rates of favourable decisions on test rows.
#
# ## How fair?
#
# `target` is the disparity to train to: the largest distance of a group's rate from the rate of
# all. The accuracy grows with it.

# %%
targets = {target: fit(FedFBClassifier(target=target)) for target in (0.0, 0.03, 0.06)}
curve = pd.DataFrame({target: measure(model) for target, model in targets.items()}).T
curve.rename_axis("target").round(3)

# %% [markdown]
# ## With masked uploads
#
# With secure sums the server receives only totals of masked uploads. The model is the same, up
# to rounding. Here all banks are simulated in one process; on machines of their own they join a
# study (docs/deploy.md).

# %%
masked = fit(FedFBClassifier(settings={"secure": True}))
features = test[["income", "hours", "job"]]
difference = masked.predict_proba(features) - models["FedFB"].predict_proba(features)
print(f"largest difference of a score: {np.abs(difference).max():.0g}")
