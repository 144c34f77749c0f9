"""Products of an update: they are those of the model, and only they are repeated."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.building.translators import build_translation
from regard.data.batch import pair_batch
from regard.numerics import linear
from regard.training.settings import TrainingSettings
from tests import configs
from tests.benchmarks.scripts import script

update_products = script("update_products")
updates = script("updates")


class Batches:
    def epoch(self, _):
        rows = [[4 + (i + j) % 20 for j in range(5 + i % 3)] for i in range(6)]
        yield pair_batch(rows, rows)


def update(kind, **values):
    torch.manual_seed(0)
    model = build_translation(configs.translation(kind, kind, size=16, **values), 30, 30)
    return updates.updates(updates.Setup(model, Batches(), TrainingSettings()), "float32")


def test_products_are_recorded_with_their_sizes_and_directions():
    left, right = torch.randn(3, 5, requires_grad=True), torch.randn(5, 7, requires_grad=True)
    products = update_products.recorded(lambda: (left @ right).sum().backward())
    assert [(each.sizes, each.is_backward) for each in products] == [
        ((1, 3, 5, 7), False),
        ((1, 5, 3, 7), True),
        ((1, 3, 7, 5), True),
    ]
    assert [each.flops for each in products] == [2 * 3 * 5 * 7] * 3


@pytest.mark.skipif(linear.LINEAR is None, reason="PyTorch without oneDNN")
def test_products_by_onednn_are_recorded():
    inputs, weight = torch.randn(3, 5), torch.randn(7, 5)
    (product,) = update_products.recorded(lambda: linear._one_call(inputs, weight))
    assert (product.sizes, product.operator.namespace) == ((1, 3, 5, 7), "mkldnn")


@pytest.mark.parametrize(
    ("kind", "values"),
    [("recurrent", dict(cell="gru")), ("transformer", dict(heads=2, feed_forward=16))],
)
def test_a_replay_has_the_flops_and_layouts_of_the_update(kind, values):
    run = update(kind, **values)
    products = update_products.recorded(run)
    with FlopCounterMode(display=False) as counter:
        run()
    assert sum(each.flops for each in products) == counter.get_total_flops()
    again = update_products.recorded(update_products.replay(products))
    assert [(each.operator, each.arguments) for each in again] == [
        (each.operator, each.arguments) for each in products
    ]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_update_is_measured_beside_its_products_and_a_large_product(precision, monkeypatch):
    monkeypatch.setattr(update_products, "LARGE", 8)
    run = update("recurrent", cell="gru")
    speeds, products = update_products.measure(run, precision, 1)
    assert speeds.flops == sum(each.flops for each in products)
    assert min(speeds.updates, speeds.products, speeds.core) > 0
    (large,) = update_products.recorded(update_products.large_product(precision))
    assert large.sizes == (1, 8, 8, 8)
    assert large.arguments[-1].dtype == getattr(torch, precision)


def test_the_table_names_the_slowest_products():
    left, right = torch.randn(30, 50), torch.randn(50, 70)
    products = update_products.recorded(lambda: (left @ right, left @ right, left.T @ left))
    rows = list(update_products.table(products, 1, 5))[2:]
    names = {row.split(" | ")[0].strip("| "): row.split(" | ")[1] for row in rows}
    assert names == {"30 x 50 x 70, mm, forward": "2", "50 x 30 x 50, mm, forward": "1"}
