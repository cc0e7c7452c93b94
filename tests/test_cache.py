from __future__ import annotations

import logging
import os
import stat
import tempfile
from pathlib import Path

import pytest

from fasthop import cache
from fasthop.errors import InvalidConfig


@pytest.fixture(autouse=True)
def fresh_root():
    cache._writable_root.cache_clear()
    yield
    cache._writable_root.cache_clear()


def test_the_environment_variable_decides(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTHOP_CACHE", str(tmp_path / "deep" / "cache"))
    folder = cache.cache_dir("numba")
    assert folder == tmp_path / "deep" / "cache" / "numba"
    assert folder.is_dir()
    assert cache.cache_dir("numba") == folder, "a folder that is there already is taken"


def test_without_it_the_users_cache_folder_is_taken(tmp_path, monkeypatch):
    monkeypatch.delenv("FASTHOP_CACHE", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / name))
    assert cache.cache_dir("peaks") == tmp_path / "fasthop" / "peaks"


def test_a_home_that_cannot_be_written_falls_back_and_says_so(tmp_path, monkeypatch, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("a file where the folder should be")  # root may write anywhere, but not through a file
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("FASTHOP_CACHE", str(blocked / "cache"))
    with caplog.at_level(logging.WARNING, logger="fasthop"):
        folder = cache.cache_dir("numba")
        again = cache.cache_dir("numba")
    assert folder == again
    assert (tmp_path / "temporary") in folder.parents
    assert folder.is_dir()
    assert len(caplog.records) == 1, "told once"
    assert "FASTHOP_CACHE" in caplog.text
    assert stat.S_IMODE(folder.parent.stat().st_mode) & 0o022 == 0, "nobody else can write it"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs POSIX rights")
def test_a_fallback_that_others_can_write_is_not_taken(tmp_path, monkeypatch, caplog):
    planted = tmp_path / f"fasthop-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("FASTHOP_CACHE", str(blocked / "cache"))
    folder = cache.cache_dir("numba")
    assert planted not in folder.parents
    assert folder.is_dir()


@pytest.mark.parametrize("kind", ["", "..", "a/b", "A", "/", "-x"])
def test_a_kind_is_a_plain_name(kind):
    with pytest.raises(InvalidConfig, match="plain name"):
        cache.cache_dir(kind)


def test_sizes_are_those_of_the_files(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTHOP_CACHE", str(tmp_path))
    assert cache.cache_sizes() == {}
    (cache.cache_dir("numba") / "deep").mkdir()
    (cache.cache_dir("numba") / "deep" / "kernel.nbi").write_bytes(b"x" * 1000)
    (cache.cache_dir("numba") / "index").write_bytes(b"x" * 24)
    cache.cache_dir("peaks")
    Path(tmp_path / "stray").write_text("not a kind")
    assert cache.cache_sizes() == {"numba": 1024, "peaks": 0}
