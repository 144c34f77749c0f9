"""The article model trained as articles train it: one sentence at a time, one step at a time.

This is what `tatoeba-luong` is measured against: the same model (LSTM of 256, one layer, the new
state asks, score v . tanh(W (q + k)), linear output over context and state), the same 10,000 pairs,
Adam at 0.001, teacher forcing for half of the sentences, ten epochs, and a batch of one in plain
PyTorch. It prints each epoch's time and, at the end, how many of the training sources it gives back
exactly (any German side that the file has for the source counts). DATA holds tatoeba/deu.txt.

    OMP_NUM_THREADS=1 python benchmarks/tatoeba_loop_of_one.py DATA/tatoeba/deu.txt
"""

import argparse
import random
import re
import time
from collections import Counter, defaultdict
from pathlib import Path

import torch
from torch import Tensor, nn

START, END, UNKNOWN = 0, 1, 2


def words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


class Vocabulary:
    def __init__(self, sentences: list[list[str]]) -> None:
        counts = Counter(word for sentence in sentences for word in sentence)
        self.words = ["<sos>", "<eos>", "<unk>", *counts]
        self.number = {word: number for number, word in enumerate(self.words)}

    def encode(self, sentence: list[str]) -> list[int]:
        return [self.number.get(word, UNKNOWN) for word in sentence] + [END]


class LoopModel(nn.Module):
    def __init__(
        self, source_vocabulary_size: int, target_vocabulary_size: int, hidden: int
    ) -> None:
        super().__init__()
        self.source_embedding = nn.Embedding(source_vocabulary_size, hidden)
        self.target_embedding = nn.Embedding(target_vocabulary_size, hidden)
        self.encoder = nn.LSTM(hidden, hidden, batch_first=True)
        self.decoder = nn.LSTM(hidden, hidden, batch_first=True)
        self.shared = nn.Linear(hidden, hidden)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.output = nn.Linear(2 * hidden, target_vocabulary_size)

    def encode(self, source: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        return self.encoder(self.source_embedding(source))

    def step(self, token: Tensor, state, keys: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        query, state = self.decoder(self.target_embedding(token), state)
        scores = self.score(torch.tanh(self.shared(query + keys)))
        context = (torch.softmax(scores, dim=1) * keys).sum(dim=1, keepdim=True)
        return self.output(torch.cat([context, query], dim=-1))[:, 0], state


def train_one(model: LoopModel, source: Tensor, target: Tensor, forced: bool) -> Tensor:
    keys, state = model.encode(source)
    token = torch.tensor([[START]])
    loss = torch.zeros(())
    for step in range(target.size(1)):
        logits, state = model.step(token, state, keys)
        loss = loss + nn.functional.cross_entropy(logits, target[:, step])
        token = target[:, step : step + 1] if forced else logits.argmax(dim=-1, keepdim=True)
    return loss


@torch.no_grad()
def translate(model: LoopModel, source: Tensor, max_length: int) -> list[int]:
    keys, state = model.encode(source)
    token, written = torch.tensor([[START]]), []
    for _ in range(max_length):
        logits, state = model.step(token, state, keys)
        token = logits.argmax(dim=-1, keepdim=True)
        if token.item() == END:
            break
        written.append(int(token.item()))
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    choose = random.Random(options.seed)
    lines = options.path.read_text(encoding="utf8").splitlines()[: options.pairs]
    pairs = [tuple(words(side) for side in line.split("\t")[:2]) for line in lines]
    source_words = Vocabulary([source for source, _ in pairs])
    target_words = Vocabulary([target for _, target in pairs])
    numbers = [
        (torch.tensor([source_words.encode(source)]), torch.tensor([target_words.encode(target)]))
        for source, target in pairs
    ]
    model = LoopModel(len(source_words.words), len(target_words.words), options.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

    begun = time.perf_counter()
    for epoch in range(1, options.epochs + 1):
        choose.shuffle(numbers)
        total = 0.0
        for count, (source, target) in enumerate(numbers, 1):
            loss = train_one(model, source, target, forced=choose.random() < 0.5)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() / target.size(1)
            if count % 1000 == 0:
                spent = time.perf_counter() - begun
                done = (epoch - 1) * len(numbers) + count
                print(f"epoch {epoch}, {done / spent:.1f} sentences/s", end="\r", flush=True)
        spent = time.perf_counter() - begun
        print(f"epoch {epoch}: loss {total / len(numbers):.3f} a word, {spent:.0f} s", flush=True)

    wanted = defaultdict(set)
    for source, target in numbers:
        wanted[tuple(source[0].tolist())].add(tuple(target[0, :-1].tolist()))
    right = sum(
        tuple(translate(model, torch.tensor([source]), max_length=50)) in targets
        for source, targets in wanted.items()
    )
    print(f"{right} of {len(wanted)} sources given back exactly ({right / len(wanted):.1%})")


if __name__ == "__main__":
    main()
