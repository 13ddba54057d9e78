"""Federated training in plain PyTorch, as a researcher would write it in an afternoon.

nn.Sequential, a shuffling DataLoader, Adam, cross-entropy weighted by row, the average of the
clients' parameters. One thread: on models this small a second one only costs CPU time.
Prints how many steps were measured and the CPU seconds they took.
"""

import argparse
import copy
import json
import time

import torch
from rows import Rows, read
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_model(inputs: int, hidden: int) -> nn.Sequential:
    if hidden:
        return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 2))
    return nn.Sequential(nn.Linear(inputs, 2))


def train_client(model: nn.Module, rows: TensorDataset, epochs: int, batch: int, lr: float) -> int:
    loader = DataLoader(rows, batch_size=batch, shuffle=True)
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    losses = nn.CrossEntropyLoss(reduction="none")
    for _ in range(epochs):
        for x, y, weight in loader:
            optimiser.zero_grad()
            loss = (weight * losses(model(x), y)).mean()
            loss.backward()
            optimiser.step()
    return epochs * len(loader)


def average(models: list[nn.Module], sizes: list[int]) -> dict[str, torch.Tensor]:
    shares = [size / sum(sizes) for size in sizes]
    states = [model.state_dict() for model in models]
    return {
        name: sum(share * state[name] for share, state in zip(shares, states, strict=True))
        for name in states[0]
    }


def tensors(client: Rows) -> TensorDataset:
    x, y = torch.from_numpy(client.x), torch.from_numpy(client.y)
    return TensorDataset(x, y, torch.ones(len(y)))


def accuracy(model: nn.Module, clients: list[TensorDataset]) -> float:
    with torch.no_grad():
        hits = [(model(x).argmax(1) == y).sum().item() for x, y, _ in (c.tensors for c in clients)]
    return sum(hits) / sum(map(len, clients))


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
    clients = [tensors(client) for client in read(arguments.table)]
    model = make_model(clients[0].tensors[0].shape[1], arguments.hidden)
    start, steps = time.process_time(), 0
    for _ in range(arguments.rounds):
        local = [copy.deepcopy(model) for _ in clients]
        for one, rows in zip(local, clients, strict=True):
            steps += train_client(one, rows, arguments.epochs, arguments.batch, arguments.lr)
        model.load_state_dict(average(local, [len(rows) for rows in clients]))
    spent = time.process_time() - start
    print(json.dumps({"steps": steps, "train_cpu_s": spent, "accuracy": accuracy(model, clients)}))


if __name__ == "__main__":
    main()
