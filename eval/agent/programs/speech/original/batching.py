"""Which recordings are encoded together."""


class Batches:
    """Lists of numbers of recordings, each of at most a given size."""

    orders = ("arrival", "length")

    def __init__(self, archive, settings):
        if settings.order not in self.orders:
            raise ValueError(f"no order {settings.order}; there are {', '.join(self.orders)}")
        self.size = settings.clips
        self.numbers = list(range(len(archive)))
        if settings.order == "length":
            self.numbers.sort(key=lambda number: len(archive[number].samples))

    def __len__(self):
        return -(-len(self.numbers) // self.size)

    def __iter__(self):
        for begin in range(0, len(self.numbers), self.size):
            yield self.numbers[begin : begin + self.size]
