import errno
import os

import pytest

from usfa.errors import InputError
from usfa.files import (
    LineFile,
    checked_lines,
    last_line,
    read_bytes,
    read_checked,
    read_json,
    read_lines,
    write_atomically,
    write_checked,
    write_json,
)


def test_a_write_replaces_the_whole_file(tmp_path):
    path = tmp_path / "new" / "folder" / "file"
    write_atomically(path, b"a long first version")
    write_atomically(path, b"short")
    assert path.read_bytes() == b"short"
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full_disk(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full_disk)
    with pytest.raises(OSError, match="No space left") as error:
        write_atomically(path, b"new")
    assert error.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_write_over_a_directory_names_it_once(tmp_path):
    with pytest.raises(OSError, match="directory") as error:
        write_atomically(tmp_path, b"new")
    assert str(error.value).count(str(tmp_path)) == 1


@pytest.mark.parametrize("content", [b"", b"weights", b"\n\n\x00\xff"])
def test_checked_files_round_trip(tmp_path, content):
    write_checked(tmp_path / "file", content)
    assert read_checked(tmp_path / "file") == content


def test_every_torn_or_changed_file_is_refused(tmp_path):
    path = tmp_path / "file"
    write_checked(path, b"some weights")
    whole = path.read_bytes()
    torn = [whole[:size] for size in range(len(whole))]
    changed = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in range(len(whole))]
    for content in [*torn, *changed, whole + b"x", b"plain text", b"\xff" * 100]:
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"is torn or was changed: its checksum does not match"):
            read_checked(path)


def test_json_round_trips(tmp_path):
    value = {"σ": 0.1, "tasks": [[1, -1]], "name": None}
    write_json(tmp_path / "file.json", value)
    assert read_json(tmp_path / "file.json") == value
    assert "σ" in (tmp_path / "file.json").read_text("utf-8")  # for people to read


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"a": ', "is torn or not JSON: Expecting value"),
        (b"", "is torn or not JSON: Expecting value"),
        (b'{"a": "\xff"}', "is torn or not JSON: 'utf-8' codec can't decode"),
        (b"[1]", r"holds list; expected a JSON object\.$"),
        (rb'{"a": "\ud800"}', r"holds text that is not Unicode, as in '\\ud800'; expected none\.$"),
    ],
)
def test_bad_json_is_refused(tmp_path, content, sentence):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"^File {path} {sentence}"):
        read_json(path)


def test_missing_json_is_named(tmp_path):
    path = tmp_path / "file.json"
    with pytest.raises(InputError, match=rf"^File {path} cannot be read: No such file or directory\.$"):
        read_json(path)


def test_every_changed_letter_of_a_json_file_is_found_or_harmless(tmp_path):
    path, value = tmp_path / "file.json", {"rate": 0.5, "seeds": [0, 1], "name": "trip", "kind": None}
    write_json(path, value)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            found = read_json(path)
        except InputError:
            continue
        assert {name: found[name] for name in value} == value


def test_json_without_a_checksum_is_of_an_earlier_version(tmp_path):
    (tmp_path / "file.json").write_text('{"rate": 0.5}')
    assert read_json(tmp_path / "file.json") == {"rate": 0.5}


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 80 + "1" + "}" * 80])
def test_deep_nesting_is_one_sentence(tmp_path, content):
    (tmp_path / "file.json").write_text(content)
    with pytest.raises(InputError, match=r"file\.json is nested too deeply; expected at most 64 levels\.$"):
        read_json(tmp_path / "file.json")


@pytest.mark.parametrize("read", [read_json, read_checked, read_lines, read_bytes, LineFile])
def test_pipes_and_devices_are_not_read(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for name in ("pipe", "link"):
        with pytest.raises(InputError, match=rf"{name} is not a regular file; expected one to read\.$"):
            read(tmp_path / name)


def test_a_line_that_was_torn_is_deleted_before_the_next(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(checked_lines([{"a": 1}])[0] + b'{"a": 2, "che')
    file = LineFile(path)
    file.append({"a": 3})
    file.close()
    found = read_lines(path)
    assert (found.values, found.damaged) == ([{"a": 1}, {"a": 3}], [])
    assert last_line(path) == {"a": 3}
    assert last_line(tmp_path / "none") == {}
