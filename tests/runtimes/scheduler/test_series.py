"""Repeated events: counted here, and written when it matters."""

from typing import Any

from bayplan.runtimes.scheduler.series import Series, SeriesBook


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def event() -> dict[str, Any]:
    return {"note": "full"}


def said(book: SeriesBook, *, times: int = 1, uid: str = "u") -> Series:
    found = [book.said(uid, "full", event) for _ in range(times)]
    return found[-1]


def test_the_count_is_written_when_the_series_is_over_and_then_forgotten() -> None:
    clock = Clock()
    book = SeriesBook(clock=clock)
    series = said(book, times=5)
    book.wrote(series, 2)
    clock.now += 359
    assert book.due() == []
    clock.now += 1

    assert book.due() == [series]
    assert len(book) == 0


def test_a_series_that_is_over_and_was_written_in_full_is_forgotten_without_a_word() -> None:
    clock = Clock()
    book = SeriesBook(clock=clock)
    book.wrote(said(book, times=2), 2)
    clock.now += 400

    assert book.due() == []
    assert len(book) == 0


def test_a_series_that_goes_on_is_written_every_half_an_hour_before_the_api_server_forgets_it() -> None:
    clock = Clock()
    book = SeriesBook(clock=clock)
    series = said(book, times=2)
    book.wrote(series, 2)
    written = []
    for _ in range(61):
        clock.now += 60
        said(book)
        for due in book.due():
            book.wrote(due, due.count)
            written.append(clock.now)

    assert written == [1800, 3600]


def test_what_is_on_its_way_is_not_sent_again() -> None:
    clock = Clock()
    book = SeriesBook(clock=clock)
    series = said(book, times=3)
    series.on_its_way = True
    clock.now += 400

    assert not series.news
    assert book.due() == []


def test_the_book_has_an_end_and_the_oldest_leaves_it() -> None:
    book = SeriesBook(clock=Clock(), limit=2)
    first = said(book, uid="a")
    said(book, uid="b")
    said(book, uid="c")

    assert len(book) == 2
    assert said(book, uid="a") is not first
