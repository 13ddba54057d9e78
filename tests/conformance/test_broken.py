"""Methods with a defect each, most of them found in released code: the suite names every one."""

import numpy as np
import pytest

from fedfb.algorithms.fedavg import METHOD as FEDAVG
from fedfb.algorithms.fedavg import fedavg
from fedfb.algorithms.fedfb.fedfb import METHOD as FEDFB
from fedfb.algorithms.method import GROUP_NOTIONS, Method
from fedfb.algorithms.tasks import average, equal_weights, fit_task
from fedfb.core import Algorithm, ClientTask, Info
from fedfb.engine import cell_counts
from fedfb.experiments.conformance import check_method
from fedfb.notions import DemographicParity


def averaging(change):
    """FedAvg whose clients change what they upload: upload, data, broadcast -> upload."""

    def make(problem):
        fit, plain = (
            fit_task(problem.engine, problem.solver, equal_weights),
            fedavg(problem.engine, problem.solver),
        )

        def run(broadcast, data, memory, key):
            upload, memory = fit.run(broadcast, data, memory, key)
            return change(upload, data, broadcast), memory

        changed = ClientTask("fit", "sum", run)

        def round(s, ask):
            return s._replace(params=average(ask(changed, {"params": s.params}), s.params)), Info()

        return plain._replace(tasks=(changed,), round=round)

    return make


def method(make, notions=("demographic_parity",), **more):
    return Method("broken", "", "", make, notions=notions, **more)


def first_client_unscaled(upload, data, broadcast):
    """Defect D1 of the released code: the average is seeded with the first model as it is."""
    if data.id > 0:
        return upload
    return {**upload, "weighted": upload["weighted"] / upload["weight"][:, None]}


def first_row_sent(upload, data, broadcast):
    return {**upload, "note": np.concatenate([[1.0], data.x[0], [2.0]])}


def only_own_groups_sent(upload, data, broadcast):
    return {**upload, "rates": np.bincount(data.group) / len(data.y)}


def losses_by_row_sent(upload, data, broadcast):
    return {**upload, "rows": np.zeros(20)[: len(data.y) % 20] + 0.5}


def broadcast_overwritten(upload, data, broadcast):
    broadcast["params"] += 1e-3
    return upload


class ConstantPerClient(DemographicParity):
    """The label shares c_a are in what every client says, so they count once per client."""

    def constant(self, counts):
        here = self.present(counts)
        shares = (counts[1] / np.maximum(counts.sum(axis=0), 1))[here]
        return shares[1:] - shares[:1]

    def share(self, loss_sums, counts, client):
        return super().share(loss_sums, counts, client) + self.constant(counts)

    def signal(self, total, counts, lacking=None):
        return super().signal(total - self.constant(counts), counts, lacking)


class BoundOfGroupZero(DemographicParity):
    """Lambda of every group is cut off at the bound of group 0."""

    def upper(self, counts):
        return np.full(self.groups, 2.0 * self.init(counts)[0])


def fedfb_with(notion):
    return method(
        lambda problem: FEDFB.make(problem._replace(notion=notion(problem.notion.groups))),
        knobs=FEDFB.knobs,
    )


def hidden_state(problem):
    """A count of the answers given lives in a closure, and the more, the larger the model."""
    answered = 0

    def change(upload, data, broadcast):
        nonlocal answered
        answered += 1
        return {**upload, "weighted": upload["weighted"] * (1 + 1e-6 * answered)}

    return averaging(change)(problem)


def hidden_server_state(problem):
    """The server keeps a step count outside its state: a run cannot be continued from a file."""
    plain, done = fedavg(problem.engine, problem.solver), {}

    def setup(params, ask):
        done["rounds"] = 0
        return plain.setup(params, ask)

    def round(s, ask):
        done["rounds"] += 1
        after, info = plain.round(s, ask)
        return after._replace(params=after.params / done["rounds"]), info

    return plain._replace(setup=setup, round=round)


def summed_means(problem):
    """Each client sends the mean loss of its own groups, and the server reads the sum as pooled."""
    engine = problem.engine
    plain = fedavg(engine, problem.solver)

    def run(broadcast, data, memory, key):
        losses, rows = engine.loss_sums(broadcast["params"], data, "prob"), cell_counts(data)
        return {"means": losses.sum(axis=1) / np.maximum(rows.sum(axis=0), 1)}, memory

    tell = ClientTask("tell", "sum", run)

    def round(s, ask):
        means = ask(tell, {"params": s.params})["means"]
        after, _ = plain.round(s, ask)
        return after, Info(signal=means - means.mean(axis=1, keepdims=True))

    return plain._replace(tasks=(*plain.tasks, tell), round=round)


def understated(problem):
    """Two tables of counts in one array: a row moves it by the root of 2, and 1 is declared."""
    plain = fedavg(problem.engine, problem.solver)

    def run(broadcast, data, memory, key):
        return {"counts": np.stack([cell_counts(data)] * 2).ravel()}, memory

    count = ClientTask("count twice", "sum", run, sensitivity={"counts": 1.0})

    def setup(params, ask):
        ask(count, {})
        return plain.setup(params, ask)

    return plain._replace(tasks=(*plain.tasks, count), setup=setup)


def undeclared_question(problem):
    return summed_means(problem)._replace(tasks=fedavg(problem.engine, problem.solver).tasks)


def generator_of_its_own(problem) -> Algorithm:
    """Randomness in sequence instead of by key: the order of clients changes the run."""
    rng = np.random.default_rng(0)
    return averaging(
        lambda upload, data, broadcast: {
            **upload,
            "weighted": upload["weighted"] * (1 + 1e-9 * rng.normal()),
        }
    )(problem)


BROKEN = {
    "first client unscaled": (
        method(averaging(first_client_unscaled)),
        {"equal models average to themselves", "splitting a client changes nothing"},
    ),
    "constant once per client": (
        fedfb_with(ConstantPerClient),
        {"splitting a client changes nothing"},
    ),
    "bound of group 0": (fedfb_with(BoundOfGroupZero), {"groups are only names"}),
    "leaked row": (method(averaging(first_row_sent)), {"no upload holds a row"}),
    "a number per row": (method(averaging(losses_by_row_sent)), {"no upload holds a row"}),
    "its own groups only": (
        method(averaging(only_own_groups_sent)),
        {"an upload tells nothing by its shape"},
    ),
    "overwritten broadcast": (method(averaging(broadcast_overwritten)), {"a task is pure"}),
    "hidden state": (
        method(hidden_state),
        {"the same seed gives the same bits", "a task is pure"},
    ),
    "hidden state of the server": (
        method(hidden_server_state),
        {"a run can be saved and continued"},
    ),
    "summed means": (method(summed_means), {"splitting a client changes nothing"}),
    "understated sensitivity": (
        method(understated),
        {"one row moves no upload further than declared"},
    ),
    "undeclared question": (method(undeclared_question), {"every question is declared"}),
    "generator of its own": (
        method(generator_of_its_own),
        {"the same seed gives the same bits", "the order of clients changes no bit"},
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_defect_is_found(name):
    broken, expected = BROKEN[name]
    found = {failure.check.split(": ")[1] for failure in check_method(broken)}
    assert expected <= found


def test_what_is_not_broken_passes_under_another_name():
    assert check_method(method(averaging(lambda upload, data, _: upload), GROUP_NOTIONS)) == []


def test_an_exception_is_a_failure_told_with_its_kind():
    [*failures] = check_method(method(lambda problem: [][1]))
    assert {failure.broken for failure in failures} == {
        "it stops with IndexError: list index out of range"
    }


def test_checks_that_do_not_apply_are_left_out():
    from fedfb.experiments.conformance import checks

    names = [name for name, _ in checks(FEDAVG._replace(additive=False))]
    assert not any("splitting" in name for name in names)
    assert sum("only names" in name for name in names) == len(GROUP_NOTIONS)
