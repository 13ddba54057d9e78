import hashlib
import io
import zipfile

import pooch
import pytest

from fedfb.data import path_of
from fedfb.data.datasets.fetch import FILES, Published, _extract
from fedfb.errors import DataError


def test_a_file_that_is_not_there_is_named_with_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFB_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"there is no adult\.data in it. Put the file there"):
        path_of("adult.data")


def test_a_changed_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFB_DATA", str(tmp_path))
    (tmp_path / "adult.data").write_text("39, State-gov\n")
    with pytest.raises(
        DataError, match=r"is not the published file: its sha256 is .* expected 5b0"
    ):
        path_of("adult.data")


def test_the_right_file_is_found_and_a_later_change_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFB_DATA", str(tmp_path))
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    monkeypatch.setitem(FILES, "adult.data", Published("https://example.org/adult.zip", empty))
    path = tmp_path / "adult.data"
    path.touch()
    assert path_of("adult.data") == path_of("adult.data") == path
    path.write_text("changed")
    with pytest.raises(DataError, match="is not the published file"):
        path_of("adult.data")


def test_an_unknown_file_offers_the_nearest():
    with pytest.raises(DataError, match=r"did you mean 'adult\.data'"):
        path_of("adult.dat")


def test_a_failed_download_tells_how_to_do_it_by_hand(tmp_path, monkeypatch):
    def fail(*_: object, **__: object) -> str:
        raise OSError("no network")

    monkeypatch.delenv("FEDFB_DATA", raising=False)
    monkeypatch.setattr(pooch, "retrieve", fail)
    monkeypatch.setattr(pooch, "os_cache", lambda _: tmp_path)
    with pytest.raises(
        DataError, match=r"\(no network\). Download it by hand .* set .* FEDFB_DATA"
    ):
        path_of("bank-full.csv")


def zipped(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def test_a_file_inside_nested_archives_is_extracted():
    content = zipped("bank.zip", zipped("bank-full.csv", b"rows"))
    assert _extract(content, ("bank.zip", "bank-full.csv")) == b"rows"


def test_a_download_is_extracted_checked_and_kept(tmp_path, monkeypatch):
    archive = tmp_path / "adult.zip"
    archive.write_bytes(zipped("adult.data", b"rows"))
    digest = hashlib.sha256(b"rows").hexdigest()
    offered = Published("https://example.org/adult.zip", digest, ("adult.data",))
    downloads = []
    monkeypatch.delenv("FEDFB_DATA", raising=False)
    monkeypatch.setitem(FILES, "adult.data", offered)
    monkeypatch.setattr(pooch, "os_cache", lambda _: tmp_path)
    monkeypatch.setattr(pooch, "retrieve", lambda *a, **k: downloads.append(a) or archive)
    assert path_of("adult.data").read_bytes() == b"rows"
    assert path_of("adult.data") == tmp_path / "adult.data"
    assert len(downloads) == 1
