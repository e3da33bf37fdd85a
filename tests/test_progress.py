import io
import signal
import threading
from contextlib import suppress

import pytest
from rich.console import Console

from usfa.errors import InputError
from usfa.progress import interruptible, progress_bar, shown_on

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Clock:
    """Seconds that pass when a test says so."""

    seconds = 0.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def quiet():
    """Signals that nobody waits for do no harm to the tests."""
    before = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("first", SIGNALS)
@pytest.mark.parametrize("second", SIGNALS)
@pytest.mark.usefixtures("quiet")
def test_the_first_signal_waits_and_the_second_does_not(first, second):
    before = [signal.getsignal(number) for number in SIGNALS]
    with interruptible() as pressed:
        assert not pressed.is_set()
        signal.raise_signal(first)
        assert pressed.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(second)
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_threads_leave_signals_alone():
    found = []

    def work():
        with interruptible() as pressed:
            found.append((pressed.is_set(), [signal.getsignal(number) for number in SIGNALS]))

    before = [signal.getsignal(number) for number in SIGNALS]
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, before)]


def test_a_bar_shows_how_it_goes():
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with progress_bar("usfa: 3 runs", 10, "episodes", console) as bar:
        bar.update(5, note="loss 0.1")
        bar.update(10, note="loss 0.2")
    out = console.file.getvalue()
    assert "usfa: 3 runs" in out
    assert "100%" in out
    assert "loss 0.2" in out


def test_a_bar_without_a_known_end_shows_no_share_of_it():
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with progress_bar("front", None, "steps", console) as bar:
        bar.advance(5)
    assert "%" not in console.file.getvalue()


def test_a_bar_that_does_not_stay_leaves_no_trace_in_a_file():
    console = Console(file=io.StringIO(), force_terminal=False, width=120)
    with progress_bar("C = train", 10, "steps", console, stays=False) as bar:
        bar.advance(10)
    assert console.file.getvalue() == ""


def test_in_a_file_a_bar_is_a_line_from_time_to_time():
    clock = Clock()
    console = Console(file=io.StringIO(), force_terminal=False, width=60, get_time=clock)
    with progress_bar("18 runs", 1000, "frames", console) as bar:
        for seconds in range(1, 151):
            clock.seconds = seconds
            bar.update(2 * seconds, note="usfa 0: 17%, and words that are longer than the console is wide")
    first, second, *_ = console.file.getvalue().splitlines()
    assert first.startswith("18 runs: 12 %, 2.0 frames/s, 0:07:20 left, usfa 0: 17%, and words that are longer than")
    assert second.startswith("18 runs: 24 %, 2.0 frames/s, 0:06:20 left, ")


def test_a_short_bar_in_a_file_writes_no_lines():
    console = Console(file=io.StringIO(), force_terminal=False, width=120)
    with progress_bar("usfa", 10, "episodes", console) as bar:
        bar.update(10)
    assert len(console.file.getvalue().splitlines()) == 1


def test_no_console_no_output(capsys):
    with progress_bar("usfa", 10, "episodes", None) as bar:
        bar.update(10)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


# --- where progress is shown ---


@pytest.mark.parametrize(
    ("terminal", "notebook", "widgets", "expected"),
    [
        (True, False, False, "bar"),
        (False, True, True, "bar"),
        (False, True, False, "lines"),
        (False, False, False, None),
    ],
)
def test_progress_is_shown_in_terminals_and_notebooks(monkeypatch, terminal, notebook, widgets, expected):
    monkeypatch.setenv("TTY_COMPATIBLE", "1" if terminal else "0")
    monkeypatch.setattr("rich.console._is_jupyter", lambda: notebook)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: widgets or None)
    console = shown_on("auto")
    assert (console is None) == (expected is None)
    if console is not None:
        assert console.is_terminal or console.is_jupyter or expected == "lines"
        assert console.is_jupyter == (notebook and widgets)


def test_a_console_of_ones_own_and_none():
    console = Console()
    assert shown_on(console) is console
    assert shown_on(None) is None
    with pytest.raises(InputError, match=r"^console is 'x'; expected a rich.console.Console, 'auto', or None\.$"):
        shown_on("x")


@pytest.mark.parametrize("done", [0, 1])
def test_an_error_before_anything_was_done_leaves_no_bar(done):
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with suppress(InputError), progress_bar("acting", 3, "steps", console) as bar:
        bar.update(done)
        raise InputError("wrong")
    after = console.file.getvalue().rpartition("\n")[2]
    assert ("\x1b[2K" in after) == (done == 0)  # the line is erased
