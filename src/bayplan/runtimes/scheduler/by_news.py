"""Groups waiting pods by the events (*news*) that may help them: few groups, however many pods."""

from collections.abc import Iterator

from bayplan.runtimes.scheduler.waiting import News, Waiting

TIME: News = frozenset({"time"})
"""The event that time has passed: it helps only pods that name it."""


class ByNews:
    """The waiting pods, grouped by their ``helped_by``."""

    def __init__(self) -> None:
        self._groups: dict[News, dict[str, Waiting]] = {}

    def add(self, waiting: Waiting) -> None:
        """Add a waiting pod to its group."""
        self._groups.setdefault(waiting.helped_by, {})[waiting.pod.uid] = waiting

    def remove(self, waiting: Waiting) -> None:
        """Remove the pod, if it is there."""
        alike = self._groups.get(waiting.helped_by, {})
        if alike.pop(waiting.pod.uid, None) is not None and not alike:
            del self._groups[waiting.helped_by]

    def kinds(self, news: News) -> list[News]:
        """The groups that the news may help."""
        return [kind for kind in self._groups if helps(news, kind)]

    def of(self, kind: News) -> Iterator[Waiting]:
        """The pods of one group."""
        return iter(self._groups.get(kind, {}).values())


class Happened:
    """The last event of each topic, for pods that were being judged when it came."""

    def __init__(self) -> None:
        self.count = 0
        """How many events there were."""
        # The number of the last event of each topic; there are few topics.
        self._last: dict[str, int] = {}

    def add(self, news: News) -> None:
        """Count an event."""
        self.count += 1
        self._last.update(dict.fromkeys(news, self.count))

    def since(self, count: int, helped_by: News) -> bool:
        """Whether an event after number ``count`` may help."""
        return any(
            number > count
            and (topic in helped_by or topic == "*" or ("*" in helped_by and topic not in TIME))
            for topic, number in self._last.items()
        )


def helps(news: News, helped_by: News) -> bool:
    """Whether the news may change a refusal with this ``helped_by``."""
    if news == TIME:
        return not news.isdisjoint(helped_by)
    return "*" in helped_by or "*" in news or not news.isdisjoint(helped_by)
