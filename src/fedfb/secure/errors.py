"""Errors of a secure sum. No message ever holds a key, a share or a value."""

from fedfb.errors import FedFBError


class SecureError(FedFBError):
    """A secure sum was refused. The refusal reveals nothing."""


class FormatError(SecureError):
    """Bytes are not a message: truncated, trailing, duplicate, unknown or of a wrong size."""


class AuthenticationError(SecureError):
    """A tag, a ciphertext or a signature does not belong to its sender and exchange."""


class ProtocolError(SecureError):
    """A message comes at the wrong time: repeated, of another exchange, or asking too much."""


class ThresholdError(SecureError):
    """Fewer clients answered than the roster requires, or the roster requires too few."""


class RangeError(SecureError):
    """Fixed point cannot carry a value: not finite, beyond its bound, or of a wrong shape."""


def make_threshold_error(
    what: str, actual: int, expected: int, round: int, exchange: int
) -> ThresholdError:
    """Return the error of a sum with too few clients.

    Args:
        what: what the clients did, as a verb in the past: "joined", "uploaded".
        actual: how many clients did it.
        expected: how many the roster requires.
        round: the round of the sum.
        exchange: the number of the exchange within the round.
    """
    return ThresholdError(
        f"round {round}, exchange {exchange}: {actual} clients {what}, at least {expected} must. "
        "Nothing is revealed. Repeat the task when more clients are online."
    )
