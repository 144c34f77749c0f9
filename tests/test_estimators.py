"""Estimators: the interface of scikit-learn, with and without scikit-learn."""

import pickle
import subprocess
import sys
from itertools import product

import numpy as np
import pandas
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

import regard
from regard.errors import UserError

WORDS = ["".join(letters) for letters in product("abcd", repeat=3)]
QUESTIONS = [f"{word} is {name}" for name in WORDS for word in ("where", "who")]
KINDS = [3, 1] * len(WORDS)
TINY = {
    "training.epochs": 3,
    "training.warmup": 0,
    "training.learning_rate": 0.02,
    "model.size": 16,
    "model.dropout": 0.0,
    "data.batch_tokens": None,
    "data.batch_sentences": 16,
}
LETTERS = {"training.epochs": 1, "model.size": 16}
UNSORTED = np.array(["x", 2], dtype=object)
ESTIMATORS = {"Classifier": regard.Classifier, "Translator": regard.Translator}
CHECKS = (
    "estimator_cloneable",
    "estimator_tags_renamed",
    "valid_tag_types",
    "estimator_repr",
    "no_attributes_set_in_init",
    "fit_score_takes_y",
    "parameters_default_constructible",
    "get_params_invariance",
    "set_params",
    "do_not_raise_errors_in_init_or_set_params",
    "mixin_order",
    "estimators_overwrite_params",
    "estimators_fit_returns_self",
    "n_features_in_after_fitting",
    "readonly_memmap_input",
    "estimators_pickle",
    "fit_idempotent",
)
"""Single checks of scikit-learn that need no matrix of numbers to be understood. `check_estimator`
skips them for an estimator of texts."""


@pytest.fixture(scope="module")
def classifier():
    return regard.Classifier(settings=TINY, random_state=3).fit(QUESTIONS, KINDS)


def test_predictions_are_labels_of_the_type_of_y(classifier):
    predictions = classifier.predict(QUESTIONS[:6])
    assert predictions.dtype == np.asarray(KINDS).dtype
    assert predictions.tolist() == KINDS[:6]
    assert classifier.classes_.tolist() == [1, 3]
    probabilities = classifier.predict_proba(["who is she", " "])
    assert probabilities.shape == (2, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert probabilities[0, 0] > 0.5
    assert probabilities[1].tolist() == [0.5, 0.5]
    wrong = [1 if kind == 3 else 3 for kind in KINDS[:4]]
    assert classifier.score(QUESTIONS[:8], KINDS[:4] + wrong) == 0.5
    assert set(classifier.model_.labels) == {"1", "3"}


def test_a_pickle_predicts_as_the_estimator_does(classifier):
    again = pickle.loads(pickle.dumps(classifier))
    probabilities = classifier.predict_proba(QUESTIONS[:4])
    np.testing.assert_array_equal(again.predict_proba(QUESTIONS[:4]), probabilities)


@pytest.mark.parametrize("seed", [5, np.random.RandomState(5)])
def test_the_random_state_is_the_seed(seed):
    series = pandas.Series(WORDS)
    translator = regard.Translator(settings=LETTERS, random_state=seed).fit(series, series)
    experiment = translator.model_.experiment
    assert experiment.training.seed == experiment.data.seed
    expected = 5 if seed == 5 else int(np.random.RandomState(5).randint(1 << 31))
    assert experiment.training.seed == expected
    assert experiment.data.test_size == 0
    outputs = translator.predict(np.array(WORDS[:5]))
    assert outputs.shape == (5,)
    assert translator.score(WORDS[:5], outputs) == 1.0
    assert translator.score(WORDS[:5], [f"{output}a" for output in outputs]) == 0.0


def test_a_failed_training_leaves_the_estimator_as_it_was(classifier):
    copied = pickle.loads(pickle.dumps(classifier))
    with pytest.raises(UserError, match="did you mean epochs"):
        copied.set_params(settings={"training.epochz": 1}).fit(QUESTIONS, ["a", "b"] * len(WORDS))
    assert copied.predict(QUESTIONS[:6]).tolist() == KINDS[:6]


def test_labels_may_be_a_column():
    estimator = regard.Classifier(settings={**TINY, "training.epochs": 1})
    assert estimator.fit(QUESTIONS, pandas.DataFrame({"y": KINDS})).classes_.tolist() == [1, 3]


def test_labels_with_one_text_stay_apart():
    classes = regard.estimators._texts_of_labels(np.array([1, "1 ", "1"], dtype=object))
    assert classes == ["0", "1", "2"]
    assert regard.estimators._texts_of_labels(np.array([True, False])) == ["True", "False"]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_check_estimator_passes(name):
    with pytest.warns(match="Can't test estimator"):
        results = estimator_checks.check_estimator(ESTIMATORS[name]())
    assert {result["status"] for result in results} == {"passed"}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_checks_without_numbers_pass(name, check, monkeypatch, unchecked):
    """The checks pass matrices of numbers, so `fit` and `predict` have stand-ins."""

    def fit(self, X, y):  # noqa: N803
        self.classes_ = np.unique(y)
        self.model_ = "trained"
        return self

    def predict(self, X):  # noqa: N803
        return np.full(len(X), self.classes_[0])

    monkeypatch.setattr(ESTIMATORS[name], "fit", fit)
    monkeypatch.setattr(ESTIMATORS[name], "predict", predict)
    monkeypatch.setattr(regard.Classifier, "predict_proba", lambda self, texts: np.ones((9, 1)))
    monkeypatch.setattr(regard.Translator, "score", lambda self, X, y: 1.0)  # noqa: N803
    getattr(estimator_checks, f"check_{check}")(name, ESTIMATORS[name]())


def test_scikit_learn_clones_and_validates():
    estimator = regard.Classifier(settings=TINY)
    assert is_classifier(estimator)
    assert clone(estimator).get_params() == estimator.get_params()
    assert repr(make_pipeline(regard.Classifier("trec"))).endswith("Classifier(recipe='trec'))])")
    quick = {**TINY, "training.epochs": 1}
    scores = cross_val_score(regard.Classifier(settings=quick), QUESTIONS, KINDS, cv=2)
    assert scores.shape == (2,)
    assert np.isfinite(scores).all()
    search = GridSearchCV(regard.Classifier(), {"settings": [quick]}, cv=2)
    assert search.fit(QUESTIONS, KINDS).best_params_ == {"settings": quick}


WITHOUT = """
import sys
sys.modules["sklearn"] = None
import regard
estimator = regard.Classifier(settings={"training.epochs": 1, "model.size": 16})
try:
    estimator.predict(["a"])
except ValueError as error:
    print(type(error).__name__, error)
texts = [f"{word} is {n}" for n in range(30) for word in ("where", "who")]
print(estimator.fit(texts, ["x", "y"] * 30).predict(texts[:2]).shape)
"""


def test_scikit_learn_is_optional():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines() == [
        "UnfittedError this Classifier is not fitted: call fit first",
        "(2,)",
    ]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: regard.Classifier().predict(["a"]), NotFittedError, "call fit first"),
        (lambda: regard.Classifier().fit(["a", "b"], [1]), ValueError, "X has 2 texts and y 1"),
        (lambda: regard.Classifier().fit(["a", "b"], [1, 1]), ValueError, "y has 1 class"),
        (lambda: regard.Classifier().fit(["a"], [["b", "c"]]), ValueError, "y has 2 axes"),
        (lambda: regard.Classifier().fit(["a"], None), ValueError, "y has 0 axes"),
        (lambda: regard.Classifier().fit(["a", "b"], [1, np.nan]), ValueError, "missing labels"),
        (lambda: regard.Classifier().fit(["a", "b"], ["x", None]), ValueError, "missing labels"),
        (lambda: regard.Classifier().fit(["a", "b"], UNSORTED), ValueError, "cannot be sorted"),
        (lambda: regard.Classifier().fit(["a", 2], [1, 2]), TypeError, r"X\[1\] is int"),
        (lambda: regard.Classifier().fit("ab", [1, 2]), TypeError, "X is str: expected a list"),
        (lambda: regard.Classifier().fit(np.ones((2, 2)), [1, 2]), TypeError, r"X\[0\] is ndarray"),
        (lambda: regard.Classifier("letters").fit(["a", "b"], [1, 2]), UserError, "task classify"),
        (lambda: regard.Classifier("leters").fit(["a", "b"], [1, 2]), UserError, "mean letters"),
        (lambda: regard.Translator(random_state="x").fit(["a"], ["b"]), TypeError, "random_state"),
        (lambda: regard.Translator().set_params(size=3), ValueError, "'size' is not a parameter"),
    ],
)
def test_wrong_arguments_are_named(call, error, message, unchecked):
    with pytest.raises(error, match=message):
        call()
