"""Regard. Training is `regard train` with a stopwatch in its loop. Decoding is `regard.load` with
initial weights."""

import shutil
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from peers import contestant, our_recipes
from peers.contestant import Counts, Stopwatch, Task


class Counted:
    """Batches that record the counts of each batch that training reads."""

    def __init__(self, batches: Any) -> None:
        self._batches = batches
        self.taken: deque[Counts] = deque()

    def num_batches(self, number: int) -> int:
        return self._batches.num_batches(number)

    def fingerprint(self) -> str:
        return self._batches.fingerprint()

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:
        for batch in self._batches.epoch(number, start):
            sentences = batch.mask.size(0)
            self.taken.append(
                Counts(
                    sentences=sentences,
                    source=int(batch.source.mask.sum()) - sentences,  # without the end
                    target=int(batch.mask.sum()),
                    source_positions=batch.source.mask.numel(),
                    target_positions=batch.mask.numel(),
                )
            )
            yield batch


class Timed:
    """Recorder that calls the stopwatch after every update."""

    def __init__(self, batches: Counted, stopwatch: Stopwatch) -> None:
        self._batches = batches
        self._stopwatch = stopwatch

    def on_update(self, progress: Any) -> None:
        del progress
        self._stopwatch(self._batches.taken.popleft())

    def on_train(self, line: Any, progress: Any) -> None: ...

    def on_validation(self, line: Any, validation: Any) -> None: ...

    def on_end(self, line: Any) -> None: ...


def write_recipe(task: Task) -> Path:
    recipe = our_recipes.recipe(task.model, task.batch_tokens, task.corpus)
    path = task.work / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf8")
    return path


def train(task: Task, benchmark: contestant.Benchmark) -> None:
    import torch

    from regard.cli import main
    from regard.pipeline import train as training

    loop = training.run_loop
    wait = torch.cuda.synchronize if task.device == "cuda" else None

    def timed(model: Any, batches: Any, settings: Any, **rest: Any) -> Any:
        counted = Counted(batches)
        rest["report"] = Timed(counted, Stopwatch(benchmark, wait))
        return loop(model, counted, settings, **rest)

    path, run = write_recipe(task), task.work / "run"
    shutil.rmtree(run, ignore_errors=True)
    flags = ["--training.precision", task.precision, "--training.device", task.device]
    with patch.object(training, "run_loop", timed):
        raise SystemExit(main.run(["train", str(path), "--output", str(run), *flags]))


def make_run(task: Task) -> Path:
    """Create a run folder with initial weights."""
    import torch

    from regard import building, recipes
    from regard.data.text.tokenizer import Tokenizer
    from regard.runs.folder import RunFolder
    from regard.tasks.translation.encoding import Tokenizers
    from regard.training.checkpoint import save_weights

    path, run = write_recipe(task), task.work / "run"
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir()
    folder, experiment = RunFolder(run), recipes.load(path)
    tokenizer = Tokenizer.load(task.corpus / "tokenizer.json")
    Tokenizers(tokenizer, tokenizer).save(folder)
    torch.manual_seed(experiment.training.seed)
    model = building.build_translation(experiment.model, len(tokenizer), len(tokenizer))
    save_weights(model, folder.model)
    folder.write(folder.config, recipes.dump(experiment))
    return run


def decoder(task: Task) -> contestant.Prepare:
    """Decode from text to text, so tokenization is timed too. If attention is requested, the
    weights of every kind, layer and head are read. The allocator has the settings of `regard
    translate`."""
    import regard
    from regard.config import SearchConfig

    regard.keep_freed_memory()
    translator = regard.load(make_run(task))
    texts = (task.corpus / "test.en").read_text(encoding="utf8").splitlines()

    def prepare(request: dict[str, Any]) -> Callable[[], int]:
        search = SearchConfig(
            beam=request["beam"],
            min_length=request["tokens"],
            max_length=request["tokens"],
            precision=task.precision,
        )
        sources, attention = texts[: request["sentences"]], request.get("attention", False)
        parts = [[text] for text in sources] if request["batch"] == 1 else [sources]

        def decode() -> int:
            num_tokens = 0
            for part in parts:
                with counted(translator) as lengths:
                    translations = translator.translate(part, search=search, attention=attention)
                num_tokens += sum(lengths)
                num_maps = sum(len(translation.maps) for translation in translations)
                if bool(num_maps) != attention:
                    raise ValueError(f"attention is {attention}, but {num_maps} maps were returned")
            return num_tokens

        return decode

    return prepare


@contextmanager
def counted(translator: Any) -> Iterator[list[int]]:
    """Count the tokens that the searches in the block decode for each text."""
    lengths: list[int] = []
    search = translator._searcher.search

    def counting(*arguments: Any, **options: Any) -> Any:
        results = search(*arguments, **options)
        lengths.extend(len(result.hypotheses[0].tokens) for result in results)
        return results

    with patch.object(translator._searcher, "search", counting):
        yield lengths


def main() -> None:
    benchmark, task = contestant.Benchmark(), contestant.task()
    if task.task == "train":
        train(task, benchmark)
    else:
        contestant.answer_decoding(benchmark, decoder(task))


if __name__ == "__main__":
    main()
