"""The files that packages are installed from agree with each other."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = ("requirements.lock", "torch.lock")
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ \n\\]+)([^\n]*)((?:\n {4}--hash=sha256:[0-9a-f]{64}[ \\]*)*)", re.MULTILINE)


def normalised(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(name):
    """Version, condition and number of hashes of every package in a file."""
    found = PIN.findall((ROOT / name).read_text())
    return {normalised(package): (version, rest, hashes.count("sha256:")) for package, version, rest, hashes in found}


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_in_a_lock_has_hashes(name):
    assert all(hashes for _, _, hashes in pins(name).values())
    assert len(pins(name)) == len(re.findall(r"^[A-Za-z0-9]", (ROOT / name).read_text(), re.MULTILINE))


def test_locks_and_constraints_have_the_same_versions():
    """Constraints also pin extras that the tests do not need; locks also what other platforms and the build need."""
    wanted = {package: version for package, (version, _, _) in pins("constraints.txt").items()}
    for name in LOCKS:
        locked = {package: version for package, (version, _, _) in pins(name).items()}
        assert {package: wanted[package] for package in locked.keys() & wanted} == {
            package: version for package, version in locked.items() if package in wanted
        }


def test_the_locks_have_all_that_the_tests_need():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {normalised(re.match(r"[A-Za-z0-9._-]+", text)[0]) for text in needed}
    assert names - {"torch"} <= pins("requirements.lock").keys()
    assert "torch" in pins("torch.lock")
    assert "torch" not in pins("requirements.lock")  # its build is that of the package index


def test_cuda_is_only_in_the_lock_of_torch():
    assert not [package for package in pins("requirements.lock") if package.startswith(("nvidia-", "cuda-", "triton"))]
    assert [package for package in pins("torch.lock") if package.startswith("nvidia-")]
