"""FedAvg as pfl (Apple's pfl-research) simulates it: torch models, one thread.

A client's rows are whole tensors that pfl cuts into minibatches in file order, without shuffling:
the cheapest of its data sets. Evaluation is asked for once. Prints how many steps were measured and
the CPU seconds they took.
"""

import argparse
import json
import math
import time

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from rows import Rows, read
from torch import nn


class Classifier(nn.Module):
    """The same layers and loss as the plain script's, with the two methods pfl asks for."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        layers = (
            [nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 2)]
            if hidden
            else [nn.Linear(inputs, 2)]
        )
        self.layers = nn.Sequential(*layers)
        self.losses = nn.CrossEntropyLoss(reduction="none")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)

    def loss(self, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (weight * self.losses(self(x), y)).mean()

    @torch.no_grad()
    def metrics(self, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> dict:
        return {"accuracy": Weighted((self(x).argmax(1) == y).sum().item(), len(y))}


class Quiet(TrainingProcessCallback):
    """Keeps the last metrics and prints nothing."""

    def __init__(self) -> None:
        self.metrics = Metrics()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        self.metrics = aggregate_metrics
        return False, Metrics()


def tensors(client: Rows, name: str) -> PyTorchTensorDataset:
    x, y = torch.from_numpy(client.x), torch.from_numpy(client.y)
    return PyTorchTensorDataset(tensors=(x, y, torch.ones(len(y))), user_id=name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table")
    parser.add_argument("--hidden", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.005)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.random.seed(0)
    clients = {
        str(number): tensors(client, str(number))
        for number, client in enumerate(read(arguments.table))
    }
    module = Classifier(clients["0"].raw_data[0].shape[1], arguments.hidden)
    model = PyTorchModel(
        module,
        local_optimizer_create=torch.optim.Adam,
        central_optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
    )
    users = FederatedDataset(clients.get, get_user_sampler("minimize_reuse", list(clients)))
    backend = SimulatedBackend(users, users, postprocessors=[WeightByDatapoints()])
    start = time.process_time()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=arguments.rounds,
            evaluation_frequency=arguments.rounds,
            train_cohort_size=len(clients),
            val_cohort_size=0,
        ),
        backend,
        model,
        NNTrainHyperParams(
            local_num_epochs=arguments.epochs,
            local_learning_rate=arguments.lr,
            local_batch_size=arguments.batch,
        ),
        callbacks=[Quiet()],
        send_metrics_to_platform=False,
    )
    spent = time.process_time() - start
    batches = sum(math.ceil(len(rows) / arguments.batch) for rows in clients.values())
    hits = sum(
        module.metrics(*rows.raw_data)["accuracy"].weighted_value for rows in clients.values()
    )
    print(
        json.dumps(
            {
                "steps": arguments.rounds * arguments.epochs * batches,
                "train_cpu_s": spent,
                "accuracy": hits / sum(map(len, clients.values())),
            }
        )
    )


if __name__ == "__main__":
    main()
