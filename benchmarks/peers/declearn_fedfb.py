"""FedFB for demographic parity as declearn runs it: torch back end, a process for each party.

Server and clients talk over websockets on this machine, with declearn's own settings throughout
(its heartbeat of one second is most of the wall time). One thread per process. Prints the rounds
done, and the CPU seconds that the server's and the clients' processes took.
"""

import argparse
import json
import logging
import resource
import socket
import warnings

import numpy as np
import torch
from declearn.communication.websockets import WebsocketsClient, WebsocketsServer
from declearn.dataset import InMemoryDataset
from declearn.fairness.core import FairnessInMemoryDataset
from declearn.fairness.fairbatch import FairbatchControllerServer
from declearn.main import FederatedClient, FederatedServer
from declearn.main.config import FLOptimConfig, FLRunConfig
from declearn.model.torch import TorchModel
from declearn.optimizer import Optimizer
from declearn.optimizer.modules import AdamModule
from declearn.utils import run_as_processes, set_device_policy
from rows import Rows, read
from torch import nn


class Squeeze(nn.Module):
    """declearn wants one score in a row of its own shape, not a column of one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x).squeeze(-1)


def make_model(inputs: int, hidden: int) -> TorchModel:
    torch.manual_seed(0)
    layers = (
        [nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 1)]
        if hidden
        else [nn.Linear(inputs, 1)]
    )
    return TorchModel(nn.Sequential(*layers, Squeeze()), nn.BCELoss())


def prepare() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    set_device_policy(gpu=False)


def serve(port: int, clients: list[Rows], options: dict) -> float:
    """Run the server; return the accuracy of the final model on the training rows."""
    prepare()
    x, y, _ = map(np.concatenate, zip(*clients, strict=True))
    y = y.astype(np.float32)
    optim = FLOptimConfig.from_params(
        aggregator="sum",
        client_opt=Optimizer(lrate=options["lr"], modules=[AdamModule()]),
        server_opt=Optimizer(lrate=1.0 / len(clients)),  # updates are summed, not averaged
        fairness=FairbatchControllerServer(
            "demographic_parity", alpha=options["alpha"], fedfb=True
        ),
    )
    server = FederatedServer(
        make_model(x.shape[1], options["hidden"]), WebsocketsServer(port=port), optim
    )
    server.run(
        FLRunConfig.from_params(
            rounds=options["rounds"],
            register=len(clients),
            training={
                "batch_size": options["batch"],
                "n_epoch": options["epochs"],
                "drop_remainder": False,
                "shuffle": True,
            },
            evaluate={"batch_size": 4096, "frequency": options["rounds"]},
            fairness={"batch_size": 4096},
        )
    )
    scores = server.model.compute_batch_predictions((x, y, None))[1]
    return float(np.mean((scores > 0.5) == (y == 1)))


def join(port: int, rows: Rows, number: int) -> None:
    prepare()
    x, y = rows.x, rows.y.astype(np.float32)
    train = FairnessInMemoryDataset(
        x, s_attr=rows.group, target=y, expose_classes=True, sensitive_target=True, seed=number
    )
    client = FederatedClient(
        WebsocketsClient(f"ws://localhost:{port}", f"client{number}"),
        train,
        InMemoryDataset(x, y),
        verbose=False,
    )
    client.run()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table")
    parser.add_argument("--hidden", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--alpha", type=float, default=0.005)
    options = vars(parser.parse_args())
    clients, port = read(options["table"]), free_port()
    success, outputs = run_as_processes(
        (serve, (port, clients, options)),
        *((join, (port, rows, number)) for number, rows in enumerate(clients)),
    )
    if not success:
        raise SystemExit("\n".join(str(output) for output in outputs if output is not None))
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        json.dumps(
            {
                "rounds": options["rounds"],
                "train_cpu_s": children.ru_utime + children.ru_stime,
                "accuracy": outputs[0],
            }
        )
    )


if __name__ == "__main__":
    main()
