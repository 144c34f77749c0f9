"""Data: one record for each task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from regard.config.checks import (
    Count,
    CountOrZero,
    ImageSize,
    Length,
    NumExamples,
    Seed,
    Share,
    check_fields,
)
from regard.config.corpora import CorpusPaths
from regard.errors import UserError
from regard.names import (
    DecimalMark,
    GeneratedImages,
    GeneratedLabels,
    GeneratedPairs,
    Severity,
    SourceKind,
    TargetKind,
    TokenizerKind,
)


@dataclass(frozen=True)
class DataConfig:
    """Pairs of source and target text."""

    task: Literal["translate"] = "translate"
    """Task: translate (text to text), classify (a source to a label or to numbers) or caption
    (image to text)."""
    path: Path | None = None
    """Training pairs: a file with columns of sources and targets, such as SOURCE TAB TARGET lines,
    CSV, Parquet or a workbook, or a file of the sources if target_path is set. A pattern with * or
    ? names several files, in the order of their names."""
    target_path: Path | None = None
    """File of the targets, if sources and targets are in two files."""
    mix: tuple[str, ...] | None = None
    """Several corpora in place of path: FILE:WEIGHT or SOURCES,TARGETS:WEIGHT each. Each pair
    occurs as often in an epoch as its weight says, by default once. With weight 0.1, ten epochs
    have each pair once. FILE may be a pattern."""
    encoding: str | None = None
    """Encoding of the files, such as cp1253. Default: recognised."""
    delimiter: str | None = None
    """Delimiter of columns: characters, or tab, comma, semicolon or space. Default: recognised."""
    header: bool | None = None
    """Whether the first row names the columns. Default: recognised."""
    sheet: str | None = None
    """Sheet of a workbook. Default: the first."""
    checks: Severity = "stop"
    """Response to data from which nothing can be learned, such as unknown held-out words: stop, or
    warn and train."""
    source_column: str | None = None
    """Column of the sources, by name or by number from 1. Default: recognised for a file that the
    command line names; otherwise a column with a usual name, or the first."""
    feature_columns: tuple[str, ...] | None = None
    """Columns of features of the source, such as a case or a tense, by name or by number from 1.
    Each value is one token after the text. Several values of a column have ; or | or spaces between
    them."""
    target_column: str | None = None
    """Column of the targets, by name or by number from 1. Default: as for source_column, or the
    second."""
    synthetic: GeneratedPairs | None = None
    """Generate the pairs: number words, or sequences of letters that are copied, reversed or
    sorted."""
    synthetic_size: NumExamples = 10_000
    """Number of pairs to generate."""
    seed: Seed = 1
    """Seed of generated pairs and of the split into train, dev and test. It is independent of
    training.seed, so runs with different training seeds have the same held-out pairs."""
    dev_path: Path | None = None
    """Dev pairs. Default: dev_size pairs are held out of the data. Dev sources that are also in the
    training data are reported."""
    dev_target_path: Path | None = None
    """File of the dev targets, if dev sources and targets are in two files."""
    limit: Count | None = None
    """Train on the first pairs only, up to this number. Held-out pairs are taken from the pairs
    after them."""
    dev_size: CountOrZero | None = None
    """Number of dev pairs to hold out. Default: 5 % of the pairs, at most 500, fewer if many pairs
    share a source. Pairs of a held-out source are not trained on."""
    test_size: CountOrZero | None = None
    """Number of test pairs to hold out for `regard evaluate`. Default: as for dev_size, or 0 if
    dev_path is set."""
    tokenizer: TokenizerKind = "words"
    """Tokenizer: words (Unicode words), spaces (split at spaces), characters, bpe and unigram
    (subwords), spacy (needs the extra `spacy`)."""
    target_tokenizer: TokenizerKind | None = None
    """Tokenizer of the target. Default: that of the source."""
    source_language: str = "en"
    """Language code of the source, for spaCy and for figures."""
    target_language: str = "de"
    """Language code of the target, for spaCy and for figures."""
    lowercase: bool = False
    """Convert both sides to lower case."""
    min_count: Count = 1
    """Words that occur less often in the training data become <unk>."""
    vocabulary_size: Count | None = None
    """Largest vocabulary of each side. Default: no limit for words, 8,000 for subwords."""
    shared_vocabulary: bool = False
    """Learn one vocabulary for both sides."""
    vocabulary: tuple[str, ...] | None = None
    """Words of a shared vocabulary, in order, without <unk>. Default: the vocabulary is learned."""
    tokenizers_path: Path | None = None
    """Folder of a run or an ensemble whose tokenizers and vocabularies are used; other tokenizer
    options are ignored. Ensembles, distillation and runs that start from another run need the same
    vocabularies."""
    source_end: bool = True
    """Append <eos> to sources."""
    target_end: bool = True
    """Append <eos> to targets. Without it the decoder does not learn to stop."""
    bpe_dropout: Share = 0.0
    """Probability that BPE leaves out a merge in training pairs (BPE-dropout), so that every epoch
    splits words into other subwords. Texts to translate are split as usual."""
    max_length: Length = 200
    """Longest side of a training pair, in tokens. Longer pairs are left out and counted."""
    batch_tokens: Count | None = 2048
    """Maximum number of source and target tokens of a batch, padding included."""
    batch_sentences: Count | None = None
    """Maximum number of pairs of a batch."""
    equal_lengths: bool = False
    """Batch sources of equal length, so that no padding is computed. Small data gives smaller
    batches."""

    def __post_init__(self) -> None:
        check_fields("data", self)
        self._check_mix()
        if self.feature_columns and (self.synthetic or self.target_path):
            place = "generated pairs" if self.synthetic else "two files (data.target_path)"
            raise UserError(
                f"data.feature_columns names columns of one file, but the data are {place}: leave "
                "it out, or put sources, features and targets into one file"
            )
        if self.bpe_dropout and self.tokenizers_path is None:
            check_merges(self.bpe_dropout, (self.tokenizer, self.target_tokenizer))
        is_shared = self.shared_vocabulary or self.vocabulary is not None
        if is_shared and self.target_tokenizer not in (None, self.tokenizer):
            raise UserError(
                f"data.target_tokenizer is {self.target_tokenizer}, but both sides share a "
                f"vocabulary, so both have data.tokenizer {self.tokenizer}: leave it out, or "
                "give each side its own vocabulary: --data.no-shared-vocabulary (and --model.tied "
                "output, if model.tied is all)"
            )

    @property
    def corpora(self) -> tuple[CorpusPaths, ...]:
        """Corpora of `mix`, or the one of `path`; none for generated pairs."""
        if self.mix is not None:
            return tuple(map(CorpusPaths.parse, self.mix))
        return () if self.path is None else (CorpusPaths(self.path, self.target_path),)

    def _check_mix(self) -> None:
        """Raise a UserError for a wrong mix, or for one beside other pairs."""
        if self.mix is None:
            return
        if not self.corpora:
            raise UserError("data.mix names no corpus: give at least one, or leave it out")
        for name in ("path", "target_path", "synthetic"):
            if (value := getattr(self, name)) is not None:
                raise UserError(
                    f"data.mix and data.{name} {value} both name training pairs: name all files in "
                    "data.mix, or leave data.mix out"
                )


def check_merges(bpe_dropout: float, kinds: tuple[TokenizerKind | None, ...]) -> None:
    """Raise a UserError if no tokenizer has merges to leave out."""
    if "bpe" not in kinds:
        raise UserError(
            f"data.bpe_dropout is {bpe_dropout}, but no tokenizer is bpe: set data.tokenizer bpe, "
            "or leave it out"
        )


@dataclass(frozen=True)
class ClassificationDataConfig:
    """Sources with a label or numbers."""

    task: Literal["classify"] = "classify"
    """Task: translate (text to text), classify (a source to a label or to numbers) or caption
    (image to text)."""
    path: Path | None = None
    """Training examples: a file with columns of texts and labels, such as TEXT TAB LABEL lines, CSV
    or a workbook, a file in TREC's format (label first), a folder with one subfolder per label, or
    a folder of files named train, dev and test."""
    synthetic: GeneratedLabels | None = None
    """Generate the examples: baskets of products with the mean or the total price of the drinks, or
    series with a marked value."""
    synthetic_size: NumExamples = 10_000
    """Number of examples to generate."""
    seed: Seed = 1
    """Seed of generated examples and of the split into train, dev and test. It is independent of
    training.seed, so runs with different training seeds have the same held-out examples."""
    dev_path: Path | None = None
    """Dev examples. Default: dev_size examples are held out of the data."""
    test_path: Path | None = None
    """Test examples for `regard evaluate`."""
    encoding: str | None = None
    """Encoding of the files, such as cp1253. Default: recognised."""
    delimiter: str | None = None
    """Delimiter of columns: characters, or tab, comma, semicolon or space. Default: recognised."""
    header: bool | None = None
    """Whether the first row names the columns. Default: recognised."""
    sheet: str | None = None
    """Sheet of a workbook. Default: the first."""
    checks: Severity = "stop"
    """Response to data from which nothing can be learned, such as unknown held-out words: stop, or
    warn and train."""
    source_column: str | None = None
    """Column of the sources in a table, by name or by number from 1. Default: found by common
    names."""
    target_column: tuple[str, ...] | None = None
    """Column of the labels or numbers in a table, by name or by number from 1. Several columns are
    several numbers. Default: found by common names."""
    feature_columns: tuple[str, ...] | None = None
    """Columns of features of the source, such as a year or a topic, by name or by number from 1.
    Each value is one token after the text. Several values of a column have ; or | or spaces between
    them."""
    limit: Count | None = None
    """Train on the first examples only, up to this number. Held-out examples are taken from the
    examples after them."""
    dev_size: CountOrZero | None = None
    """Number of dev examples to hold out. Default: 5 % of the examples, at most 500."""
    test_size: CountOrZero | None = None
    """Number of test examples to hold out for `regard evaluate`. Default: as for dev_size, or 0 if
    the data have a test part."""
    source: SourceKind = "text"
    """Form of a source: text, items with numbers ("cola 1.20; bread 0.80"), or a series of numbers
    ("0.1 0.5 0.2", with several features "0.1,0 0.5,1")."""
    target: TargetKind = "label"
    """Form of a target: one of several labels, or one or more numbers."""
    decimal_mark: DecimalMark | None = None
    """Decimal mark of target numbers, if the file does not decide it: point or comma. With `comma`,
    1.234 is 1234; with `point`, 1,234 is. Default: recognised from all numbers of the column."""
    standardise: bool = True
    """Standardise target numbers to mean 0 and standard deviation 1 in training."""
    tokenizer: TokenizerKind = "words"
    """Tokenizer: words (Unicode words), spaces (split at spaces), characters, bpe and unigram
    (subwords), spacy (needs the extra `spacy`)."""
    source_language: str = "en"
    """Language code of the texts, for spaCy and for figures."""
    lowercase: bool = False
    """Convert texts to lower case."""
    min_count: Count = 1
    """Words that occur less often in the training data become <unk>."""
    vocabulary_size: Count | None = None
    """Largest vocabulary. Default: no limit for words, 8,000 for subwords."""
    max_length: Length = 400
    """Tokens of a source that are read. The rest of a longer source is ignored and reported."""
    batch_tokens: Count | None = 2048
    """Maximum number of positions of a batch, padding included."""
    batch_sentences: Count | None = 64
    """Maximum number of examples of a batch."""

    def __post_init__(self) -> None:
        check_fields("data", self)
        if self.feature_columns and (self.synthetic or self.source != "text"):
            place = "generated" if self.synthetic else f"numbers (data.source {self.source})"
            raise UserError(
                "data.feature_columns names columns beside a text, but the sources are "
                f"{place}: leave it out"
            )


@dataclass(frozen=True)
class CaptionDataConfig:
    """Images with captions."""

    task: Literal["caption"] = "caption"
    """Task: translate (text to text), classify (a source to a label or to numbers) or caption
    (image to text)."""
    path: Path | None = None
    """Captions: a .csv file (file, caption), captions.txt or token.txt of Flickr8k, the JSON file
    of Karpathy's splits, or that of COCO."""
    images: Path | None = None
    """Folder of the images. Default: the folder of the captions."""
    encoding: str | None = None
    """Encoding of the files, such as cp1253. Default: recognised."""
    delimiter: str | None = None
    """Delimiter of columns: characters, or tab, comma, semicolon or space. Default: recognised."""
    header: bool | None = None
    """Whether the first row names the columns. Default: recognised."""
    sheet: str | None = None
    """Sheet of a workbook. Default: the first."""
    checks: Severity = "stop"
    """Response to data from which nothing can be learned, such as unknown held-out words: stop, or
    warn and train."""
    source_column: str | None = None
    """Column of the image files in a table, by name or by number from 1. Default: found by common
    names."""
    target_column: str | None = None
    """Column of the captions in a table, by name or by number from 1. Default: found by common
    names."""
    train_list: Path | None = None
    """File of the training images, one name a line. Default: all images in no other list. Lists
    replace a split that the data have."""
    dev_list: Path | None = None
    """File of the dev images, one name a line."""
    test_list: Path | None = None
    """File of the test images for `regard evaluate`, one name a line."""
    synthetic: GeneratedImages | None = None
    """Draw scenes of shapes with captions."""
    synthetic_size: NumExamples = 5000
    """Number of scenes to draw."""
    seed: Seed = 1
    """Seed of drawn scenes and of the split into train, dev and test. It is independent of
    training.seed, so runs with different training seeds have the same held-out captions."""
    limit: Count | None = None
    """Train on the first captions only, up to this number. Held-out captions are taken from the
    captions after them."""
    dev_size: CountOrZero | None = None
    """Number of dev captions to hold out. Default: 5 % of the captions, at most 500. All captions
    of an image are in one split."""
    test_size: CountOrZero | None = None
    """Number of test captions to hold out for `regard evaluate`. Default: as for dev_size."""
    image_size: ImageSize = 64
    """Pixels on each side of an image. Images are stretched to squares."""
    max_pixels: Count = 50_000_000
    """Maximum number of pixels of an image file. Larger images are left out of training and
    counted, and get no caption; baseline JPEGs of up to 4 times as many pixels are read at a
    reduced size."""
    tokenizer: TokenizerKind = "words"
    """Tokenizer: words (Unicode words), spaces (split at spaces), characters, bpe and unigram
    (subwords), spacy (needs the extra `spacy`)."""
    language: str = "en"
    """Language code of the captions, for spaCy and for figures."""
    lowercase: bool = True
    """Convert captions to lower case."""
    min_count: Count = 1
    """Words that occur less often in the training data become <unk>."""
    vocabulary_size: Count | None = None
    """Largest vocabulary. Default: no limit for words, 8,000 for subwords."""
    max_length: Length = 60
    """Longest caption, in tokens. Longer captions are left out of training and counted."""
    batch_sentences: Count = 64
    """Captions of a batch, on average. All captions of an image are in one batch."""

    def __post_init__(self) -> None:
        check_fields("data", self)


Data = DataConfig | ClassificationDataConfig | CaptionDataConfig
DATA_SECTIONS: dict[str, type[Data]] = {record.task: record for record in get_args(Data)}
"""The data section of each task."""


def names_files(data: Data) -> bool:
    """Return whether the data are in files, rather than generated or in memory."""
    return data.path is not None or getattr(data, "mix", None) is not None
