"""Everything a recipe can say, as records whose field docstrings are the command line's help.

A recipe is a YAML page of these fields; the command line overrides any of them. Only the command
line, `build` and `pipeline` know these records: every other module takes plain arguments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, get_args

import tyro

from regard.errors import UserError

ScoreName = Literal[
    "dot", "scaled_dot", "general", "additive", "concat", "shared_additive", "cosine"
]


@dataclass(frozen=True)
class DataConfig:
    """Where the pairs come from and how text becomes numbers."""

    path: Path | None = None
    """Pairs: a file with a tab between source and target, or the source side of two files."""
    target_path: Path | None = None
    """The target side, where the pairs are in two files."""
    generated: Literal["numbers", "copy", "reverse", "sort"] | None = None
    """Make the pairs instead of reading them: number words, or sequences of letters."""
    generated_size: int = 10_000
    """How many pairs to make."""
    dev_path: Path | None = None
    """Pairs for the dev score; without it `dev_size` pairs are held out of the data. Those whose
    source is trained on too are warned of."""
    dev_target_path: Path | None = None
    """The target side of the dev pairs, where they are in two files."""
    limit: int | None = None
    """Train on the first so many pairs; held-out pairs are then taken from those after them."""
    dev_size: int | None = None
    """Held-out pairs for the dev score; without it a twentieth of the pairs, at most 500, and fewer
    where sources are shared by too many pairs. No held-out source is ever trained on."""
    test_size: int | None = None
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
    min_count: int = 1
    """Words that occur less often in training become <unk>."""
    vocabulary_size: int | None = None
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
    max_length: int = 200
    """Pairs with a longer side (in tokens) are left out of training, and counted."""
    batch_tokens: int | None = 2048
    """The most source and target tokens of a batch, padding included."""
    batch_sentences: int | None = None
    """The most sentences of a batch."""
    one_source_length: bool = False
    """Batches of sources of the very same length, without padding; in small data, smaller ones."""

    def __post_init__(self) -> None:
        _check("data", self, 0, "dev_size", "test_size")
        _check("data", self, 1, "generated_size", "limit", "min_count", "vocabulary_size")
        _check("data", self, 1, "max_length", "batch_tokens", "batch_sentences")
        one = self.shared_vocabulary or self.vocabulary is not None
        if one and self.target_tokenizer not in (None, self.tokenizer):
            raise UserError(
                f"data.target_tokenizer is {self.target_tokenizer}, but a vocabulary that both "
                f"sides share is cut by one tokenizer, {self.tokenizer}: leave it out, or give "
                "each side a vocabulary of its own"
            )


@dataclass(frozen=True)
class AttentionConfig:
    """How a question is scored against keys and how scores become weights."""

    score: ScoreName = "additive"
    """dot, scaled_dot, general (q W k), additive (Bahdanau), concat (Luong), shared_additive
    (one matrix for query plus key), cosine."""
    size: int = 256
    """Units of the additive, concat and shared scores."""
    normaliser: Literal["softmax", "sparsemax", "entmax15"] = "softmax"
    """How scores become weights."""
    temperature: float = 1.0
    """Scores are divided by this before they are normalised."""
    dropout: float = 0.0
    """Share of the weights dropped in training."""

    def __post_init__(self) -> None:
        _check("model.attention", self, 1, "size")
        _check_share("model.attention", self, "dropout")
        _check_positive("model.attention", self, "temperature")


@dataclass(frozen=True)
class RecurrentConfig:
    """A recurrent encoder and a recurrent decoder."""

    family: Literal["recurrent"] = "recurrent"
    """Which models the fields below are of."""
    wiring: Literal["bahdanau", "luong", "plain"] = "luong"
    """Who asks: the previous state (bahdanau), the new state (luong), nobody (plain)."""
    cell: Literal["elman", "gru", "lstm"] = "lstm"
    """The recurrent cell."""
    hidden: int = 256
    """Size of the decoder's states, and of the encoder's in each direction."""
    encoder_hidden: int | None = None
    """Size of the encoder's states in each direction, where it is another."""
    embedding: int = 256
    """Size of the embeddings."""
    layers: int = 1
    """Layers of the encoder and of the decoder."""
    bidirectional: bool = False
    """Read the source in both directions."""
    bridge: Literal["copy", "linear", "zero"] = "linear"
    """From the encoder's last states to the decoder's first: as they are, through a linear layer
    and tanh, or not at all."""
    output: Literal["linear", "tanh", "deep"] = "tanh"
    """Before the logits: nothing, Luong's tanh layer, Bahdanau's maxout layer."""
    feeding: Literal["none", "context", "attentional"] = "none"
    """What of a step enters the next (luong only)."""
    dropout: float = 0.0
    """Dropout of embeddings, between layers and before the logits."""
    tied: Literal["none", "output", "all"] = "none"
    """Share the target embeddings with the output, or source, target and output (which needs a
    shared vocabulary)."""
    vectors: Path | None = None
    """Fixed embeddings: a text file with a token and its numbers on each line."""
    attention: AttentionConfig = field(default_factory=AttentionConfig)

    def __post_init__(self) -> None:
        _check("model", self, 1, "hidden", "encoder_hidden", "embedding", "layers")
        _check_share("model", self, "dropout")

    @property
    def attends(self) -> bool:
        """Whether outputs look at the source."""
        return self.wiring != "plain"

    @property
    def longest_sequence(self) -> int | None:
        """The most tokens of a source or a target, where a model can read but so many."""
        return None


@dataclass(frozen=True)
class TransformerConfig:
    """Encoder and decoder of attention alone (Vaswani et al. 2017)."""

    family: Literal["transformer"] = "transformer"
    """Which models the fields below are of."""
    size: int = 256
    """Numbers in an embedding and in every layer's states."""
    layers: int = 3
    """Layers of the encoder, and of the decoder too unless `decoder_layers` says otherwise."""
    decoder_layers: int | None = None
    """The decoder's layers, where they are not as many: fewer of them write faster."""
    heads: int = 4
    """Attentions beside each other, each on its share of the size."""
    feed_forward: int = 1024
    """Units of the network after attention."""
    activation: Literal["relu", "gelu"] = "relu"
    """Of these units."""
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    """Waves (the paper's) or learned vectors, added to embeddings, or queries and keys turned."""
    longest: int = 512
    """The longest sequence, in tokens, where positions are learned."""
    norm: Literal["pre", "post"] = "pre"
    """Layer norm before each sublayer, which is easier to train, or after its sum (the paper's)."""
    dropout: float = 0.1
    """Dropout of the embedded input and of every sublayer's output."""
    activation_dropout: float = 0.0
    """Dropout of the units of the feed-forward network."""
    tied: Literal["none", "output", "all"] = "none"
    """Share the target embeddings with the output, or source, target and output (which needs a
    shared vocabulary)."""
    vectors: Path | None = None
    """Fixed embeddings: a text file with a token and its numbers on each line."""
    attention: AttentionConfig = field(
        default_factory=lambda: AttentionConfig(score="scaled_dot", size=64)
    )

    def __post_init__(self) -> None:
        _check("model", self, 1, "size", "layers", "decoder_layers", "heads", "feed_forward")
        _check("model", self, 1, "longest")
        _check_share("model", self, "dropout", "activation_dropout")
        if self.size % self.heads:
            raise UserError(
                f"model.heads is {self.heads}: expected a number that divides model.size, which is "
                f"{self.size}"
            )
        if self.positions == "rotary" and self.size // self.heads % 2:
            raise UserError(
                f"model.positions rotary turns pairs of numbers, but each of the {self.heads} "
                f"heads has {self.size // self.heads}: change model.heads or model.size"
            )

    @property
    def attends(self) -> bool:
        """Whether outputs look at the source."""
        return True

    @property
    def longest_sequence(self) -> int | None:
        """The most tokens of a source or a target, where a model can read but so many."""
        return self.longest if self.positions == "learned" else None


ModelConfig = RecurrentConfig | TransformerConfig
FAMILIES: dict[str, type[ModelConfig]] = {each.family: each for each in get_args(ModelConfig)}
"""The model section that each family has; its defaults are where a recipe says nothing."""


@dataclass(frozen=True)
class TrainingConfig:
    """How the weights are learned."""

    initial_run: Annotated[Path | None, tyro.conf.arg(aliases=["--init-from"])] = None
    """Begin with the weights of this run: what has the same name and shape, and of embeddings and
    logits the words that both know."""
    freeze: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--freeze"])] = ()
    """Parts of the model, such as encoder, whose weights stay as they are."""
    epochs: int = 10
    """Times through the data."""
    updates: int | None = None
    """Train for so many updates instead, however many epochs they take."""
    accumulate: int = 1
    """Batches that make one update together."""
    learning_rate: float = 1e-3
    """Adam's peak learning rate."""
    schedule: Literal["constant", "cosine", "linear", "inverse_square_root", "plateau"] = "constant"
    """How the learning rate falls."""
    warmup: int = 0
    """Updates over which the learning rate rises from zero."""
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """How much of its moving means of the gradient and of its square Adam keeps in an update."""
    adam_epsilon: float = 1e-8
    """What Adam adds to the root of the latter."""
    weight_decay: float = 0.0
    """Weight decay, apart from the gradient (AdamW)."""
    clip: float | None = 1.0
    """The largest norm of a gradient."""
    label_smoothing: float = 0.0
    """Probability spread evenly over the vocabulary."""
    loss: Literal["word", "sentence"] = "word"
    """Mean over words, or sum over each sentence's words (mean over sentences)."""
    teacher_forcing: float = 1.0
    """Share of inputs that are the true token at the start of training."""
    teacher_forcing_end: float | None = None
    """The same at the end; linear between them. Without it the share stays."""
    forced_by: Literal["sentence", "token"] = "sentence"
    """Whether a whole sentence or each token is forced or not."""
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    """`auto` takes bfloat16 where the machine has fast instructions for it."""
    patience: int | None = None
    """Stop after so many validations without a better dev score."""
    validate_every: int | None = None
    """Updates between dev scores; without it once an epoch."""
    average: int | None = None
    """At the end also try the mean of the weights of the so many best validations; it becomes the
    model if its dev score is better than the best of them alone."""
    log_every: int = 50
    """Updates (or, with log_by epoch, epochs) between lines of the log."""
    log_by: Literal["update", "epoch"] = "update"
    """What log_every counts."""
    metric: Literal["bleu", "chrf", "exact_match"] = "chrf"
    """The dev score, always by decoding freely; of equal ones the lower dev loss is better. BLEU
    is 0 where targets have fewer than four words."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` takes a GPU where there is one."""
    seed: int = 1
    """Of everything random."""

    def __post_init__(self) -> None:
        _check("training", self, 0, "warmup", "weight_decay", "seed")
        _check("training", self, 1, "epochs", "updates", "accumulate", "patience")
        _check("training", self, 1, "validate_every", "log_every")
        _check_positive("training", self, "learning_rate", "clip", "adam_epsilon")
        for beta in self.adam_betas:
            if not 0 <= beta < 1:
                raise UserError(
                    f"training.adam_betas is {self.adam_betas}: expected two numbers from 0 to "
                    "below 1"
                )
        _check("training", self, 2, "average")
        _check_share("training", self, "label_smoothing", "teacher_forcing", "teacher_forcing_end")


@dataclass(frozen=True)
class SearchConfig:
    """How text is decoded."""

    beam: int = 1
    """Hypotheses alive together; 1 is greedy."""
    length_penalty: float | Literal["average"] = "average"
    """Scores are divided by the length (average) or by Wu et al.'s ((5 + length) / 6) ** alpha."""
    coverage_penalty: float = 0.0
    """Weight of Wu et al.'s coverage penalty."""
    min_length: int = 0
    """Tokens before an end is allowed."""
    max_length: int | None = None
    """The most tokens; without it the source's times max_ratio, and ten more."""
    max_ratio: float | None = None
    """The most tokens for each of the source's; without it training sets it to twice what nearly
    all of its pairs need."""
    early_stopping: bool = True
    """End a beam once as many texts as it is wide are complete and no other is ahead of them;
    without it, once nothing can change any more."""
    unknown_replacement: bool = False
    """Put in the place of an <unk> what it looked at most in the source."""
    lexicon: Path | None = None
    """What to put there instead of the source's own word: pairs of words with a tab between."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of what the model computes while it searches; bfloat16 is faster where the CPU or GPU has
    instructions for it. Probabilities are float32 in both."""

    def __post_init__(self) -> None:
        _check("search", self, 0, "coverage_penalty", "min_length")
        _check("search", self, 1, "beam", "max_length")
        _check_positive("search", self, "max_ratio")
        if self.length_penalty != "average":
            _check("search", self, 0, "length_penalty")
        if self.max_length is not None and self.min_length > self.max_length:
            raise UserError(
                f"search.min_length is {self.min_length}: expected no more than search.max_length, "
                f"which is {self.max_length}"
            )


@dataclass(frozen=True)
class Experiment:
    """A recipe: data, model, training, search."""

    name: str = "experiment"
    """The run folder is runs/NAME."""
    about: str = ""
    """What it is, after which paper, with published figures and ours."""
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=RecurrentConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    search: SearchConfig = field(default_factory=SearchConfig)

    def __post_init__(self) -> None:
        if self.name in ("", ".", "..") or any(sign in self.name for sign in "/\\\0"):
            raise UserError(
                f"name is {self.name!r}: expected the name of one folder, as it becomes runs/NAME"
            )
        shared = self.data.shared_vocabulary or self.data.vocabulary is not None
        if self.model.tied == "all" and not shared:
            raise UserError(
                "model.tied all shares the embeddings of both sides, so it needs one vocabulary "
                "for both: set data.shared_vocabulary"
            )
        longest = self.model.longest_sequence
        if longest is not None and self.data.max_length > longest:
            raise UserError(
                f"data.max_length is {self.data.max_length}, but model.longest is {longest}: "
                "expected no longer sequences than there are learned positions"
            )


def _check(section: str, record: object, least: int, *names: str) -> None:
    """UserError unless each of these fields is unset or a number from the least one up."""
    for name in names:
        value = getattr(record, name)
        if value is not None and not least <= value < math.inf:
            raise UserError(f"{section}.{name} is {value}: expected {least} or more")


def _check_positive(section: str, record: object, *names: str) -> None:
    for name in names:
        value = getattr(record, name)
        if value is not None and not 0 < value < math.inf:
            raise UserError(f"{section}.{name} is {value}: expected more than 0")


def _check_share(section: str, record: object, *names: str) -> None:
    for name in names:
        value = getattr(record, name)
        if value is not None and not 0 <= value <= 1:
            raise UserError(f"{section}.{name} is {value}: expected 0 to 1")
