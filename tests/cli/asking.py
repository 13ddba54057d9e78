"""What the tests of the command line type, and how they read the answer."""

import json
from typing import Any, NamedTuple

TINY = ("--rows", "200", "--test-rows", "200", "--rounds", "2", "--local-epochs", "1")
OWN = ("--label", "y", "--positive", "y", "--sensitive", "sex", "--rounds", "1")


class Said(NamedTuple):
    """How a command ended, what it printed as data and what it talked."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        assert self.code == 0, self.err
        return json.loads(self.out, parse_constant=lambda name: 1 / 0)


def refused(said: Said, *fragments: str) -> None:
    """Assert that a command was refused in a sentence that holds the fragments."""
    assert (said.code, said.out) == (2, ""), said
    assert "Traceback" not in said.err
    assert "Warning" not in said.err
    for fragment in fragments:
        assert fragment in said.err, said.err


def client_file(rows: int = 40, sex: str = "FM", start: int = 0) -> str:
    """Rows of a CSV file in which age tells much of the label."""
    numbers = range(start, start + rows)
    lines = [f"{i % 7 + i // 2 % 2 * 3},{sex[i % len(sex)]},{'yn'[i // 2 % 2]}" for i in numbers]
    return "\n".join(["age,sex,y", *lines]) + "\n"
