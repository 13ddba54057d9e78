"""The errors that a user can cause, one class for each kind.

A message states what is wrong, where, what was expected and what to do. The command line shows the
message without a traceback and exits with code 2.
"""

from collections.abc import Iterable


class FedFBError(Exception):
    """Any error that a user can cause and correct."""


class ConfigError(FedFBError):
    """A setting is unknown, is out of range, or contradicts another setting."""


class DataError(FedFBError):
    """A file or table cannot be used as it is."""


class WriteError(FedFBError):
    """A file cannot be written: the disk is full, or the permission is missing."""


class DisclosureError(FedFBError):
    """A method needs one client's value where only sums are allowed."""


class DivergenceError(FedFBError):
    """Training produced a value that is not finite."""


def unknown_name(kind: str, name: str, valid: Iterable[str]) -> str:
    """Return the message for an unknown name; it suggests the most similar valid name.

    Args:
        kind: the kind of thing that is named, for example ``notion``.
        name: the unknown name.
        valid: all valid names.

    >>> unknown_name("notion", "dpp", ["dp", "eo"])
    "unknown notion 'dpp'; did you mean 'dp'? Valid: dp, eo"
    """
    from difflib import get_close_matches  # imported here: rarely needed

    names = sorted(valid)
    nearest = get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else "."
    return f"unknown {kind} {name!r}{hint} Valid: {', '.join(names)}"


def escape_controls(text: str) -> str:
    r"""Return text in which characters that control a terminal, or hide others, are written out.

    Names and cells come from files and from other people: an escape sequence in a name could erase
    the warning above it.

    >>> escape_controls("\x1b[2Jnorth")
    '\\x1b[2Jnorth'
    """
    if text.isprintable():
        return text
    from unicodedata import category

    hidden = ("Cc", "Cf", "Cs")
    return "".join(
        ascii(sign)[1:-1] if sign not in "\n\t" and category(sign) in hidden else sign
        for sign in text
    )
