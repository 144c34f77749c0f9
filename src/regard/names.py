"""Closed sets of names. A command line option, a recipe and the code that reads them take a set
from here, so that each set is written once.

    TokenizerKind                      a type, for annotations
    get_args(TokenizerKind)            its names, in the order in which help and messages list them
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

# Tasks and data

TaskName = Literal["translate", "classify", "caption"]
TASK_RECIPES: Mapping[str, tuple[str, ...]] = {
    "translate": ("letters", "words"),
    "classify": ("labels",),
    "caption": ("captions",),
}
"""Usual recipes of each task."""
SplitName = Literal["train", "dev", "test"]
GeneratedPairs = Literal["numbers", "copy", "reverse", "sort"]
"""Generated sources with a target sequence each."""
GeneratedLabels = Literal["drinks", "drinks-total", "series"]
"""Generated sources with one label or number each."""
GeneratedImages = Literal["shapes"]
"""Generated images with captions."""
Download = Literal["tatoeba"]
ExampleTable = Literal["letters", "words", "labels", "values", "inflection"]
"""Generated tables, named as the recipe that learns them; inflection is learned by letters."""
ExampleImages = Literal["captions"]
"""Generated images with a table of captions, named as the recipe that learns them."""
Example = Literal[ExampleTable, ExampleImages]
Dataset = Literal[Example, Download, GeneratedPairs, GeneratedLabels, GeneratedImages]
"""Data that `regard data` makes or downloads."""
SourceKind = Literal["text", "items", "series"]
"""Sources of the classification task."""
TargetKind = Literal["label", "number"]
"""Targets of the classification task."""
TokenizerKind = Literal["words", "spaces", "characters", "bpe", "unigram", "spacy"]
Side = Literal["source", "target"]
VocabularySide = Literal[Side, "shared"]
"""Sides of a vocabulary: one side each, or both."""
LinkUnit = Literal["words", "pieces"]
"""Units that alignment links connect."""
TextUnit = Literal[LinkUnit, "spaces"]
"""Units of links in files: these, or words between the spaces of the texts."""
TableFormat = Literal["text", "csv", "jsonl", "json", "workbook", "parquet", "memory"]
"""Formats of a data file: lines with tabs or with the label first (text), other delimiters or
quoted cells (csv), and files with named or typed columns."""
ColumnKind = Literal["number", "date", "series", "items", "code", "text"]
"""Contents of a column: items are lists of products with prices, codes are addresses or have as
many digits as letters."""
DecimalMark = Literal["point", "comma"]
FORMAT = ("encoding", "delimiter", "header", "sheet")
"""Fields and options about the format of a data file."""
FILE_OPTIONS = (*FORMAT, "source_column", "target_column")
"""Options of `regard evaluate` about the file."""
Severity = Literal["stop", "warn"]
"""Responses to data from which nothing can be learned: stop, or warn and train."""
Fault = Literal[
    "blank",
    "one column",
    "few columns",
    "many columns",
    "tab",
    "quotes",
    "not JSON",
    "comment",
    "end comment",
    "several labels",
    "several texts",
    "no label",
    "title",
    "repeated header",
    "not UTF-8",
    "NUL",
    "byte-order mark",
    "UTF-8",
    "other encoding",
    "summary",
    "other table",
    "no source",
    "missing value",
    "no number",
    "other number",
]
"""Problems of a line of a data file."""

# Models

TextEncoderKind = Literal[
    "recurrent", "transformer", "bag_of_words", "gated_convolution", "dilated_convolution"
]
ImageEncoderKind = Literal["convolutional", "backbone"]
DecoderKind = Literal["recurrent", "transformer", "gated_convolution", "dilated_convolution"]
HeadKind = Literal["last", "mean", "attention"]
CellKind = Literal["elman", "gru", "lstm"]
Wiring = Literal["bahdanau", "luong", "gnmt", "plain"]
"""Order of a recurrent decoder: attend, then update; update, then attend; attend, then update with
the context in every layer; or no attention."""
ConnectionKind = Literal["none", "residual", "fast_forward"]
"""Skip connections of a recurrent stack."""
BridgeKind = Literal["copy", "linear", "zero"]
OutputKind = Literal["linear", "state", "tanh", "deep", "summed"]
FeedingKind = Literal["none", "context", "attentional"]
QueryKind = Literal["state", "first_layer", "input", "last_two", "same_position", "learned"]
HeadQueryKind = Literal["learned", "last"]
HeadOutputKind = Literal["linear", "none"]
CopyKind = Literal["none", "pointer_generator"]
"""Outputs of a decoder: words of the vocabulary alone, or words copied from the source too."""
TiedWeights = Literal["none", "output", "all"]
Activation = Literal["relu", "gelu"]
AddedPositionKind = Literal["sinusoidal", "learned"]
"""Positional encodings that are added to embeddings."""
PositionKind = Literal[AddedPositionKind, "rotary"]
NormPlacement = Literal["pre", "post"]

# Attention

AttentionKind = Literal[
    "cross",
    "encoder",
    "decoder",
    "image",
    "memory",
    "encoder_experts",
    "decoder_experts",
    "gradient",
]
"""`cross` (from target to source), `encoder` and `decoder` (self-attention), `image` (from target
to grid cells), `memory` (from target to vectors that belong to no source), `encoder_experts` and
`decoder_experts` (from source or target to the experts that compute its positions), `gradient` (no
attention: gradient of the target with respect to the source, for figures of every model)."""
ScoreName = Literal[
    "dot",
    "scaled_dot",
    "general",
    "additive",
    "concat",
    "shared_additive",
    "cosine",
]
HistoryScoreName = Literal["coverage", "location"]
"""Scores that read the attention weights of earlier steps, for recurrent decoders."""
SizedScoreName = Literal["additive", "concat", "shared_additive", HistoryScoreName]
"""Scores with hidden units."""
EqualSizesScoreName = Literal["dot", "scaled_dot", "shared_additive", "cosine"]
"""Scores that need queries and keys of one size."""
SCORE_EXPLANATIONS: Mapping[str, str] = {
    "dot": "",
    "scaled_dot": "",
    "general": "q W k",
    "additive": "Bahdanau",
    "concat": "Luong",
    "shared_additive": "one matrix for query plus key",
    "cosine": "",
    "coverage": "additive, with the sum of the earlier weights; Tu et al. 2016",
    "location": "additive, with the weights of the step before; Chorowski et al. 2015",
}
"""Explanation of each score for help, if its name needs one."""
NormaliserName = Literal["softmax", "sparsemax", "entmax15", "sigmoid", "scaled_softmax"]
NORMALISER_EXPLANATIONS: Mapping[str, str] = {
    "softmax": "",
    "sparsemax": "",
    "entmax15": "",
    "sigmoid": "each weight alone, from 0 to 1",
    "scaled_softmax": "softmax times the number of keys",
}
"""Explanation of each normaliser for help, if its name needs one."""
CountAnswer = Literal["class", "number"]
"""Answers of the counting model: the most probable of the counts 0 to max_len, or a number."""
AttentionScope = Literal["global", "local_m", "local_p"]
Sampling = Literal["soft", "hard", "straight_through"]
"""Contexts: the weighted mean of the values, one sampled value, or the value of the highest
weight."""

# Training and evaluation

Precision = Literal["float32", "bfloat16"]
"""Number formats of the computation. Weights are float32 in both."""
SearchPrecision = Literal[Precision, "int8"]
"""Number formats of the products of a search. int8 is for CPUs."""
TrainingPrecision = Literal[Precision, "auto"]
"""Number formats of training, or the machine's choice."""
Sharding = Literal["none", "full"]
"""Parts of a training that each of several processes has: all, or a share of the weights, gradients
and moments."""
ProductLibrary = Literal["mkl", "onednn"]
"""`mkl` is the library that PyTorch itself uses: MKL, or another one where PyTorch lacks MKL."""
ShapeClass = Literal["small", "few_rows", "many_rows", "small_gradient", "gradient"]
"""Classes of matrix products."""
DeviceName = Literal["auto", "cpu", "cuda"]
ScheduleName = Literal["constant", "cosine", "linear", "inverse_square_root", "plateau"]
TimeUnit = Literal["update", "epoch"]
LossUnit = Literal["word", "sentence"]
"""Units that the training loss is averaged over."""
ObjectiveName = Literal[
    "likelihood", "distillation", "expected_reward", "minimum_risk", "self_critical"
]
"""Training objectives of models that generate texts, and of classifiers (the first two)."""
DivergenceName = Literal["kullback_leibler", "jensen_shannon"]
"""Divergences of a teacher's probabilities from those of its student."""
RewardName = Literal["gleu", "cider"]
"""Rewards of sampled texts."""
ForcingUnit = Literal["sentence", "token"]
"""Units that teacher forcing is drawn for."""
MetricName = Literal[
    "bleu",
    "chrf",
    "ter",
    "exact_match",
    "wer",
    "cer",
    "accuracy",
    "macro_f1",
    "r2",
    "mean_error",
    "rmse",
    "cider",
]
"""Metrics that can be the dev score. The record `Metric` of each is in `regard.metrics`."""
LineKind = Literal["train", "dev", "average", "end"]
"""Kinds of lines in the training log."""
Ending = Literal["finished", "patience", "hours", "interrupted", "terminated"]
"""Reasons for the end of training: all updates, no better dev score, `training.hours`, SIGINT,
SIGTERM."""
TrackerName = Literal["csv", "tensorboard", "wandb", "mlflow"]
"""Receivers of the training log besides log.jsonl."""
LengthPenaltyName = Literal["average"]
"""Length penalties without a number."""
Figure = Literal["heatmap", "sentence", "overlay"]
"""Forms of a figure: a heatmap, a sentence with coloured pieces, or an image under each word."""
Engine = Literal["onnx", "ctranslate2"]
"""Engines that models are exported to."""

UnknownRule = Literal["allow", "forbid"]
"""Whether <unk> may be generated."""

OverlayScale = Literal["image", "word"]
"""Weights that share a colour scale on an image: those of all words, or those of one word."""
