"""Images with all their captions."""

import numpy as np
import pytest

from regard.data.images.encoded import EncodedCaptions, ImageSet

IMAGE_SET = ImageSet(
    np.arange(3 * 3 * 2 * 2, dtype=np.uint8).reshape(3, 3, 2, 2),
    {"a.png": 0, "b.png": 1, "c.png": 2},
    "some",
)
SAID = [(2, [5, 2]), (0, [6, 7, 2]), (2, [8, 9, 5, 2])]


def test_a_batch_has_each_image_once_with_all_captions():
    captions = EncodedCaptions.of(IMAGE_SET, SAID)
    assert (len(captions), captions.num_captions) == (2, 3)
    assert captions.target_lengths.tolist() == [4, 3]
    batch = captions.batch(np.array([1, 0]))
    assert np.array_equal(batch.source.values.numpy(), IMAGE_SET.values[[0, 2]])
    assert batch.source.rows.tolist() == [0, 1, 1]
    assert [row[mask].tolist() for row, mask in zip(batch.outputs, batch.mask, strict=True)] == [
        [6, 7, 2],
        [5, 2],
        [8, 9, 5, 2],
    ]


def test_the_digest_depends_on_captions_and_images():
    others = ImageSet(IMAGE_SET.values, IMAGE_SET.places, "others")
    different = [
        EncodedCaptions.of(IMAGE_SET, SAID),
        EncodedCaptions.of(IMAGE_SET, SAID[:2]),
        EncodedCaptions.of(IMAGE_SET, [(1, SAID[0][1]), *SAID[1:]]),
        EncodedCaptions.of(IMAGE_SET, [(2, [5, 3]), *SAID[1:]]),
        EncodedCaptions.of(others, SAID),
    ]
    assert len({each.digest for each in different}) == len(different)
    assert different[0].digest == EncodedCaptions.of(IMAGE_SET, SAID).digest


def test_an_empty_caption_is_refused():
    with pytest.raises(ValueError, match="a caption is empty"):
        EncodedCaptions.of(IMAGE_SET, [(0, [])])
