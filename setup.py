"""Compiles the native engine. Without a compiler fedfb installs all the same, and uses numpy."""

from pathlib import Path

from setuptools import Extension, setup

FOLDER = Path("src/fedfb/engine/native")

KERNEL = Extension(
    "fedfb.engine.native._kernel",
    sources=sorted(str(path) for path in FOLDER.glob("*.c")),
    depends=sorted(str(path) for path in FOLDER.glob("*.h")),
    # Contracting products and sums is left to the source: a run's bits would depend on its place.
    extra_compile_args=["-O3", "-std=gnu11", "-ffp-contract=off", "-Wno-psabi"],
    libraries=["m"],
    optional=True,
)

setup(ext_modules=[KERNEL])
