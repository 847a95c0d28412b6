"""How a matrix product is cut into pieces, jobs and strips. Plain arithmetic on sizes.

A piece is what one run of the kernel computes; only large products have several. Its jobs are
shared out among the threads. Cuts along the depth do not depend on the number of threads, so
neither do results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from kbench.engine.core.types import Ints
from kbench.engine.runtime import cpu_caches

FLOATS = ("float32", "float64")
MIN_FLOPS = 1 << 19
"""Operations below which BLAS, called by NumPy, is as fast."""
MIN_STACKED_FLOPS = 1 << 14
"""Operations of one of many products below which BLAS, called for each, is as fast."""


FIRST_CACHE_BYTES = cpu_caches.core_bytes(1)
"""Bytes of this processor's first cache, for data."""
SECOND_CACHE_BYTES = cpu_caches.core_bytes(2)
"""Bytes of this processor's second cache."""
MAX_DEPTH = 1024
"""Depth at most of what is multiplied at a time. The deeper, the less often a result is read back
and added to; but a sum is made in blocks, for its error."""
TILES_PER_STRIP = 4
"""Tiles, one above the other, that share a strip of the right operand where it is far away, and
that are packed together where columns of the left one lie together: they share its cache lines."""
SECOND_CACHE_SHARE_BYTES = SECOND_CACHE_BYTES // 2
"""Bytes of the right operand that stay in the second cache."""
MIN_BLOCK_COLUMNS = 512
"""Columns of the right operand that have to fit there for a product to be made in blocks of so many
columns: the left operand may be packed for each block again, which costs a twentieth then."""
MAX_BLOCK_DEPTH = 512
"""Depth of such a block, where a packed tile of the left operand fits in the first cache."""
MAX_BLOCK_ROWS = 2048
"""Rows at most for which a thread packs such a block for itself."""
MIN_BLOCK_ROWS = 128
"""Rows for which that pays at least."""
PACKED_ROWS = 20
"""Rows whose products take as long as packing the right operand does."""
PACKED_COLUMNS = 25
"""Columns whose products take as long as packing the left operand does."""
MAX_PACKED_AGAIN = 0.1
"""Share of the time of a product that may go into packing, in each job, what others pack too."""
MIN_BLOCK_FLOPS = 1 << 28
"""Operations for which it pays: there are few jobs, and each may pack all of the left operand."""
TILES_PER_JOB = TILES_PER_STRIP
"""Tiles, one above the other, of a job."""
MAX_PIECE_COLUMNS = 1024
"""Columns of a piece: what is packed for it stays in the last cache."""
MIN_NEAR_BYTES = 1 << 21
"""Bytes that come quickly from behind the second cache, however small that is: the left operand is
packed again for every piece of so many."""
MAX_PIECE_DEPTH = 2048
"""Depth of a piece, likewise; half of it in blocks, so that a job takes a hundredth of a second."""
MAX_IN_PLACE_BYTES = 1 << 20
"""Bytes of an operand up to which it is read in place however often: more is read in place only
once, as each of its rows lies on a page of its own."""
MAX_IN_PLACE_PANELS = 4
"""Panels for which a left operand whose columns lie together is read in place."""
CONFLICT_BYTES = 4096
"""Rows that are a multiple of this apart share so few places in the first cache that they are
always packed, unless each is read only once or twice; those of the right operand, which are read
for every tile and asked for long before, at a multiple of a quarter of it."""
MIN_JOB_PANELS = 4
"""Panels of a job of all rows, where that leaves one for each thread: the tiles of the left operand
are read again for each job."""
JOBS_PER_THREAD = 4
"""Jobs for each thread, so that one that is late takes fewer."""
MIN_THREAD_FLOPS = 1_500_000
"""Floating-point operations that are worth another thread."""
MAX_WHOLE_FLOPS = 1 << 26
"""Operations of one product up to which many products are one piece."""


class ProductSizes(Struct, frozen=True):
    """A product of `stacks` pairs of matrices; steps are in bytes."""

    stacks: int
    rows: int
    columns: int
    depth: int
    a_row: int
    a_depth: int
    b_depth: int
    b_column: int
    step_out: int

    @property
    def work(self) -> int:
        """Floating-point operations of one of the stacked products."""
        return 2 * self.rows * self.columns * self.depth


class Tile(Struct, frozen=True):
    """What the compiled tile is like."""

    lanes: int
    most: int
    size: int

    @property
    def tall(self) -> int:
        """Elements of a packed row of the left operand: a whole number of vectors."""
        return padded(self.most, self.lanes)


class Piece(Struct, frozen=True):
    """One run of the kernel: its parameters, where it begins, and the memory it needs."""

    fields: dict[str, int]
    out_at: int
    a_at: int
    b_at: int
    jobs: int
    job_work: int
    workers: int
    packed_bytes: int
    area_bytes: int
    finishes: bool
    """Whether its jobs leave finished rows behind."""


def is_profitable(dtype: str, stacks: int, rows: int, columns: int, depth: int) -> bool:
    """Whether a product is at least as fast here as on BLAS.

    Measured: one row is a matter of reading the right operand, and one to three columns leave most
    of a vector idle.
    """
    each = 2 * rows * columns * depth
    if (
        dtype not in FLOATS
        or each < MIN_STACKED_FLOPS
        or stacks * each < (MIN_FLOPS if stacks == 1 else 2 * MIN_FLOPS)
    ):
        return False
    return rows >= 2 and columns >= 4 and depth >= 2


def padded(count: int, step: int) -> int:
    """`count` rounded up to a multiple of `step`."""
    return -(-count // step) * step


def split(total: int, most: int, step: int) -> Iterator[tuple[int, int]]:
    """Even parts of `total`, none above `most`, cut at multiples of `step`: start and size."""
    each = padded(-(-total // -(-total // most)), step)
    for start in range(0, total, each):
        yield start, min(each, total - start)


def cut(sizes: ProductSizes, tile: Tile, threads: int, whole: bool) -> list[Piece]:
    """The pieces of a product of nonzero sizes, in the order in which they must run.

    `whole` asks for jobs of whole rows, where a row is one piece.
    """
    wide = _widest(tile)
    deep = MAX_PIECE_DEPTH // 2 if _in_blocks(sizes, tile) else MAX_PIECE_DEPTH
    if sizes.work <= MAX_WHOLE_FLOPS or (sizes.columns <= wide and sizes.depth <= deep):
        return [_piece(sizes, tile, threads, whole, (0, sizes.columns), (0, sizes.depth))]
    return [
        _piece(sizes, tile, threads, whole, columns, depth)
        for columns in split(sizes.columns, wide, 2 * tile.lanes)
        for depth in split(sizes.depth, deep, tile.lanes)
    ]


def _block_depth(tile: Tile) -> int:
    """The depth of blocks, of which a packed tile of the left operand takes two thirds of the first
    cache."""
    depth = FIRST_CACHE_BYTES * 2 // 3 // (tile.tall * tile.size)
    return max(tile.lanes, min(MAX_BLOCK_DEPTH, depth // tile.lanes * tile.lanes))


def _in_blocks(sizes: ProductSizes, tile: Tile) -> bool:
    """Whether a product is made in blocks: the part of the right operand that a job packs for
    itself stays in the second cache, and a tile of the left one in the first meanwhile."""
    columns = SECOND_CACHE_SHARE_BYTES // (_block_depth(tile) * tile.size)
    large = sizes.rows >= MIN_BLOCK_ROWS and min(columns, sizes.columns) >= MIN_BLOCK_COLUMNS
    return large and sizes.stacks == 1 and sizes.work >= MIN_BLOCK_FLOPS


def _deepest(tile: Tile) -> int:
    """The depth at which the strips that are read together fill half of the second cache."""
    across = (2 * tile.lanes + TILES_PER_STRIP * tile.tall) * tile.size
    return max(tile.lanes, min(MAX_DEPTH, SECOND_CACHE_BYTES // 2 // across))


def _widest(tile: Tile) -> int:
    """The columns of which that depth is no more than comes quickly from behind that cache."""
    near = max(2 * SECOND_CACHE_BYTES, MIN_NEAR_BYTES)
    columns = min(MAX_PIECE_COLUMNS, near // (_deepest(tile) * tile.size))
    return max(2 * tile.lanes, columns // (2 * tile.lanes) * 2 * tile.lanes)


def _piece(
    sizes: ProductSizes, tile: Tile, threads: int, whole: bool, wide: Ints, along: Ints
) -> Piece:
    column, columns = wide
    start, depth = along
    double = 2 * tile.lanes
    panels = -(-columns // double)
    in_blocks = _in_blocks(sizes, tile)
    deeps = -(-depth // (_block_depth(tile) if in_blocks else _deepest(tile)))
    deep = padded(-(-depth // deeps), tile.lanes)
    work = 2 * sizes.rows * columns * depth
    workers = max(1, min(threads, sizes.stacks * work // MIN_THREAD_FLOPS))
    alone = work <= MAX_WHOLE_FLOPS and (workers == 1 or sizes.stacks >= 2 * workers)
    in_place = columns // double if _b_in_place(sizes, tile) else 0
    jobs = None
    if in_blocks and not whole and not in_place:
        jobs = _block_jobs(sizes, tile, panels, workers, deep)
    shares = 0 if in_place else _shares(sizes, tile, panels, workers, deep)
    own = alone or shares > 0 or jobs is not None
    if jobs is None and own:
        jobs = _tall_jobs(sizes, panels, 1 if alone else shares)
    elif jobs is None:
        jobs = _jobs(sizes, tile, panels, workers, whole)
    near = deep * jobs["group"] * double * tile.size <= SECOND_CACHE_SHARE_BYTES
    upright = sizes.a_row == tile.size
    chunk = min(jobs["block"], tile.most if near and not upright else TILES_PER_STRIP * tile.most)
    bundle = max(1, min(8, (panels - in_place) * deeps // (JOBS_PER_THREAD * workers)))
    bundles = -(-(panels - in_place) // bundle)
    packs = 0 if own else sizes.stacks * deeps * bundles
    line = padded(columns, tile.lanes) - in_place * double
    own_line = min(line, jobs["group"] * double)
    strips = (-(-chunk // tile.most) + 1) * tile.tall * deep * tile.size
    fields = {
        "rows": sizes.rows, "columns": columns, "depth": depth, "deep": deep, "add": start,
        "step_out": sizes.step_out, "a_row": sizes.a_row, "a_depth": sizes.a_depth,
        "b_depth": sizes.b_depth, "b_column": sizes.b_column, "b_direct": in_place,
        "a_direct": int(_a_in_place(sizes, tile)),
        "lanes": tile.lanes, "most": tile.most, "tall": tile.tall, "own": int(own),
        "packs": packs, "bundles": bundles, "bundle": bundle, "deeps": deeps, "chunk": chunk,
        "b_at": padded(strips, 64) + 64, **jobs,
    }  # fmt: skip
    count = sizes.stacks * jobs["blocks"] * jobs["groups"]
    return Piece(
        fields,
        out_at=column * tile.size,
        a_at=start * sizes.a_depth,
        b_at=start * sizes.b_depth + column * sizes.b_column,
        jobs=packs + count,
        job_work=-(-sizes.stacks * work // count),
        workers=workers,
        packed_bytes=0 if own else sizes.stacks * depth * line * tile.size,
        area_bytes=padded(fields["b_at"] + own * deep * own_line * tile.size, 64) + 64,
        finishes=start + depth == sizes.depth and fields["group"] * double >= sizes.columns,
    )


def _a_in_place(sizes: ProductSizes, tile: Tile) -> bool:
    """Whether the left operand is read where it is: its rows, or its columns if they are near and
    read for few panels."""
    row, depth = abs(sizes.a_row), abs(sizes.a_depth)
    if sizes.a_depth == tile.size:
        return row % CONFLICT_BYTES != 0
    near = depth % CONFLICT_BYTES != 0 and sizes.depth * depth <= MAX_IN_PLACE_BYTES
    return row == tile.size and near and sizes.columns <= MAX_IN_PLACE_PANELS * 2 * tile.lanes


def _b_in_place(sizes: ProductSizes, tile: Tile) -> bool:
    """Whether whole panels of the right operand are read where they are."""
    if sizes.b_column != tile.size:
        return False
    step = abs(sizes.b_depth)
    if sizes.rows <= tile.most or sizes.depth * step > MAX_IN_PLACE_BYTES:
        return sizes.rows <= tile.most
    return sizes.rows <= 2 * tile.most or step % (CONFLICT_BYTES // 4) != 0


def _shares(sizes: ProductSizes, tile: Tile, panels: int, workers: int, deep: int) -> int:
    """The jobs that have all rows and some columns each, whose part of the right operand they pack;
    0 where that is not the better way.

    Then no thread reads what another has just written, which takes longer than to read it from
    behind the caches; but each reads all of the left operand, which must stay in its second cache.
    Each packs it, too, where its rows are apart by what makes them conflict.
    """
    if sizes.stacks > 1 or panels < 2 * workers:
        return 0
    if sizes.rows * deep * tile.size > SECOND_CACHE_SHARE_BYTES:
        return 0
    shares = max(workers, min(2 * workers, panels // MIN_JOB_PANELS))
    if _a_in_place(sizes, tile):
        return shares
    if sizes.a_depth != tile.size:
        return 0
    shares = min(shares, 1 + int(MAX_PACKED_AGAIN * sizes.columns / PACKED_COLUMNS))
    return shares if shares >= workers else 0


def _tall_jobs(sizes: ProductSizes, panels: int, wanted: int) -> dict[str, int]:
    """The jobs of one product that is cut into groups of panels alone, about as many as wanted."""
    group = -(-panels // min(panels, wanted))
    return {"blocks": 1, "block": sizes.rows, "groups": -(-panels // group), "group": group}


def _block_jobs(
    sizes: ProductSizes, tile: Tile, panels: int, workers: int, deep: int
) -> dict[str, int] | None:
    """The jobs of a product in blocks, as many for each thread; None where they would be small."""
    double = 2 * tile.lanes
    blocks = -(-sizes.rows // MAX_BLOCK_ROWS)
    groups = -(-panels // (SECOND_CACHE_SHARE_BYTES // (deep * double * tile.size)))
    cuts = [
        (blocks, padded(groups, workers // math.gcd(workers, blocks))),
        (padded(blocks, workers // math.gcd(workers, groups)), groups),
    ]
    a_columns = 0 if _a_in_place(sizes, tile) else PACKED_COLUMNS

    def packed_again(cut: Ints) -> float:
        return (cut[0] - 1) * PACKED_ROWS / sizes.rows + (cut[1] - 1) * a_columns / sizes.columns

    blocks, groups = min(cuts, key=packed_again)
    if packed_again((blocks, groups)) > MAX_PACKED_AGAIN:
        return None
    group = -(-panels // min(panels, groups))
    block = padded(-(-sizes.rows // blocks), tile.most)
    return {
        "blocks": -(-sizes.rows // block), "block": block,
        "groups": -(-panels // group), "group": group,
    }  # fmt: skip


def _jobs(
    sizes: ProductSizes, tile: Tile, panels: int, workers: int, whole: bool
) -> dict[str, int]:
    """The jobs of one product: blocks of rows, groups of panels."""
    wanted = max(1, JOBS_PER_THREAD * workers // sizes.stacks)
    tiles = -(-sizes.rows // tile.most)
    blocks = -(-tiles // max(1, min(TILES_PER_JOB, tiles // wanted)))
    if blocks > workers and sizes.stacks % workers:
        blocks = padded(blocks, workers)  # or one thread has one more than the others
    block = -(-sizes.rows // blocks)  # of nearly whole tiles
    blocks = -(-sizes.rows // block)
    group = panels if whole else -(-panels // min(panels, -(-wanted // blocks)))
    groups = -(-panels // group)
    return {"blocks": blocks, "block": block, "groups": groups, "group": group}
