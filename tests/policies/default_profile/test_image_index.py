"""Which nodes have an image, while nodes come, change and go."""

import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bayplan.policies.default_profile.image_index import ImageIndex

IMAGES = ["a", "b", "c", "d"]


def lists(*images: dict[str, int]) -> NDArray[np.object_]:
    made = np.empty(len(images), dtype=np.object_)
    made[:] = images
    return made


def found(index: ImageIndex, image: str, there: NDArray[np.object_]) -> tuple[list[int], int]:
    copies = index.copies(image, there)
    return copies.rows.tolist(), copies.size_bytes


def test_an_image_has_its_rows_and_the_size_of_the_first() -> None:
    there = lists({"a": 7}, {}, {"a": 9, "b": 1})

    assert found(ImageIndex(), "a", there) == ([0, 2], 7)
    assert found(ImageIndex(), "nowhere", there) == ([], 0)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_changes_it_is_as_if_it_were_made_anew(seed: int) -> None:
    dice = random.Random(seed)
    index = ImageIndex()
    there = [dict.fromkeys(dice.sample(IMAGES, dice.randint(0, 4)), dice.randint(1, 9)) for _ in range(5)]
    for _ in range(30):
        step = dice.choice(["change", "same", "come", "go"])
        row = dice.randrange(len(there))
        if step == "change":
            there[row] = {image: dice.randint(1, 9) for image in dice.sample(IMAGES, dice.randint(0, 4))}
        elif step == "same":
            there[row] = dict(there[row])
        elif step == "come":
            there.append({dice.choice(IMAGES): dice.randint(1, 9)})
        elif len(there) > 1:
            # As the cache does it: the last row moves into the gap.
            there[row] = there[-1]
            there.pop()
        now = lists(*there)
        assert [found(index, image, now) for image in IMAGES] == [
            found(ImageIndex(), image, now) for image in IMAGES
        ]


class Interrupting(dict[str, int]):
    """A list that ends the thread of whoever goes through it for the first time."""

    armed = True

    def items(self) -> Any:
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt
        return super().items()


def test_a_deadline_in_the_middle_is_made_good_by_the_next_call() -> None:
    index = ImageIndex()
    found(index, "a", lists({"a": 1}, {"b": 2}, {"c": 3}))
    now = lists({"b": 1}, Interrupting({"a": 2}), {"d": 3}, {"a": 4})

    with pytest.raises(KeyboardInterrupt):
        index.copies("a", now)

    assert [found(index, image, now) for image in IMAGES] == [
        found(ImageIndex(), image, now) for image in IMAGES
    ]
