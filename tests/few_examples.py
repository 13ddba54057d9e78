"""Fewer examples where one example takes long; the profiles are in conftest.py."""

from typing import Any

from hypothesis import settings


def one_in(number: int, **more: Any) -> settings:
    """Return settings with one example for so many of the profile, and at least two.

    For tests whose single example is a search on a grid or several trainings. ``more`` is what
    ``hypothesis.settings`` takes.
    """
    return settings(max_examples=max(2, settings().max_examples // number), **more)
