"""The index lists of one epoch, drawn by several pools in turn."""

from nws_sweep.online.pool import Feed, IndexStream


class Sampler:
    """Counts how often it is iterated."""

    def __init__(self, lists: int) -> None:
        self.lists, self.iterated = lists, 0

    def __iter__(self) -> object:
        self.iterated += 1
        return iter([[self.iterated, number] for number in range(self.lists)])

    def __len__(self) -> int:
        return self.lists


def test_a_closed_feed_ends_and_the_next_one_goes_on_where_it_ended() -> None:
    sampler = Sampler(5)
    stream = IndexStream(sampler)
    first, second = (Feed(stream, is_open=is_first, starts=int(is_first)) for is_first in (True, False))
    draws, later = iter(first), iter(second)
    assert [next(draws), next(draws)] == [[1, 0], [1, 1]]
    first.is_open, second.is_open = False, True
    assert (list(draws), list(later), len(second)) == ([], [[1, 2], [1, 3], [1, 4]], 5)
    assert sampler.iterated == 1


def test_a_feed_begins_an_epoch_as_often_as_it_is_told() -> None:
    sampler = Sampler(2)
    feed = Feed(IndexStream(sampler), is_open=True, starts=2)
    iter(feed), iter(feed)
    assert (sampler.iterated, list(iter(feed)), sampler.iterated) == (2, [[2, 0], [2, 1]], 2)
