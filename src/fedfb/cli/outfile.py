"""Files that commands write: never over one that is there, unless asked to."""

from pathlib import Path

from fedfb.errors import ConfigError


def refuse_taken(path: Path, force: bool) -> None:
    """Refuse a name that cannot be written to, or only over something that is there."""
    if path.is_dir():
        raise ConfigError(f"--out {path} is a folder. Give the name of a file.")
    if not path.parent.is_dir():
        raise ConfigError(f"--out {path}: there is no folder {path.parent}. Make it first.")
    if path.exists() and not force:
        raise ConfigError(f"{path} is there already. Give --out FILE, or write over it: --force.")
