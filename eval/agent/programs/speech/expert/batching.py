"""Which recordings are encoded together."""


class Batches:
    """Lists of numbers of recordings, each with at most a given number of places after padding."""

    orders = ("arrival", "length")

    def __init__(self, places, settings):
        if settings.order not in self.orders:
            raise ValueError(f"no order {settings.order}; there are {', '.join(self.orders)}")
        self.places, self.most = places, settings.places
        self.numbers = list(range(len(places)))
        if settings.order == "length":
            self.numbers.sort(key=lambda number: places[number], reverse=True)

    def __iter__(self):
        batch, longest = [], 0
        for number in self.numbers:
            longest = max(longest, self.places[number])
            if batch and longest * (len(batch) + 1) > self.most:
                yield batch
                batch, longest = [], self.places[number]
            batch.append(number)
        if batch:
            yield batch
