"""Settings of threads, with torch's number of threads as an example."""

from __future__ import annotations

import threading

import torch

from zerolab.core.resources import ThreadSetting
from zerolab.networks.inference import limit_torch_threads


def test_contexts_that_overlap_in_threads_leave_all_cores_to_torch():
    first_open, second_open, first_closed = (threading.Event() for _ in range(3))
    counts = []

    def hold(opened, until):
        with limit_torch_threads(1):
            opened.set()
            assert until.wait(30)
            counts.append(torch.get_num_threads())
        first_closed.set()
        counts.append(torch.get_num_threads())

    def enter_late():
        assert first_open.wait(30)
        hold(second_open, first_closed)

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    threads = [threading.Thread(target=hold, args=(first_open, second_open))]
    threads.append(threading.Thread(target=enter_late))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    new_thread = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
    new_thread.start()
    new_thread.join()
    torch.set_num_threads(before)
    assert sorted(counts) == [1, 1, 3, 3, 3]


def test_thread_keeps_its_setting_after_a_context_beside_that_of_another_thread():
    """The setting of the main thread is not one that it inherited."""
    of_thread = threading.local()
    latest = [8]

    def write(value):
        of_thread.value = latest[0] = value

    setting = ThreadSetting(lambda: getattr(of_thread, "value", latest[0]), write)
    write(4)
    opened, closing = threading.Event(), threading.Event()

    def hold():
        write(1)
        with setting.override(2):
            opened.set()
            assert closing.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert opened.wait(30)
    with setting.override(3):
        pass
    assert of_thread.value == 4
    closing.set()
    thread.join()
