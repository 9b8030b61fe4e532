"""What happens, and who waits for it: pods are grouped by what helps them, few groups however many pods."""

from collections.abc import Iterator

from bayplan.runtimes.scheduler.waiting import News, Waiting

TIME: News = frozenset({"time"})
"""Nothing happened but that time went by: only who asks for it is told."""


class ByNews:
    """The pods of each kind of help."""

    def __init__(self) -> None:
        self._groups: dict[News, dict[str, Waiting]] = {}

    def add(self, waiting: Waiting) -> None:
        """The pod waits for what it is helped by."""
        self._groups.setdefault(waiting.helped_by, {})[waiting.pod.uid] = waiting

    def remove(self, waiting: Waiting) -> None:
        """The pod does not wait any more, if it did."""
        alike = self._groups.get(waiting.helped_by, {})
        if alike.pop(waiting.pod.uid, None) is not None and not alike:
            del self._groups[waiting.helped_by]

    def kinds(self, news: News) -> list[News]:
        """Of all kinds of help that pods wait for, those that the news is."""
        return [kind for kind in self._groups if helps(news, kind)]

    def of(self, kind: News) -> Iterator[Waiting]:
        """The pods that wait for that."""
        return iter(self._groups.get(kind, {}).values())


class Happened:
    """What happened of late: for who was busy meanwhile, and could not be told."""

    def __init__(self) -> None:
        self.count = 0
        """How much has happened."""
        # The number of the last news of each topic: there are few, however much happens.
        self._last: dict[str, int] = {}

    def add(self, news: News) -> None:
        """Something happened."""
        self.count += 1
        self._last.update(dict.fromkeys(news, self.count))

    def since(self, count: int, helped_by: News) -> bool:
        """Whether something happened, after so much else, that is a help."""
        return any(
            number > count
            and (topic in helped_by or topic == "*" or ("*" in helped_by and topic not in TIME))
            for topic, number in self._last.items()
        )


def helps(news: News, helped_by: News) -> bool:
    """Whether the news may change a refusal that is helped by this."""
    if news == TIME:
        return not news.isdisjoint(helped_by)
    return "*" in helped_by or "*" in news or not news.isdisjoint(helped_by)
