"""Where data come from and how they become numbers: a record for each task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from regard.config.checks import Count, CountOrZero, Examples, ImageSize, Length, Seed, check_fields
from regard.errors import UserError


@dataclass(frozen=True)
class DataConfig:
    """Where the pairs come from and how text becomes numbers."""

    task: Literal["translate"] = "translate"
    """What the fields below are for."""
    path: Path | None = None
    """Pairs: a file with a tab between source and target, or the source side of two files."""
    target_path: Path | None = None
    """The target side, where the pairs are in two files."""
    generated: Literal["numbers", "copy", "reverse", "sort"] | None = None
    """Make the pairs instead of reading them: number words, or sequences of letters."""
    generated_size: Examples = 10_000
    """How many pairs to make."""
    seed: Seed = 1
    """Seed of generated pairs and of the split into train, dev and test. Independent of
    training.seed, so runs with different training seeds share their held-out pairs."""
    dev_path: Path | None = None
    """Pairs for the dev score; without it `dev_size` pairs are held out of the data. Those whose
    source is trained on too are warned of."""
    dev_target_path: Path | None = None
    """The target side of the dev pairs, where they are in two files."""
    limit: Count | None = None
    """Train on the first so many pairs; held-out pairs are then taken from those after them."""
    dev_size: CountOrZero | None = None
    """Held-out pairs for the dev score; without it a twentieth of the pairs, at most 500, and fewer
    where sources are shared by too many pairs. No held-out source is ever trained on."""
    test_size: CountOrZero | None = None
    """Held-out pairs kept for `regard evaluate`; without it as many as would be for the dev score,
    or none where `dev_path` is given."""
    tokenizer: Literal["words", "spaces", "characters", "bpe", "unigram", "spacy"] = "words"
    """How text is cut: `words` (Unicode), `spaces` (text that is cut already), `characters`,
    `bpe` and `unigram` (subwords), `spacy` (needs the extra of that name)."""
    target_tokenizer: Literal["words", "spaces", "characters", "bpe", "unigram", "spacy"] | None = (
        None
    )
    """The same for the target, where it is another."""
    source_language: str = "en"
    """The source's language code: for spaCy, and for the views."""
    target_language: str = "de"
    """The target's language code."""
    lowercase: bool = False
    """Lower-case both sides."""
    min_count: Count = 1
    """Words that occur less often in training become <unk>."""
    vocabulary_size: Count | None = None
    """The largest vocabulary a side; subwords need one and take 8,000 where none is given."""
    shared_vocabulary: bool = False
    """One vocabulary for both sides."""
    vocabulary: tuple[str, ...] | None = None
    """The words of a shared vocabulary, in order, instead of learning them; without <unk>."""
    tokenizers_path: Path | None = None
    """Take the tokenizers of this run, whatever else is said of them, instead of learning some:
    for runs that are to write together, or that go on where this one ended."""
    source_end: bool = True
    """End sources with <eos>."""
    target_end: bool = True
    """End targets with <eos>, which is how a decoder learns to stop."""
    max_length: Length = 200
    """Pairs with a longer side (in tokens) are left out of training, and counted."""
    batch_tokens: Count | None = 2048
    """The most source and target tokens of a batch, padding included."""
    batch_sentences: Count | None = None
    """The most sentences of a batch."""
    one_source_length: bool = False
    """Batches of sources of the very same length, without padding; in small data, smaller ones."""

    def __post_init__(self) -> None:
        check_fields("data", self)
        one = self.shared_vocabulary or self.vocabulary is not None
        if one and self.target_tokenizer not in (None, self.tokenizer):
            raise UserError(
                f"data.target_tokenizer is {self.target_tokenizer}, but a vocabulary that both "
                f"sides share is cut by one tokenizer, {self.tokenizer}: leave it out, or give "
                "each side a vocabulary of its own"
            )


@dataclass(frozen=True)
class AnswerDataConfig:
    """Where the examples come from and how they become numbers: sources with one answer each."""

    task: Literal["classify"] = "classify"
    """What the fields below are for."""
    path: Path | None = None
    """Examples: a file (text, tab, label; .csv; or the label first, as TREC has it), a folder with
    a folder for each label, or one with files whose names say train, dev and test."""
    generated: Literal["drinks", "series"] | None = None
    """Make the examples instead of reading them: baskets whose drinks have a mean price, or series
    with one value marked."""
    generated_size: Examples = 10_000
    """How many examples to make."""
    seed: Seed = 1
    """Seed of generated examples and of the split into train, dev and test. Independent of
    training.seed, so runs with different training seeds share their held-out examples."""
    dev_path: Path | None = None
    """Examples for the dev score; without it `dev_size` are held out of the data."""
    test_path: Path | None = None
    """Examples kept for `regard evaluate`."""
    text_column: str | None = None
    """The column of a table that holds the texts, where it has an unusual name."""
    label_column: tuple[str, ...] | None = None
    """The same for the labels or numbers; several columns are several numbers."""
    limit: Count | None = None
    """Train on the first so many examples; held-out ones are then taken from those after them."""
    dev_size: CountOrZero | None = None
    """Held-out examples for the dev score; without it a twentieth of all, at most 500."""
    test_size: CountOrZero | None = None
    """Held-out examples kept for `regard evaluate`; without it as many as for the dev score, or
    none where the data have some for it."""
    source: Literal["text", "items", "series"] = "text"
    """What a source is: a text, items with numbers ("cola 1.20; bread 0.80"), or a series of
    numbers ("0.1 0.5 0.2", or with features "0.1,0 0.5,1")."""
    answer: Literal["label", "number"] = "label"
    """What is asked for: one of several labels, or a number or several."""
    standardise: bool = True
    """Numbers are learned as distances from their mean, in standard deviations."""
    tokenizer: Literal["words", "spaces", "characters", "bpe", "unigram", "spacy"] = "words"
    """How text is cut: `words` (Unicode), `spaces` (text that is cut already), `characters`,
    `bpe` and `unigram` (subwords), `spacy` (needs the extra of that name)."""
    source_language: str = "en"
    """The texts' language code: for spaCy, and for the views."""
    lowercase: bool = False
    """Lower-case the texts."""
    min_count: Count = 1
    """Words that occur less often in training become <unk>."""
    vocabulary_size: Count | None = None
    """The largest vocabulary; subwords need one and take 8,000 where none is given."""
    max_length: Length = 400
    """Of sources that are longer (in tokens) the rest is not read, which is said."""
    batch_tokens: Count | None = 2048
    """The most positions of a batch, padding included."""
    batch_sentences: Count | None = 64
    """The most examples of a batch."""

    def __post_init__(self) -> None:
        check_fields("data", self)


@dataclass(frozen=True)
class CaptionDataConfig:
    """Where pictures and captions come from and how they become numbers."""

    task: Literal["caption"] = "caption"
    """What the fields below are for."""
    path: Path | None = None
    """Captions: .csv (file, caption), Flickr8k's captions.txt or token.txt, Karpathy's JSON, or
    COCO's."""
    pictures: Path | None = None
    """The folder that the names of pictures are of; without it that of the captions."""
    train_list: Path | None = None
    """A file that names the pictures to train on, a line each; without it all that no other list
    names. Lists stand in the place of parts that the data have."""
    dev_list: Path | None = None
    """The same for the dev score."""
    test_list: Path | None = None
    """The same for `regard evaluate`."""
    generated: Literal["shapes"] | None = None
    """Draw scenes of shapes with captions instead of reading pictures."""
    generated_size: Examples = 5000
    """How many scenes to draw."""
    seed: Seed = 1
    """Seed of generated captions and of the split into train, dev and test. Independent of
    training.seed, so runs with different training seeds share their held-out captions."""
    limit: Count | None = None
    """Train on the first so many captions; held-out ones are then taken from those after them."""
    dev_size: CountOrZero | None = None
    """Held-out captions for the dev score; without it a twentieth, at most 500. All captions of a
    picture stay together."""
    test_size: CountOrZero | None = None
    """Held-out captions kept for `regard evaluate`; without it as many as for the dev score."""
    picture_size: ImageSize = 64
    """Pictures are stretched to squares of so many dots a side."""
    max_pixels: Count = 50_000_000
    """Largest number of pixels of an image. Larger ones are left out of training, and counted, and
    get no caption; baseline JPEGs of up to 4 times as many are read at reduced size."""
    tokenizer: Literal["words", "spaces", "characters", "bpe", "unigram", "spacy"] = "words"
    """How captions are cut."""
    language: str = "en"
    """The captions' language code."""
    lowercase: bool = True
    """Lower-case captions."""
    min_count: Count = 1
    """Words that occur less often in training become <unk>."""
    vocabulary_size: Count | None = None
    """The largest vocabulary; subwords need one and take 8,000 where none is given."""
    max_length: Length = 60
    """Captions with more tokens are left out of training, and counted."""
    batch_sentences: Count = 64
    """About so many captions make a batch; all those of a picture stay together."""

    def __post_init__(self) -> None:
        check_fields("data", self)


Data = DataConfig | AnswerDataConfig | CaptionDataConfig
TASKS: dict[str, type[Data]] = {each.task: each for each in get_args(Data)}
"""The data section that each task has."""
