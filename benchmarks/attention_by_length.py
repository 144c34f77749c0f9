"""Compare translation quality by sentence length for two or more runs on the pairs of one file.

Train the runs first, for instance `regard train tatoeba-luong --data.path FILE` and the same with
tatoeba-plain. Each run translates the distinct sources of the file; the table gives the chrF and
the number of sources for each range of source lengths in words.

    python benchmarks/attention_by_length.py runs/tatoeba-luong/test.tsv \
        runs/tatoeba-luong runs/tatoeba-plain
"""

import argparse
from collections import defaultdict
from pathlib import Path

from regard.data.text.parallel import read_pairs
from regard.metrics.text import chrf
from regard.pipeline.evaluate import evaluate
from regard.tasks.translation.model import TranslationModel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    options = parser.parse_args()
    pairs = read_pairs(options.data).pairs
    rows = {}
    for run in options.runs:
        translator = TranslationModel.load(run)
        by_length = defaultdict(list)
        for output in evaluate(translator, pairs).outputs:
            by_length[len(output.source.split())].append(output)
        for length, outputs in by_length.items():
            score = chrf([each.text for each in outputs], [each.references for each in outputs])
            rows.setdefault(length, (len(outputs), {}))[1][run.name] = score.value
    names = [run.name for run in options.runs]
    print("words  sources  " + "  ".join(f"{name:>18}" for name in names))
    for length, (count, values) in sorted(rows.items()):
        print(f"{length:5}  {count:7}  " + "  ".join(f"{values[name]:18.1f}" for name in names))


if __name__ == "__main__":
    main()
