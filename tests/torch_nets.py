"""Torch networks of tests. Skipped where torch is not installed."""

import pytest

from fedfb.models import Network

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'fedfb[torch]'")
nn = torch.nn


class Layers(nn.Module):
    """The network that fedfb builds in: the same shape, and parameters in the same order."""

    def __init__(self, *sizes):
        super().__init__()
        pairs = list(zip(sizes, (*sizes[1:], 1), strict=True))
        self.parts = nn.ParameterList(
            part for i, o in pairs for part in (torch.randn(i, o) / i**0.5, torch.zeros(o))
        )

    def forward(self, x):
        for number in range(0, len(self.parts), 2):
            x = x if number == 0 else x.relu()
            x = x @ self.parts[number] + self.parts[number + 1]
        return x


def linear(features):
    return Layers(features)


def mlp_4(features):
    return Layers(features, 4)


def mlp_5_3(features):
    return Layers(features, 5, 3)


OF_HIDDEN = {(): linear, (4,): mlp_4, (5, 3): mlp_5_3}


def three_layers_with_dropout(features):
    return nn.Sequential(
        *(nn.Linear(features, 32), nn.ReLU(), nn.Dropout(0.2)),
        *(nn.Linear(32, 16), nn.ReLU(), nn.Dropout(0.2)),
        nn.Linear(16, 1),
    )


class Branching(nn.Module):
    """It looks at a value, which cannot be done for several runs at once."""

    def __init__(self, features):
        super().__init__()
        self.first, self.drop = nn.Linear(features, 6), nn.Dropout(0.5)
        self.last = nn.Linear(6, 1)

    def forward(self, x):
        hidden = self.drop(self.first(x).relu())
        return self.last(hidden if hidden.sum() > 0 else -hidden)[:, 0]


class Frozen(nn.Module):
    """A drawn projection and a constant that are not trained, and what is."""

    def __init__(self, features):
        super().__init__()
        self.given = nn.Linear(features, 5).requires_grad_(False)
        self.register_buffer("shift", torch.ones(5))
        self.last = nn.Linear(5, 1)

    def forward(self, x):
        return self.last(torch.tanh(self.given(x) + self.shift))


class Tied(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.first = nn.Linear(features, features)
        self.second = nn.Linear(features, features)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(self.first(x).tanh()).sum(dim=1)


def batch_norm(features):
    return nn.Sequential(nn.Linear(features, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))


def batch_statistics(features):
    norm = nn.BatchNorm1d(4, track_running_stats=False)
    return nn.Sequential(nn.Linear(features, 4), norm, nn.Linear(4, 1))


class Centred(nn.Linear):
    """It compares a row with the others."""

    def __init__(self, features):
        super().__init__(features, 1)

    def forward(self, x):
        return super().forward(x - x.mean(dim=0))


class Counting(nn.Linear):
    """It counts large batches, of which there are none when it is tried."""

    def __init__(self, features):
        super().__init__(features, 1)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        if self.training and len(x) > 10:
            self.seen += 1
        return super().forward(x)


def two_logits(features):
    return nn.Linear(features, 2)


def wrong_inputs(features):
    return nn.Linear(features + 1, 1)


def untrained(features):
    return nn.Linear(features, 1).requires_grad_(False)


def lazy(features):
    return nn.LazyLinear(1)


def no_module(features):
    return features


def broken(features):
    raise KeyError("nothing here")


def like_the_mlp(features):
    """Build the mlp with one layer of 4 as seed 0 starts it."""
    module, start = Layers(features, 4), torch.from_numpy(Network(features, (4,)).init(0))
    nn.utils.vector_to_parameters(start.float(), module.parameters())
    return module


def dropped_inputs(features):
    return nn.Sequential(nn.Dropout(0.5), nn.Linear(features, 1))
