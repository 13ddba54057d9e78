"""Models that were trained without a client, and their figures on the client."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec.structs import replace as change

from fedfb.core import ClientData, Examples
from fedfb.data.federation import Federation
from fedfb.errors import ConfigError
from fedfb.estimator import FedFBClassifier
from fedfb.experiments.leave_out import plan_trainings, without_clients
from fedfb.experiments.outcome import load_federations, run, train
from fedfb.experiments.run_folder import claim, save
from fedfb.experiments.shortfalls import find_shortfalls
from fedfb.experiments.spec import Experiment
from fedfb.report.left_out import left_out_table
from fedfb.report.text import print_run
from fedfb.runtime.ledger import phase_kind, read_ledger

PLAIN = Experiment(rows=800, test_rows=800, clients=4, groups=3, rounds=4)
LEAVING = replace(PLAIN, leave_out_clients=True)
QUICK = {"rounds": 2, "local_epochs": 1, "lr": (0.01,)}


def federation_of(clients: int, rows: int, seed: int = 0, unlike: float = 0.0) -> Federation:
    """Clients of two groups; client 0 measures the first feature of group 1 ``unlike`` the others.

    A column tells these rows, so a model that is trained on client 0 can correct them.
    """
    rng = np.random.default_rng(seed)

    def draw(owner):
        group = rng.integers(0, 2, len(owner))
        x = rng.normal(size=(len(owner), 3))
        y = (1.5 * x[:, 0] + rng.logistic(size=len(owner)) > 0).astype(np.int64)
        x[:, 2] = (owner == 0) * group
        x[:, 0] -= unlike * x[:, 2]
        return x, y, group

    owner = np.arange(rows) % clients
    x, y, group = draw(owner)
    data = tuple(
        ClientData(place, *(part[owner == place] for part in (x, y, group)), 2)
        for place in range(clients)
    )
    tested = np.arange(rows) % clients
    return replace(
        load_federations(Experiment(rows=200, test_rows=200))[0],
        clients=data,
        test=Examples(*draw(tested), tested),
        group_names=("a", "b"),
        client_names=tuple(f"client {place}" for place in range(clients)),
        feature_names=("x", "z", "first"),
    )


@pytest.mark.parametrize(
    "experiment",
    [
        replace(LEAVING, notion="eo"),
        replace(LEAVING, algorithm="fedavg", model="mlp", **QUICK),
        replace(LEAVING, algorithm="cfl"),
        replace(LEAVING, notion="cp"),
        replace(LEAVING, notion="cp", outer="step", **QUICK),
        replace(LEAVING, algorithm="fedfb-thresholds", sensitive_at_prediction=True),
    ],
    ids=["exact", "network", "pooled", "client parity", "gathered losses", "thresholds"],
)
def test_a_client_left_out_is_decided_by_a_run_without_it(experiment):
    federation = load_federations(experiment)[0]
    [with_all] = run(experiment, federations={0: federation}, warn=False).runs
    for place, part in enumerate(with_all.leave_out.clients):
        alone = without_clients(federation, (place,))
        rows = federation.test.client == place
        test = Examples(*(values[rows] for values in federation.test))
        alone = replace(alone, test=test._replace(client=np.full(rows.sum(), -1)))
        [other] = run(
            replace(experiment, leave_out_clients=False), federations={0: alone}, warn=False
        ).runs
        assert part.excluded.accuracy == pytest.approx(other.accuracy, abs=1e-9)
        assert part.excluded_loss == pytest.approx(other.loss, abs=1e-6)
        assert [group.n for group in part.excluded.groups] == [group.n for group in other.groups]


def test_the_figures_beside_are_those_of_the_full_model_on_the_same_rows():
    [of_seed] = run(LEAVING, warn=False).runs
    left_out = of_seed.leave_out
    for part, client in zip(left_out.clients, of_seed.clients, strict=True):
        assert (part.name, part.included.rows) == (client.name, client.n)
        assert part.included.accuracy == pytest.approx(client.accuracy)
        assert part.included_loss == pytest.approx(client.loss)
        own = client.disparity["demographic_parity"]
        assert part.included.disparity["demographic_parity"] == pytest.approx(own)
        low, high = part.excluded.interval["demographic_parity"]
        assert low <= part.excluded.disparity["demographic_parity"] <= high
    assert left_out.everyone.included.accuracy == pytest.approx(of_seed.accuracy)
    rows = [part.excluded.rows for part in left_out.clients]
    right = np.dot(rows, [part.excluded.accuracy for part in left_out.clients])
    assert left_out.everyone.excluded.accuracy == pytest.approx(right / sum(rows))


def test_nothing_else_of_a_result_changes():
    without, with_them = (run(e, warn=False).runs[0] for e in (PLAIN, LEAVING))
    assert change(with_them, leave_out=None) == without


@pytest.mark.parametrize(("clients", "trainings"), [(2, 2), (20, 20), (21, 20), (1000, 20)])
def test_every_client_is_left_out_once_in_at_most_twenty_trainings(clients, trainings):
    plan = plan_trainings(clients)
    assert len(plan) == trainings
    assert sorted(id for ids in plan for id in ids) == list(range(clients))
    assert max(map(len, plan)) - min(map(len, plan)) <= 1


@pytest.mark.slow
def test_many_clients_are_summarised_with_mean_and_worst_and_chance_beside(capsys, monkeypatch):
    federation = federation_of(50, 4000)
    experiment = Experiment(algorithm="fedavg", leave_out_clients=True)
    result = run(experiment, federations={0: federation}, warn=False)
    table = left_out_table(result, result.runs, narrow=True)
    names = [row[0] for row in table.rows]
    assert names[:2] == ["all clients", "mean"]
    worst = next(row for row in table.rows if row[0].startswith("worst"))
    assert worst[5] != ""
    assert worst[6].startswith(".")
    assert result.runs[0].leave_out.trainings == 20
    monkeypatch.setenv("COLUMNS", "80")
    print_run(result)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.slow
def test_a_client_unlike_the_others_is_warned_of_and_alike_clients_are_not():
    """Alike clients: the intervals hold for all together, so 1 in 20 warns at most; here 0 of 6."""
    experiment = Experiment(target=(0.05,), leave_out_clients=True, notion="dp", rounds=4)

    def sentences(seed, unlike):
        rows = {0: federation_of(5, 4000, seed, unlike)}
        result = run(experiment, federations=rows, warn=False)
        return [s for s in result.shortfalls if s.kind == "new_client"]

    assert not any(sentences(seed, unlike=0.0) for seed in range(6))
    [shortfall] = sentences(1, unlike=3.0)
    assert "client 0" in shortfall.sentence
    assert shortfall.values["disparity"] > 0.05


def test_a_setting_whose_target_is_met_on_every_client_is_not_warned_of():
    result = run(replace(LEAVING, target=(1.0,)), warn=False)
    assert not [s for s in find_shortfalls(result) if s.kind == "new_client"]


@pytest.mark.slow
def test_grids_and_seeds_have_figures_for_every_setting():
    result = run(replace(LEAVING, target=(0.0, 0.1), seeds=(0, 1)), warn=False)
    for place in range(2):
        table = left_out_table(result, result.runs_of(place))
        assert len(table.rows) == 5
        assert "not estimable" not in [row[5] for row in table.rows]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"algorithm": "ditto", "notion": "cp"}, "a model of its own"),
        ({"privacy_epsilon": 1.0}, "privacy budget once more"),
        ({"secure": True, "clients": 3}, "leaves 2 of 3 clients"),
    ],
)
def test_what_makes_no_sense_is_refused_before_training(more, reason):
    with pytest.raises(ConfigError, match=reason):
        run(replace(LEAVING, **more))


def test_one_client_cannot_be_left_out():
    with pytest.raises(ConfigError, match="at least 2 clients"):
        run(LEAVING, federations={0: federation_of(1, 200)})


@pytest.mark.slow
def test_masked_trainings_without_clients_are_in_the_ledger_and_change_little(tmp_path):
    """Fixed point has 22 places: some decisions at the cut may differ, of 800 rows at most two."""
    masked = replace(LEAVING, secure=True, rounds=2)
    folder = tmp_path / "run"
    with claim(folder, masked) as checkpoints:
        outcome = train(masked, checkpoints=checkpoints, ledger=folder / "ledger.jsonl")
        save(outcome, folder)
    accounts = read_ledger(folder / "ledger.jsonl")
    trainings = [a for a in accounts if phase_kind(a.phase) == "leave-out"]
    assert [account.phase for account in trainings] == [f"leave-out-{n}" for n in range(1, 5)]
    names = [f"client {number}" for number in range(4)]
    assert [set(names) - set(a.clients) for a in trainings] == [{name} for name in names]
    assert {e.seen for a in trainings for e in a.entries if e.way == "up"} == {"masked"}
    plain = run(replace(masked, secure=False), warn=False).runs[0].leave_out.everyone
    secret = outcome.result.runs[0].leave_out.everyone
    assert secret.excluded.accuracy == pytest.approx(plain.excluded.accuracy, abs=2 / 800)


def test_a_stopped_run_goes_on_and_ends_alike(tmp_path):
    folder = tmp_path / "run"
    with claim(folder, LEAVING) as checkpoints:
        first = train(LEAVING, checkpoints=checkpoints, ledger=folder / "ledger.jsonl")
    again = train(LEAVING, checkpoints=folder / "checkpoints", ledger=folder / "ledger.jsonl")
    assert again.result == first.result


def test_a_classifier_has_the_typed_figures():
    rng = np.random.default_rng(0)
    x, group, client = rng.normal(size=(300, 3)), rng.integers(0, 2, 300), rng.integers(0, 3, 300)
    y = (x[:, 0] + rng.logistic(size=300) > 0).astype(int)
    model = FedFBClassifier(target=1.0, settings={"leave_out_clients": True})
    model.fit(x, y, sensitive_features=group, client=client)
    left_out = model.result_.runs[0].leave_out
    assert [part.name for part in left_out.clients] == ["0", "1", "2"]
    assert left_out.everyone.excluded.rows == 300
    judged = model.report(x, y, sensitive_features=group, client=client)
    assert judged.runs[0].leave_out is None
