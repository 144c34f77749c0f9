"""CTranslate2 4.8. Decoding only, with the model converted by `run_opennmt`, in float32 or with
8-bit weights."""

from collections.abc import Callable
from typing import Any

import ctranslate2
from peers import contestant
from peers.contestant import Task


def decoder(task: Task) -> contestant.Prepare:
    translator = ctranslate2.Translator(
        str(task.work / "converted"),
        device=task.device,
        compute_type=task.precision,
        inter_threads=1,
        intra_threads=1,
    )
    every = task.lines("test", "en")

    def prepare(asked: dict[str, Any]) -> Callable[[], int]:
        sources = every[: asked["sentences"]]
        parts = [[each] for each in sources] if asked["batch"] == 1 else [sources]

        def decode() -> int:
            num_tokens = 0
            for part in parts:
                results = translator.translate_batch(
                    part,
                    beam_size=asked["beam"],
                    max_batch_size=asked["batch"],
                    min_decoding_length=asked["tokens"],
                    max_decoding_length=asked["tokens"],
                )
                num_tokens += sum(len(result.hypotheses[0]) for result in results)
            return num_tokens

        return decode

    return prepare


if __name__ == "__main__":
    contestant.answer_decoding(contestant.Benchmark(), decoder(contestant.task()))
