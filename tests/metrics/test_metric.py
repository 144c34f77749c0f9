"""Every name of a metric has a function, with one direction in all tasks."""

from collections import defaultdict
from typing import get_args

from regard.metrics.captions import CAPTION_METRICS
from regard.metrics.classification import LABEL_METRICS, NUMBER_METRICS
from regard.metrics.error_rates import ERROR_RATES
from regard.metrics.metric import named
from regard.metrics.text import TEXT_METRICS
from regard.names import MetricName

TUPLES = (TEXT_METRICS, ERROR_RATES, CAPTION_METRICS, LABEL_METRICS, NUMBER_METRICS)


def test_every_name_has_a_metric_with_one_direction():
    directions = defaultdict(set)
    for metrics in TUPLES:
        for metric in metrics:
            directions[metric.name].add(metric.higher_is_better)
    assert set(directions) == set(get_args(MetricName))
    assert all(len(values) == 1 for values in directions.values())


def test_a_worse_output_does_not_score_better():
    texts, references = ["the cat sat on the mat"], [["the cat sat on the mat"]]
    for metrics in (TEXT_METRICS, ERROR_RATES, CAPTION_METRICS):
        for metric in metrics:
            sign = 1 if metric.higher_is_better else -1
            right = metric.compute(texts, references).value
            wrong = metric.compute(["a dog ran"], references).value
            assert sign * right >= sign * wrong, metric.name


def test_numbers_farther_away_do_not_score_better():
    for metric in NUMBER_METRICS:
        sign = 1 if metric.higher_is_better else -1
        near = metric.compute(["1", "3"], ["1", "2"]).value
        far = metric.compute(["1", "7"], ["1", "2"]).value
        assert sign * near > sign * far, metric.name


def test_metrics_are_found_by_name():
    assert [named(TEXT_METRICS, metric.name) for metric in TEXT_METRICS] == list(TEXT_METRICS)
    assert named(TEXT_METRICS, "accuracy") is None
