"""A list in pieces is a list, and so is each of its copies, whatever happens to the others."""

import random

import pytest

from bayplan.snapshot.pieces import Pieces, in_pieces


@pytest.mark.parametrize("seed", range(30))
def test_it_and_its_copies_are_what_plain_lists_would_be(seed: int) -> None:
    dice = random.Random(seed)
    start = list(range(dice.randrange(300)))
    pairs = [(Pieces(start), start.copy())]

    for step in range(400):
        pieces, plain = dice.choice(pairs)
        happening = dice.randrange(4)
        if happening == 0 and plain:
            where = dice.randrange(-len(plain), len(plain))
            pieces[where] = plain[where] = -step
        elif happening == 1:
            pieces.append(step)
            plain.append(step)
        elif happening == 2 and plain:
            assert pieces.pop() == plain.pop()
        elif len(pairs) < 12:
            pairs.append((pieces.copy(), plain.copy()))

    for pieces, plain in pairs:
        assert (len(pieces), list(pieces)) == (len(plain), plain)
        assert [pieces[where] for where in range(-len(plain), len(plain))] == plain + plain


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 128])
def test_what_is_beyond_its_ends_is_not_there(size: int) -> None:
    pieces = Pieces(range(size))

    for where in (size, -size - 1):
        with pytest.raises(IndexError):
            _ = pieces[where]
        with pytest.raises(IndexError):
            pieces[where] = 0
    assert list(pieces) == list(range(size))


def test_nothing_is_popped_from_an_empty_one() -> None:
    with pytest.raises(IndexError):
        Pieces[int]().pop()


def test_a_slice_is_a_list() -> None:
    assert Pieces(range(200))[62:67] == [62, 63, 64, 65, 66]


def test_it_equals_what_has_the_same_in_it() -> None:
    assert Pieces([1, 2]) == [1, 2] == Pieces([1, 2])
    assert Pieces([1, 2]) != [2, 1]
    assert Pieces([1, 2]) != (1, 2)


def test_a_list_is_taken_over_and_left_alone() -> None:
    plain = [1, 2, 3]

    changed = in_pieces(plain)
    again = in_pieces(changed)
    changed[0] = again[2] = 0

    assert (plain, list(changed), list(again)) == ([1, 2, 3], [0, 2, 3], [1, 2, 0])
