"""Estimators with the interface of scikit-learn, for labels and for pairs of texts.

scikit-learn is optional: its functions take these estimators, and nothing here needs it.
"""

from __future__ import annotations

import inspect
import math
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from regard.characters import composed, is_blank_text
from regard.config import ClassificationDataConfig, Data, DataConfig, Experiment
from regard.errors import UserError
from regard.pipeline.fit import recipe_of, train
from regard.tasks.classification.model import ClassificationModel
from regard.tasks.translation.model import TranslationModel
from regard.training.log import SilentReporter

AnyEstimator = TypeVar("AnyEstimator", bound="_Estimator")
SEED_BOUND = 1 << 31
"""Upper bound of a seed that is drawn from a random state."""


class UnfittedError(ValueError, AttributeError):
    """The estimator is not fitted. If scikit-learn is loaded, its NotFittedError is raised."""


class _Estimator:
    """Base of the estimators: parameters, training and tags.

    The parameters are the arguments of the constructor, as scikit-learn reads and sets them."""

    recipe: str | Path | Experiment
    settings: Mapping[str, object] | None
    output: str | Path | None
    random_state: Any

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name. No parameter is an estimator, so `deep` has no effect."""
        del deep
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self: AnyEstimator, **parameters: Any) -> AnyEstimator:
        """Set parameters by name and return the estimator. ValueError for an unknown name."""
        for name, value in parameters.items():
            if name not in self._parameter_names():
                raise ValueError(
                    f"{name!r} is not a parameter of {type(self).__name__}: expected "
                    f"{', '.join(self._parameter_names())}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = {
            name: value
            for name, value in self.get_params().items()
            if value is not defaults[name].default and value != defaults[name].default
        }
        inner = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        return f"{type(self).__name__}({inner})"

    def _fit(self, sources: list[str], targets: list[str], task: type[Data]) -> Any:
        """Train a model of this task on the pairs, without a test split."""
        if self.recipe is None:
            raise UserError("recipe is None: expected the name of a recipe")
        recipe = recipe_of(self.recipe)
        settings: dict[str, object] = {"data.test_size": 0, **(self.settings or {})}
        seed = _seed(self.random_state)
        if seed is not None:
            settings |= {"training.seed": seed, "data.seed": seed}
        if not isinstance(recipe.data, task):
            raise UserError(
                f"data.task of the recipe is {recipe.data.task}: {type(self).__name__} expects a "
                f"recipe with data.task {task.task}"
            )
        return train(
            list(zip(sources, targets, strict=True)),
            recipe,
            settings=settings,
            output=self.output,
            reporter=SilentReporter(),  # as other estimators, also in notebooks
        )

    def _fitted(self) -> Any:
        """Return the trained model. scikit-learn's NotFittedError, or an UnfittedError, before
        `fit`."""
        if hasattr(self, "model_"):
            return self.model_
        message = f"this {type(self).__name__} is not fitted: call fit first"
        loaded = sys.modules.get("sklearn.exceptions")
        raise (loaded.NotFittedError if loaded else UnfittedError)(message)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _tags(self, *, is_classifier: bool) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier" if is_classifier else None,
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags() if is_classifier else None,
            transformer_tags=None,
            regressor_tags=None,
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
        )


class Classifier(_Estimator):
    """Classifier of texts with the interface of scikit-learn.

    After `fit`, `model_` is the trained ClassificationModel and `classes_` has the labels, sorted.
    """

    def __init__(
        self,
        recipe: str | Path | Experiment = "labels",
        settings: Mapping[str, object] | None = None,
        output: str | Path | None = None,
        random_state: Any = None,
    ) -> None:
        """`settings` are fields of the recipe by full name. `output` is the run folder, by default
        a temporary one. `random_state` is a seed or a random state of NumPy; None keeps the seeds
        of the recipe."""
        self.recipe = recipe
        self.settings = settings
        self.output = output
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Classifier:  # noqa: N803 - scikit-learn's name
        """Train on texts and their labels, of any type that NumPy sorts, and return the
        estimator."""
        sources, labels = _texts("X", X), _labels(y)
        _check_lengths(sources, labels)
        try:
            classes, places = np.unique(labels, return_inverse=True)
        except TypeError as error:
            raise ValueError(f"y has labels that cannot be sorted: {error}") from error
        if len(classes) < 2:
            raise ValueError(f"y has {len(classes)} class: expected at least 2")
        texts = _texts_of_labels(classes)
        targets = [texts[place] for place in places]
        self.model_: ClassificationModel = self._fit(sources, targets, ClassificationDataConfig)
        self._label_texts, self.classes_ = texts, classes
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the most probable label of each text."""
        probabilities = self.predict_proba(X)
        labels: np.ndarray = self.classes_[probabilities.argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the probability of each label, with axes text and label, in the order of
        `classes_`. A blank text has equal probabilities."""
        model = self._fitted()
        sources = _texts("X", X)
        columns = {name: column for column, name in enumerate(self._label_texts)}
        result = np.zeros((len(sources), len(columns)))
        for row, prediction in zip(result, model.classify(sources, attention=False), strict=True):
            for name, probability in prediction.probabilities:
                row[columns[name]] = probability
            if not prediction.probabilities:
                row[:] = 1 / len(row)
        return result

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Return the accuracy: the share of texts whose label is predicted."""
        return _share(self.predict(X), _in_nfc(np.asarray(y)))

    def __sklearn_tags__(self) -> Any:
        return self._tags(is_classifier=True)


class Translator(_Estimator):
    """Translator of texts, such as words or sentences, with the interface of scikit-learn.

    After `fit`, `model_` is the trained TranslationModel."""

    def __init__(
        self,
        recipe: str | Path | Experiment = "letters",
        settings: Mapping[str, object] | None = None,
        output: str | Path | None = None,
        random_state: Any = None,
    ) -> None:
        """`recipe`, `settings`, `output` and `random_state` are those of `Classifier`."""
        self.recipe = recipe
        self.settings = settings
        self.output = output
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Translator:  # noqa: N803
        """Train on sources and their targets, and return the estimator."""
        sources, targets = _texts("X", X), _texts("y", y)
        _check_lengths(sources, targets)
        self.model_: TranslationModel = self._fit(sources, targets, DataConfig)
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the translation of each text. Warns of texts that are too long for the model."""
        model = self._fitted()
        outputs = model.translate(_texts("X", X), attention=False)
        num_refused = sum(output.is_refused for output in outputs)
        if num_refused:
            limit = model.source_limit()
            warnings.warn(
                f"{num_refused} of {len(outputs)} texts have more than {limit.tokens} tokens "
                f"({limit.field}): their predictions are blank",
                stacklevel=2,
            )
        return np.array([output.text for output in outputs], dtype=str)

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Return the exact match: the share of texts whose translation is the target."""
        targets = [self._fitted().tokenizers.target.normalise(text) for text in _texts("y", y)]
        return _share(self.predict(X), targets)

    def __sklearn_tags__(self) -> Any:
        return self._tags(is_classifier=False)


def _texts(name: str, values: Any) -> list[str]:
    """Return texts as a list. TypeError for anything else, such as a matrix of numbers."""
    if isinstance(values, str | set | frozenset) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {type(values).__name__}: expected a list of texts")
    texts = list(values)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name}[{number}] is {type(text).__name__}: expected a text")
    return list(map(str, texts))


def _labels(values: Any) -> np.ndarray:
    """Return labels as an array of one axis. ValueError for other axes and for missing labels."""
    labels = np.asarray(values)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"y has {labels.ndim} axes: expected a list with a label for each text")
    if any(map(_is_missing, labels.tolist())):
        raise ValueError("y has missing labels (None or NaN): leave their texts out")
    return _in_nfc(labels)


def _in_nfc(labels: np.ndarray) -> np.ndarray:
    """Return labels with texts in NFC, as models read texts."""
    if labels.dtype.kind not in "UO":
        return labels
    values = [
        unicodedata.normalize("NFC", label) if isinstance(label, str) else label
        for label in labels.tolist()
    ]
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result if labels.dtype.kind == "O" else result.astype(str)


def _is_missing(label: object) -> bool:
    """Return whether a label is None, NaN or a missing value of pandas."""
    is_nan = isinstance(label, float) and math.isnan(label)
    return label is None or is_nan or type(label).__name__ in ("NAType", "NaTType")


def _texts_of_labels(classes: np.ndarray) -> list[str]:
    """Return the labels as texts on one line, or their numbers if two labels have one text."""
    names = [composed(str(label)) for label in classes.tolist()]
    is_distinct = len(set(names)) == len(names) and not any(map(is_blank_text, names))
    return names if is_distinct else [str(number) for number in range(len(names))]


def _check_lengths(sources: Any, targets: Any) -> None:
    if len(sources) != len(targets):
        raise ValueError(
            f"X has {len(sources)} texts and y {len(targets)}: expected one target a text"
        )


def _share(predictions: np.ndarray, targets: Any) -> float:
    """Return the share of predictions that equal their targets."""
    expected = np.asarray(targets)
    _check_lengths(predictions, expected)
    return float(np.mean(predictions == expected))


def _seed(state: Any) -> int | None:
    """Return the seed of a random state: itself, or a number that it draws."""
    if state is None or isinstance(state, int | np.integer):
        return None if state is None else int(state)
    if isinstance(state, np.random.RandomState):
        return int(state.randint(SEED_BOUND))
    if isinstance(state, np.random.Generator):
        return int(state.integers(SEED_BOUND))
    raise TypeError(
        f"random_state is {type(state).__name__}: expected None, a whole number or a random state "
        "of NumPy"
    )
