from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader

from nws_sweep.dataloading.hook import wrap_iterators
from tests.user_datasets import Plain

ORIGINAL = DataLoader._get_iterator


def test_each_iteration_is_replaced_also_in_classes_with_a_method_of_their_own_until_the_hook_is_restored() -> (
    None
):
    class Before(DataLoader[Any]):
        def _get_iterator(self) -> Any:
            return super()._get_iterator()

    own, seen, loader = (
        vars(Before)["_get_iterator"],
        [],
        DataLoader(Plain(6), batch_size=4),
    )

    def get_iterator(original: Callable[[Any], Any], loader: Any) -> Any:
        seen.append(loader)
        return original(loader)

    restore = wrap_iterators(get_iterator)

    class After(Before):
        def _get_iterator(self) -> Any:
            return ORIGINAL(self)

    assert [[batch.tolist() for batch in loader] for _ in range(2)] == [
        [[0, 1, 2, 3], [4, 5]]
    ] * 2
    assert (seen, type(loader)) == ([loader, loader], DataLoader)
    assert [len(list(kind(Plain(6)))) for kind in (Before, After)] == [6, 6]
    counted = len(seen)
    restore()
    assert [len(list(kind(Plain(6)))) for kind in (DataLoader, Before, After)] == [
        6,
        6,
        6,
    ]
    assert len(seen) == counted
    assert {type(one) for one in seen} == {DataLoader, Before, After}
    assert (DataLoader._get_iterator, vars(Before)["_get_iterator"]) == (ORIGINAL, own)
    assert "__init_subclass__" not in vars(DataLoader)
