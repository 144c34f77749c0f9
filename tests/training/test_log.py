"""Lines that are whole, once each, also after a crash."""

import json

from regard.training.log import DevLine, EndLine, Log, TrainLine


def train_line(update: int) -> TrainLine:
    return TrainLine(
        update=update, epoch=1, loss=0.5, learning_rate=0.1, tokens_per_second=7.0, seconds=1.0
    )


def test_each_line_names_its_kind(tmp_path):
    log = Log(tmp_path)
    log.write(train_line(5))
    log.write(
        DevLine(update=5, epoch=1, score=3.5, metric="BLÄU", loss=None, best=True, seconds=2.0)
    )
    log.write(EndLine(update=5, epoch=1, reason="finished", score=3.5, seconds=2.5))
    train, dev, end = map(json.loads, (tmp_path / "log.jsonl").read_text("utf-8").splitlines())
    assert train == {
        "kind": "train",
        "update": 5,
        "epoch": 1,
        "loss": 0.5,
        "penalties": {},
        "measures": {},
        "learning_rate": 0.1,
        "tokens_per_second": 7.0,
        "seconds": 1.0,
    }
    assert (dev["kind"], dev["score"], dev["metric"], dev["loss"]) == ("dev", 3.5, "BLÄU", None)
    assert (end["kind"], end["reason"]) == ("end", "finished")


def test_resuming_drops_lines_that_will_be_written_again(tmp_path):
    log = Log(tmp_path)
    for update in (5, 10, 15):
        log.write(train_line(update))
    log.write(EndLine(update=10, epoch=1, reason="interrupted", score=None, seconds=2.5))
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('5\n{}\n{"kind": "tra')
    log.begin(10)
    log.write(train_line(15))
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [(line["kind"], line["update"]) for line in lines] == [
        ("train", 5),
        ("train", 10),
        ("train", 15),
    ]


def test_without_a_folder_there_is_no_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Log(None).begin(0)
    Log(None).write(train_line(5))
    assert list(tmp_path.iterdir()) == []
