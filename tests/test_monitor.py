import io
from types import SimpleNamespace

import pytest

from softmargin import monitor
from softmargin.monitor import Monitor


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(monitor, "time", SimpleNamespace(perf_counter=lambda: now.seconds))
    return now


def test_history_has_an_entry_for_each_pass(clock):
    watch = Monitor()
    watch.record(-3.0, True)
    clock.seconds += 2.5
    watch.record(-4.0, False, "draws")
    assert watch.history == [
        {"pass": 1, "seconds": 0.0, "objective": -3.0, "accepted": True, "phase": "passes"},
        {"pass": 2, "seconds": 2.5, "objective": -4.0, "accepted": False, "phase": "draws"},
    ]


def test_time_runs_out_when_it_has_run(clock):
    watch, unlimited = Monitor(max_time=3.0), Monitor()
    clock.seconds += 2.9
    assert not watch.out_of_time
    clock.seconds += 0.1
    assert watch.out_of_time
    assert not unlimited.out_of_time


def test_silent_monitor_writes_nothing():
    stream = io.StringIO()
    watch = Monitor(stream=stream)
    watch.record(-1.0, True)
    watch.close()
    assert stream.getvalue() == ""


def test_progress_line_shows_passes_and_bound_and_ends(clock):
    stream = io.StringIO()
    watch = Monitor("fit", verbose=True, max_passes=4, stream=stream)
    watch.record(-12.3456789, True)
    clock.seconds += 1
    watch.record(-11.0, True)
    watch.close()
    last = stream.getvalue().split("\r")[-1]
    assert last.startswith("fit [============            ] pass 2/4")
    assert "bound -11 " in last
    assert last.rstrip(" \n").endswith("1.0 s")
    assert last.endswith("\n")


def test_a_shorter_line_covers_a_longer_one(clock):
    stream = io.StringIO()
    watch = Monitor("fit", verbose=True, max_passes=4, stream=stream)
    for objective in (-1234.57, -1.0):
        watch.record(objective, True)
        clock.seconds += 1
    longer, shorter = stream.getvalue().split("\r")[1:]
    assert len(shorter.rstrip()) < len(longer.rstrip()) <= len(shorter)


def test_progress_line_is_not_redrawn_faster_than_eyes_can_see(clock):
    stream = io.StringIO()
    watch = Monitor(verbose=True, max_passes=100, stream=stream)
    for _ in range(50):
        clock.seconds += 0.001
        watch.record(0.0, True)
    assert stream.getvalue().count("\r") == 1


def test_closing_before_any_pass_is_quiet():
    stream = io.StringIO()
    Monitor(verbose=True, stream=stream).close()
    assert stream.getvalue() == ""


def test_more_passes_than_planned_do_not_overflow_the_bar(clock):
    stream = io.StringIO()
    watch = Monitor(verbose=True, max_passes=1, stream=stream)
    for _ in range(3):
        clock.seconds += 1
        watch.record(0.0, True)
    assert all(line.count("=") <= 24 for line in stream.getvalue().split("\r"))
