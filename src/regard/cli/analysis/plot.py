"""`regard plot`: draw the attention of an output."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from regard.cli.analysis import show
from regard.cli.output import warn
from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import Device, Runs, parse
from regard.config.checks import Range, is_text
from regard.errors import UserError
from regard.names import AttentionKind, Figure, OverlayScale
from regard.runtime.memory_policy import pause_collection
from regard.viewing.figure import PLAIN, SUFFIXES, Style

if TYPE_CHECKING:
    from regard.tasks.task import OutputToPlot, Task
    from regard.tasks.tracing import LazyTrace
    from regard.trace import Trace
    from regard.viewing.labels import LabelledMap


Inches = Annotated[float, Range(1, 100)]
Dots = Annotated[int, Range(10, 2400)]


HELP_EXAMPLES = (
    ("regard plot runs/letters 'sixty-one'", "a heatmap in the terminal"),
    ("regard plot runs/letters 'sixty-one' -o map.png", "a heatmap as a figure"),
    ("regard plot runs/captions photo.jpg -o map.png", "attention of each word on the image"),
    ("regard plot runs/letters 'sixty-one' -o map.json", "all numbers"),
    ("regard plot runs/letters 'sixty-one' --feature-maps -o maps.png", "layers of the encoder"),
    ("regard plot runs/experts source.txt --experts -o experts.png", "words of each expert"),
)


@dataclass(frozen=True)
class Options:
    """Translate, classify or caption one source and draw the attention: of a translation as a
    heatmap, of a prediction as coloured words, of a caption on the image, once for each word."""

    run: Positional[Path]
    """Run folder."""
    text: Positional[str]
    """Source: a text, or the image file if the run captions; with --experts a file of texts."""
    output: Path | None = None
    """File to write: a figure (.png, .svg, .pdf) or all numbers (.json, .npz) (default: draw in the
    terminal)."""
    ensemble: Runs = ()
    """Further runs of an ensemble; a figure has the attention of the first run."""
    target: str | None = None
    """Target to draw the attention of, instead of the model's translation."""
    kind: AttentionKind | None = None
    """Attention to draw: of the target on the source (cross) or on an image (image), of the source
    or the target on itself (encoder, decoder), of the target on extra vectors (memory); the gate
    values of the experts of each source or target position (encoder_experts, decoder_experts); or
    the gradient of the target with respect to the source (gradient), which every model of texts or
    numbers has (default: cross or image, or the first kind that the run has; gradient without
    attention)."""
    layer: int | None = None
    """Layer to draw, from 1 (default: all)."""
    head: int | None = None
    """Head to draw, from 1 (default: all)."""
    mean: bool = False
    """Draw the mean over layers and heads."""
    feature_maps: bool = False
    """Draw the outputs of the encoder's layers instead of attention, and the filters of the first
    convolution of images. --layer chooses one layer (default: all)."""
    experts: bool = False
    """Draw the load of each expert of a model with experts, and the pieces that each computes, over
    all lines of a file of sources. TEXT is the file; --kind is encoder_experts (default) or
    decoder_experts. Gates have no noise here, so the load is less even than that of the log, which
    has the noise of training."""
    cells: bool = False
    """Draw the grid cells of an image instead of smooth weights."""
    scale: OverlayScale = "image"
    """Scale of colours on an image: one for all words (image), or one for each word (word)."""
    title: str | None = None
    """Title of the figure (default: the caption of an image, otherwise none)."""
    source_name: str | None = None
    """Name of the columns of a heatmap, or of the image."""
    target_name: str | None = None
    """Name of the rows of a heatmap."""
    width: Inches | None = None
    """Width of the figure in inches (default: as the map needs)."""
    dots: Dots | None = None
    """Dots per inch of a PNG (default: 160)."""
    device: Device = "auto"

    @property
    def style(self) -> Style:
        """Title, names and size of the figure."""
        return Style(self.title, self.source_name, self.target_name, self.width, self.dots)

    @property
    def saves_numbers(self) -> bool:
        """Whether the output is the trace, not a figure."""
        return self.output is not None and self.output.suffix in show.NUMBERS


def run(arguments: list[str]) -> None:
    """Draw the attention of one output."""
    options = parse(Options, arguments, "regard plot")
    if options.output is not None:
        show.check_figure(options.output)
    written = (options.target, options.title, options.source_name, options.target_name)
    for text in (options.text, *filter(None, written)):
        if not is_text(text):
            raise UserError(f"{text!a} is not UTF-8: type the text in UTF-8")
    with pause_collection():
        from regard.pipeline.load import load
        from regard.tasks.all_tasks import task_of

    model = load(options.run, *options.ensemble, device=options.device)
    task = task_of(model.data)
    if options.experts:
        _draw_experts(task, model, options)
        return
    _check_options(task, options)
    output = task.output_to_plot(model, options.text, options.target)
    if output.lazy_trace is None:
        raise UserError(f"the text is blank: expected a text to {task.name}")
    drawing = _drawing_of_features if options.feature_maps else partial(_drawing, task)
    draw = drawing(output, output.lazy_trace, options)
    print(output.text)
    draw()
    if options.output is not None:
        print(options.output)


def _draw_experts(task: Task[Any], model: Any, options: Options) -> None:
    """Draw the work of the experts over a file of sources. UserError for options that do not apply,
    and for a model without experts."""
    from regard.inference.lines import LineInput, encoding_of
    from regard.viewing import experts

    kind: AttentionKind = options.kind or "encoder_experts"
    bare = replace(options, target=None, head=None, mean=False, cells=False, scale="image")
    if (
        options != bare
        or options.saves_numbers
        or kind not in ("encoder_experts", "decoder_experts")
    ):
        raise UserError(
            "--experts takes --kind encoder_experts or decoder_experts, --layer, --title, --width, "
            f"--dots and -o with a figure ({', '.join(SUFFIXES)}): leave the other options out"
        )
    if not task.takes_targets:
        raise UserError("--experts is for runs that translate: leave it out, and use --kind")
    with ExitStack() as files:
        encoding = encoding_of(options.text, None, warn).reading
        lines = list(LineInput.open(options.text, files, lambda _: None, encoding).lines)
    results = model.translate(lines)
    num_refused = sum(result.is_refused for result in results)
    if all(result.lazy_trace is None for result in results):
        if num_refused:
            limit = model.source_limit()
            raise UserError(
                f"all texts of {options.text} have more than {limit.tokens} tokens "
                f"({limit.field}): expected shorter ones"
            )
        raise UserError(f"{options.text} has no text: expected a line that is not blank")
    if num_refused:
        warn(f"{num_refused} of {len(results)} texts are left out: they are too long for the model")
    traces = (result.lazy_trace.figure for result in results if result.lazy_trace is not None)
    layers = experts.assignments(traces, kind)
    if options.layer is not None:
        if not 1 <= options.layer <= len(layers):
            raise UserError(f"there is no layer {options.layer}: expected 1 to {len(layers)}")
        layers = (layers[options.layer - 1],)
    if options.output is None:
        show.expert_loads(layers)
        return
    show.save_experts(layers, options.output, options.style)
    print(options.output)


def _drawing_of_features(
    output: OutputToPlot, lazy_trace: LazyTrace, options: Options
) -> Callable[[], None]:
    """Return a function that draws the feature maps of the encoder. UserError if the encoder does
    not have the layer."""
    maps = lazy_trace.feature_maps()
    if options.layer is not None:
        maps = maps.layer(options.layer)
    image = None if output.image is None else output.image()
    style = options.style
    if style.title is None:
        style = replace(style, title=f"encoder of {options.run.name}: outputs of the layers")
    return partial(show.save_feature_maps, maps, image, cast(Path, options.output), style)


def _check_options(task: Task[Any], options: Options) -> None:
    """Raise a UserError for an option that does not apply to the run's task, or to the output."""
    if options.feature_maps:
        _check_feature_options(options)
        return
    bare = replace(options, layer=None, head=None, mean=False, cells=False)
    if options.saves_numbers and (options != bare or options.kind not in (None, "gradient")):
        raise UserError(
            f"{options.output} has the attention of every kind, layer and head: leave out --kind, "
            "--layer, --head, --mean and --cells, or name a figure"
        )
    if options.style != PLAIN and (options.output is None or options.saves_numbers):
        raise UserError(
            "--title, --source-name, --target-name, --width and --dots are for figures: name one "
            f"with -o ({', '.join(SUFFIXES)})"
        )
    if options.target is not None and not task.takes_targets:
        raise UserError("--target is for runs that translate: leave it out")


def _check_figure(figure: Figure, options: Options) -> None:
    """Raise a UserError for an option that does not apply to this form of a figure."""
    if options.scale != "image" and (figure != "overlay" or options.output is None):
        raise UserError("--scale is for captions that are drawn on their image: leave it out")
    if figure != "heatmap" and options.target_name is not None:
        raise UserError("--target-name names the rows of a heatmap: leave it out")
    if figure == "sentence" and options.source_name is not None:
        raise UserError("--source-name names the columns of a heatmap: leave it out")
    if options.cells and (figure != "overlay" or options.output is None):
        raise UserError(
            "--cells is for captions that are drawn on their image: leave it out, or name a file "
            "with -o"
        )
    if options.mean and figure == "overlay":
        raise UserError(
            "--mean is for heatmaps; the attention on an image is a mean already: leave it out"
        )
    if figure == "sentence" and options != replace(options, layer=None, head=None, mean=False):
        raise UserError(
            "--layer, --head and --mean are for heatmaps, and a prediction has one map: leave them "
            "out, or choose another --kind"
        )


def _check_feature_options(options: Options) -> None:
    bare = replace(
        options, kind=None, target=None, head=None, mean=False, cells=False, scale="image",
        target_name=None,
    )  # fmt: skip
    if options != bare:
        raise UserError(
            "--feature-maps takes --layer, --title, --source-name, --width and --dots: leave the "
            "other options out"
        )
    if options.output is None or options.saves_numbers:
        raise UserError(
            f"--feature-maps draws a figure: name a file with -o ({', '.join(SUFFIXES)})"
        )


def _drawing(
    task: Task[Any], output: OutputToPlot, lazy_trace: LazyTrace, options: Options
) -> Callable[[], None]:
    """Return a function that draws the figure or saves the numbers. UserError if the trace has no
    attention of that kind, layer or head. Only saving needs the probabilities of each step."""
    path = options.output
    if path is not None and options.saves_numbers:
        _check_figure(task.figure_of(options.kind or task.default_attention_kind), options)
        full = lazy_trace.full
        if options.kind == "gradient":
            full = replace(full, attention=lazy_trace.gradient().attention)
        return partial(full.save, path)
    trace = lazy_trace.figure
    kind = _kind(task, trace, options)
    _check_figure(task.figure_of(kind), options)
    if kind == "gradient":
        trace = lazy_trace.gradient()
    match task.figure_of(kind):
        case "overlay" if output.image is not None:
            from regard.viewing.labels import LabelledMap
            from regard.viewing.overlay import OverlaySettings

            words = LabelledMap.of_words(trace, kind).part(options.layer, options.head)
            if path is None:
                return partial(show.strongest_cells, words)
            settings = OverlaySettings(smooth=not options.cells, scale=options.scale)
            style = replace(options.style, title=options.title or output.text)
            return partial(show.save_overlay, words, output.image(), path, settings, style)
        case "sentence" if path is not None:
            return partial(show.save_sentence, trace, path, options.style)
        case "sentence":
            return partial(show.tinted, trace)
    heatmap = _map(kind, trace, options)
    return (
        partial(show.attention_map, heatmap)
        if path is None
        else partial(show.save_figure, heatmap, path, options.style)
    )


def _kind(task: Task[Any], trace: Trace, options: Options) -> AttentionKind:
    """Return the kind of attention to draw. UserError if the trace has none of this kind."""
    kinds = list(dict.fromkeys(block.kind for block in trace.attention))
    if options.kind == "gradient":
        return "gradient"
    if not kinds and task.default_attention_kind == "image":
        raise UserError(
            f"{options.run} is a model without attention, and gradients are drawn for texts and "
            "numbers only: choose a run with attention, or draw --feature-maps"
        )
    if not kinds and options.kind is None:
        warn(f"{options.run} is a model without attention: its gradient is drawn")
        return "gradient"
    if not kinds:
        raise UserError(
            f"{options.run} is a model without attention: leave --kind out, or set it to gradient"
        )
    if options.kind is None:
        return task.default_attention_kind if task.default_attention_kind in kinds else kinds[0]
    if options.kind not in kinds:
        raise UserError(
            f"{options.run} has no attention of kind {options.kind}: set --kind to "
            f"{' or '.join(kinds)}"
        )
    return options.kind


def _map(kind: AttentionKind, trace: Trace, options: Options) -> LabelledMap:
    from regard.viewing.labels import TITLES, LabelledMap

    labelled = LabelledMap.of_trace(trace, kind)
    if kind != "cross":
        labelled = replace(labelled, title=TITLES.get(kind, kind))
    part = labelled.part(options.layer, options.head)
    return part.averaged() if options.mean else part
