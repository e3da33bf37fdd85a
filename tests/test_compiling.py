"""Where compiled code is kept."""

import os
import subprocess
import sys

import pytest

MODULE = """
from usfa.compiling import compiled

@compiled(inner=True)
def twice(x):
    return 2 * x

@compiled()
def answer(x):
    return twice(x)
"""

CALL = """
import small
print(small.answer(21))
"""

BLOCKED = """
import os
from numba.core import caching
writable = caching._CacheLocator.ensure_cache_path
def refuse(self):
    if not self.get_cache_path().startswith(os.path.join({allowed!r}, "usfa-numba-")): raise OSError("read-only")
    writable(self)
caching._CacheLocator.ensure_cache_path = refuse
"""


@pytest.mark.parametrize("kept", [True, False], ids=["temporary", "nowhere"])
def test_works_where_the_usual_caches_cannot_be_written(tmp_path, kept):
    """As with a read-only home: compiled code is kept in a private temporary folder, or not at all."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "small.py").write_text(MODULE)
    environment = {**os.environ, "HOME": "/nonexistent", "TMPDIR": str(temporary)}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(allowed=str(temporary) if kept else "/nowhere") + CALL],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    assert done.stdout.strip() == "42"
    assert bool(list(temporary.glob("usfa-numba-*/**/*.nbi"))) == kept
    assert not list(tmp_path.glob("__pycache__/*.nbi"))


def test_compiled_code_is_kept_beside_the_source(tmp_path):
    (tmp_path / "small.py").write_text(MODULE)
    done = subprocess.run(
        [sys.executable, "-c", CALL], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100
    )
    assert done.stdout.strip() == "42"
    assert list(tmp_path.glob("__pycache__/*.nbi"))
