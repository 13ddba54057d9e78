"""Disks without room, folders that nobody may write to, and streams that take nothing."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def mount(folder: Path, options: str) -> bool:
    """Mount a disk in memory on a folder; say whether this machine allows it."""
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", str(folder)], check=True)


class SmallDisk:
    """A real disk of few pages where mounting is allowed; else files may not grow beyond a size."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.disk, self.real = folder, mount(folder, "size=16m")
        (folder / "a page").write_bytes(b"x")  # no disk is smaller than a page
        self.folder = folder / "work"
        self.folder.mkdir()

    def used(self) -> int:
        """Return how much of the disk is used, or the largest file where there is no disk."""
        if self.real:
            disk = os.statvfs(self.disk)
            return (disk.f_blocks - disk.f_bfree) * disk.f_frsize
        sizes = (path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
        return max(sizes, default=0)

    @contextmanager
    def with_room_for(self, size: int) -> Iterator[None]:
        """Leave room for so many bytes beside what is there."""
        if self.real:
            self._remount(f"size={self.used() + size}")
            try:
                yield
            finally:
                self._remount("size=16m")
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    def _remount(self, options: str) -> None:
        command = ["mount", "-o", f"remount,{options}", str(self.disk)]
        subprocess.run(command, check=True, capture_output=True)

    def close(self) -> None:
        if self.real:
            unmount(self.disk)


@contextmanager
def read_only(folder: Path) -> Iterator[bool]:
    """Let nobody write to a folder; say whether that is possible here."""
    if os.geteuid() != 0:
        folder.chmod(0o555)
        try:
            yield True
        finally:
            folder.chmod(0o755)
    elif subprocess.run(
        ["mount", "--bind", str(folder), str(folder)], capture_output=True
    ).returncode:
        yield False
    else:
        remount = ["mount", "-o", "remount,ro,bind", str(folder)]
        try:
            subprocess.run(remount, check=True, capture_output=True)
            yield True
        finally:
            unmount(folder)
