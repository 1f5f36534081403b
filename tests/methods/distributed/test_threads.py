"""Work on several threads: order, limits, errors."""

import threading
import time
from itertools import count

import pytest

from xmcbench.methods.distributed.threads import in_threads


@pytest.mark.parametrize("threads", [1, 3])
def test_results_come_in_the_order_of_the_items(threads):
    def slow_first(item):
        time.sleep(0.02 * (item == 0))
        return item * item

    assert list(in_threads(slow_first, range(20), threads)) == [item * item for item in range(20)]


def test_so_many_run_at_once_and_each_thread_is_prepared():
    both, prepared = threading.Barrier(2), threading.local()

    def meet(_):
        both.wait(10)  # breaks unless two are here
        return prepared.done

    assert list(in_threads(meet, range(4), 2, prepare=lambda: setattr(prepared, "done", True))) == [True] * 4


def test_items_are_taken_a_little_ahead_only():
    taken = count()
    results = in_threads(lambda item: item, (next(taken) for _ in range(100)), 2)
    assert next(results) == 0
    assert next(taken) == 4
    results.close()


def test_an_error_ends_it():
    done = []

    def fails(item):
        if item == 1:
            raise ValueError("no")
        done.append(item)

    with pytest.raises(ValueError, match="no"):
        list(in_threads(fails, range(1000), 2))
    assert len(done) < 10
