"""Which settings of a grid to run when all are too many: spread evenly over it, other ones in every cell."""

import numpy as np

from mixopt.columns import Array, Columns

# Steps of the sequence that fills a square most evenly (the plastic number's), one for each direction.
_STEPS = 0.7548776662466927, 0.5698402909980532


def staggered(
    columns: Columns, cell: Array, count: int, *, names: tuple[str, str], inner: float = 0.7, first: int = 0
) -> Array:
    """Rows to run: `count` of each cell, spread over two settings, and interleaved between cells.

    A cell is a size and a number of tokens, its rows a grid of learning rates and batch sizes. Only the settings are
    looked at. The points of one low-discrepancy sequence go to one cell after the other, so cells that share a law
    fill each other's gaps; the outermost settings are left out, which the grid has only so as to enclose its optimum.

    Parameters
    ----------
    columns : the settings, positive; they are spread in log
    cell : [n], which cell each row belongs to
    count : rows of each cell, all of them where a cell has fewer
    names : the two columns
    inner : share of each setting's range, in log, that is used
    first : points of the sequence that are passed over; another number is another design

    Returns
    -------
    [k], rows in the order of cells, each cell's in ascending order

    Examples
    --------
    Five of 25 settings, none of the outermost:

    >>> lr, batch = (values.ravel() for values in np.meshgrid(2.0 ** np.arange(5), 2.0 ** np.arange(5)))
    >>> grid = {"peak_lr": lr, "batch_tokens": batch}
    >>> rows = staggered(grid, np.zeros(25), 5, names=("peak_lr", "batch_tokens"))
    >>> [(float(lr[row]), float(batch[row])) for row in rows]
    [(2.0, 2.0), (8.0, 2.0), (2.0, 4.0), (4.0, 4.0), (4.0, 8.0)]
    """
    at = np.log(np.stack([np.asarray(columns[name], float) for name in names], 1))
    chosen: list[int] = []
    for place, one in enumerate(np.unique(cell)):
        rows = np.flatnonzero(cell == one)
        low, high = at[rows].min(0), at[rows].max(0)
        free = np.ones(len(rows), bool)
        for index in range(first + place * count + 1, first + place * count + 1 + min(count, len(rows))):
            unit = (0.5 + index * np.array(_STEPS)) % 1
            point = (low + high) / 2 + inner * (high - low) * (unit - 0.5)
            nearest = int(np.where(free, ((at[rows] - point) ** 2).sum(1), np.inf).argmin())
            free[nearest] = False
        chosen += rows[~free].tolist()
    return np.array(chosen)
