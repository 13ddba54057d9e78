"""What can go wrong in a secure sum. No message ever holds a key, a share or a value."""

from fedfb.errors import FedFBError


class SecureError(FedFBError):
    """A secure sum was refused. Nothing was revealed that was not revealed before."""


class FormatError(SecureError):
    """Bytes that are not a message: truncated, trailing, duplicate, unknown or of a wrong size."""


class AuthenticationError(SecureError):
    """A tag, a ciphertext or a signature that does not belong to its sender, place and time."""


class ProtocolError(SecureError):
    """A message at the wrong time: repeated, of another round or phase, or asking too much."""


class ThresholdError(SecureError):
    """Fewer parties answered than the roster declares, or the roster declares too few."""


class RangeError(SecureError):
    """A value that fixed point cannot carry: not finite, beyond its bound, of a wrong shape."""


def too_few(what: str, found: int, expected: int, round: int, question: int) -> ThresholdError:
    """Phrase the refusal of a sum of too few."""
    return ThresholdError(
        f"round {round}, question {question}: {found} parties {what}, at least {expected} must. "
        "Nothing is revealed; ask again when more parties are there."
    )
