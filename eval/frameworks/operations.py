"""PyTorch operations with a known limit, each with changes that reveal it."""

from __future__ import annotations

import torch
from cases import MI, Call, Case, case, indices, into, real
from torch.nn import functional

# Elements of arrays


@case
def copy() -> Case:
    large = real(64 * MI)
    return Case(into(torch.neg, large), removals={"half_bytes": into(torch.neg, large.bfloat16())})


@case
def add_broadcast() -> Case:
    large, row = real(16384, 4096), real(4096)
    return Case(into(torch.add, large, row), removals={"half_bytes": into(torch.add, large.bfloat16(), row.bfloat16())})


@case
def transposed_copy() -> Case:
    matrix = real(8192, 8192)
    out = torch.empty_like(matrix)
    return Case(lambda: out.copy_(matrix.t()), fixes={"unit_stride": lambda: out.copy_(matrix)})


@case
def every_16th() -> Case:
    apart, together = real(32 * MI, 16)[:, 0], real(32 * MI)
    out = torch.empty_like(together)
    return Case(lambda: torch.neg(apart, out=out), fixes={"unit_stride": lambda: torch.neg(together, out=out)})


@case
def log_gamma() -> Case:
    large = real(32 * MI).abs()
    return Case(
        into(torch.lgamma, large),
        removals={"no_operations": into(torch.neg, large), "half_bytes": into(torch.lgamma, large.bfloat16())},
    )


@case
def digamma_double() -> Case:
    large = real(8 * MI, dtype=torch.float64).abs()
    return Case(into(torch.digamma, large), removals={"no_operations": into(torch.neg, large)})


@case
def sine_double() -> Case:
    large = real(16 * MI, dtype=torch.float64) * 1000
    return Case(into(torch.sin, large), removals={"no_operations": into(torch.neg, large)})


@case
def power() -> Case:
    large, powers = real(32 * MI).abs(), real(32 * MI)
    return Case(
        into(torch.pow, large, powers),
        removals={
            "no_operations": into(torch.mul, large, powers),
            "half_bytes": into(torch.pow, large.bfloat16(), powers.bfloat16()),
        },
    )


@case
def random_numbers() -> Case:
    large = real(64 * MI)
    return Case(lambda: large.normal_(), removals={"no_operations": lambda: large.fill_(1.0)})


@case
def tiny_add() -> Case:
    one = real(1024)
    return Case(into(torch.add, one, one))


@case
def gelu() -> Case:
    large = real(64 * MI)
    half = large.bfloat16()
    return Case(
        lambda: functional.gelu(large),
        removals={"half_bytes": lambda: functional.gelu(half), "no_operations": lambda: functional.relu(large)},
    )


@case
def dropout() -> Case:
    large = real(64 * MI)
    half = large.bfloat16()
    return Case(
        lambda: functional.dropout(large, 0.5),
        removals={"no_operations": lambda: large * 2.0, "half_bytes": lambda: functional.dropout(half, 0.5)},
    )


@case
def optimizer_step() -> Case:
    weights = torch.nn.Parameter(real(64 * MI))
    weights.grad = real(64 * MI)
    half = torch.nn.Parameter(real(64 * MI, dtype=torch.bfloat16))
    half.grad = real(64 * MI, dtype=torch.bfloat16)
    steps = [torch.optim.Adam([one], fused=True, capturable=True).step for one in (weights, half)]
    return Case(steps[0], removals={"half_bytes": steps[1]})


@case
def channels_to_the_end() -> Case:
    image = real(64, 64, 128, 128)
    out = torch.empty_like(image, memory_format=torch.channels_last)
    plain = torch.empty_like(image)
    return Case(lambda: out.copy_(image), fixes={"unit_stride": lambda: plain.copy_(image)})


# Indices


@case
def put_words() -> Case:
    values, random = real(16 * MI), torch.randperm(64 * MI, device="cuda")[: 16 * MI]
    out, ordered = torch.zeros(64 * MI, device="cuda"), random.sort().values
    return Case(lambda: out.scatter_(0, random, values), fixes={"in_order": lambda: out.scatter_(0, ordered, values)})


@case
def gather_words() -> Case:
    table, small, random = real(64 * MI), real(1 * MI), indices(16 * MI, 64 * MI)
    ordered, near = random.sort().values, random % MI
    return Case(
        into(torch.take, table, random),
        fixes={"in_order": into(torch.take, table, ordered)},
        removals={"in_l2": into(torch.take, small, near)},
    )


@case
def gather_rows() -> Case:
    table, random = real(256 * 1024, 256), indices(128 * 1024, 256 * 1024)
    half, wide = table.bfloat16(), table.view(64 * 1024, 1024)
    return Case(
        into(torch.index_select, table, 0, random),
        fixes={"larger_groups": into(torch.index_select, wide, 0, random[: 32 * 1024] // 4)},
        removals={"half_bytes": into(torch.index_select, half, 0, random)},
    )


@case
def add_into_few() -> Case:
    values, few, spread = real(8 * MI), indices(8 * MI, 16), indices(8 * MI, MI)
    out = torch.zeros(MI, device="cuda")
    return Case(
        lambda: out.scatter_add_(0, few, values), fixes={"spread_atomics": lambda: out.scatter_add_(0, spread, values)}
    )


@case
def add_into_many() -> Case:
    values, spread = real(8 * MI), indices(8 * MI, 64 * MI)
    out, ordered = torch.zeros(64 * MI, device="cuda"), spread.sort().values
    near = spread % MI
    return Case(
        lambda: out.scatter_add_(0, spread, values),
        fixes={"in_order": lambda: out.scatter_add_(0, ordered, values)},
        removals={"in_l2": lambda: out.scatter_add_(0, near, values)},
    )


@case
def add_rows() -> Case:
    values, few, spread = real(65536, 128), indices(65536, 8), indices(65536, 65536)
    out = torch.zeros(65536, 128, device="cuda")
    return Case(
        lambda: out.index_add_(0, few, values), fixes={"spread_atomics": lambda: out.index_add_(0, spread, values)}
    )


# Rows


@case
def softmax() -> Case:
    rows = real(16384, 4096)
    return Case(
        into(torch.softmax, rows, 1),
        removals={"half_bytes": into(torch.softmax, rows.bfloat16(), 1), "no_operations": into(torch.neg, rows)},
    )


@case
def softmax_of_one_row() -> Case:
    one, many = real(1, 4 * MI), real(4096, 1024)
    return Case(into(torch.softmax, one, 1), fixes={"more_groups": into(torch.softmax, many, 1)})


@case
def layer_norm() -> Case:
    rows = real(16384, 4096)
    half = rows.bfloat16()
    return Case(
        lambda: functional.layer_norm(rows, [4096]),
        removals={"half_bytes": lambda: functional.layer_norm(half, [4096])},
    )


@case
def layer_norm_of_few() -> Case:
    few, many = real(32, 128 * 1024), real(4096, 1024)
    return Case(
        lambda: functional.layer_norm(few, [128 * 1024]),
        fixes={"more_groups": lambda: functional.layer_norm(many, [1024])},
    )


@case
def running_sum_of_few() -> Case:
    few, many = real(16, 256 * 1024), real(4096, 1024)
    return Case(into(torch.cumsum, few, 1), fixes={"more_groups": into(torch.cumsum, many, 1)})


@case
def sum_of_all() -> Case:
    large = real(128 * MI)
    half = large.bfloat16()
    return Case(lambda: large.sum(), removals={"half_bytes": lambda: half.sum()})


@case
def sum_of_columns() -> Case:
    tall = real(1 * MI, 64)
    half, ones = tall.bfloat16(), torch.ones(1, 1 * MI, device="cuda")
    return Case(
        lambda: tall.sum(0),
        fixes={
            "more_groups": lambda: tall.view(1024, 1024, 64).sum(1).sum(0),
            "by_product": into(torch.mm, ones, tall),
        },
        removals={"half_bytes": lambda: half.sum(0)},
    )


@case
def sort_rows() -> Case:
    rows = real(16384, 1024)
    values, order = rows.sort(1)
    return Case(lambda: torch.sort(rows, 1, out=(values, order)))


@case
def sort_all() -> Case:
    large = torch.randint(1 << 30, (16 * MI,), device="cuda", dtype=torch.int32)
    return Case(lambda: torch.sort(large))


@case
def top_of_rows() -> Case:
    rows = real(4096, 32768)
    return Case(lambda: torch.topk(rows, 32, 1))


@case
def cross_entropy() -> Case:
    logits, target = real(8192, 32768), indices(8192, 32768)
    half = logits.bfloat16()
    return Case(
        lambda: functional.cross_entropy(logits, target),
        removals={"half_bytes": lambda: functional.cross_entropy(half, target)},
    )


@case
def batch_norm() -> Case:
    image = real(64, 256, 56, 56)
    half = image.bfloat16()
    mean, variance = torch.zeros(256, device="cuda"), torch.ones(256, device="cuda")
    return Case(
        lambda: functional.batch_norm(image, mean, variance, training=True),
        removals={"half_bytes": lambda: functional.batch_norm(half, mean, variance, training=True)},
    )


@case
def largest_of_rows() -> Case:
    few, many = real(64, 2 * MI), real(16384, 8192)
    half = few.bfloat16()
    return Case(
        lambda: few.max(1),
        fixes={"more_groups": lambda: many.max(1)},
        removals={"half_bytes": lambda: half.max(1)},
    )


# Products


def product(m: int, n: int, k: int, dtype: torch.dtype) -> Call:
    return into(torch.mm, real(m, k, dtype=dtype), real(k, n, dtype=dtype))


@case
def product_bf16() -> Case:
    a, b = (real(8192, 8192).to(torch.float8_e4m3fn) for _ in "ab")
    scale = torch.ones((), device="cuda")
    eight = {"scale_a": scale, "scale_b": scale, "out_dtype": torch.bfloat16}
    return Case(
        product(8192, 8192, 8192, torch.bfloat16),
        removals={"half_precision": lambda: torch._scaled_mm(a, b.t(), **eight)},
    )


@case
def product_fp32() -> Case:
    torch.backends.cuda.matmul.allow_tf32 = False
    return Case(
        product(4096, 4096, 4096, torch.float32), removals={"half_precision": product(4096, 4096, 4096, torch.bfloat16)}
    )


@case
def product_fp64() -> Case:
    return Case(
        product(4096, 4096, 4096, torch.float64), removals={"half_precision": product(4096, 4096, 4096, torch.bfloat16)}
    )


@case
def product_of_few_rows() -> Case:
    return Case(
        product(8, 16384, 16384, torch.bfloat16),
        removals={"more_rows": (product(16, 16384, 16384, torch.bfloat16), 2.0)},
    )


@case
def product_by_vector() -> Case:
    matrix, vector = real(16384, 8192), real(8192)
    return Case(
        into(torch.mv, matrix, vector), removals={"half_bytes": into(torch.mv, matrix.bfloat16(), vector.bfloat16())}
    )


@case
def small_product() -> Case:
    return Case(
        product(256, 256, 512, torch.bfloat16), removals={"batched": (product(4096, 4096, 512, torch.bfloat16), 256.0)}
    )


@case
def many_small_products() -> Case:
    a, b = real(16384, 32, 32), real(16384, 32, 32)
    return Case(into(torch.bmm, a, b), removals={"half_precision": into(torch.bmm, a.bfloat16(), b.bfloat16())})


@case
def deep_product() -> Case:
    a, b = real(128, 262144, dtype=torch.bfloat16), real(262144, 128, dtype=torch.bfloat16)
    parts, of_b = a.view(128, 256, 1024).transpose(0, 1), b.view(256, 1024, 128)
    return Case(lambda: a @ b, fixes={"more_groups": lambda: torch.bmm(parts, of_b).sum(0)})


@case
def product_int8() -> Case:
    a, b = (torch.randint(-8, 8, (8192, 8192), device="cuda", dtype=torch.int8) for _ in "ab")
    return Case(lambda: torch._int_mm(a, b.t()))


@case
def attention() -> Case:
    q, k, v = (real(8, 16, 4096, 64, dtype=torch.bfloat16) for _ in "qkv")
    return Case(lambda: functional.scaled_dot_product_attention(q, k, v))


@case
def attention_of_one_token() -> Case:
    q = real(32, 32, 1, 128, dtype=torch.bfloat16)
    k, v = (real(32, 32, 4096, 128, dtype=torch.bfloat16) for _ in "kv")
    return Case(lambda: functional.scaled_dot_product_attention(q, k, v))


@case
def attention_of_one_user() -> Case:
    q = real(1, 8, 1, 128, dtype=torch.bfloat16)
    k, v = (real(1, 8, 8192, 128, dtype=torch.bfloat16) for _ in "kv")
    return Case(lambda: functional.scaled_dot_product_attention(q, k, v))


@case
def convolution() -> Case:
    image, weights = real(32, 256, 56, 56, dtype=torch.bfloat16), real(256, 256, 3, 3, dtype=torch.bfloat16)
    image, weights = (t.to(memory_format=torch.channels_last) for t in (image, weights))
    return Case(lambda: functional.conv2d(image, weights, padding=1))


@case
def convolution_by_channel() -> Case:
    image, weights = real(64, 256, 56, 56), real(256, 1, 7, 7)
    return Case(lambda: functional.conv2d(image, weights, padding=3, groups=256))


@case
def distances() -> Case:
    points = real(4096, 64)
    return Case(lambda: torch.cdist(points, points, p=1.0))


def sparse(rows: torch.Tensor, columns: int) -> torch.Tensor:
    """Create a CSR matrix with a given number of entries per row, at random columns."""
    starts = torch.cat([rows.new_zeros(1), rows.cumsum(0)])
    count = int(starts[-1])
    return torch.sparse_csr_tensor(starts, indices(count, columns), real(count), (len(rows), columns))


@case
def sparse_product() -> Case:
    even, dense = torch.full((262144,), 32, device="cuda"), real(262144, 32)
    matrix, near = sparse(even, 262144), sparse(even, 4096)
    part = dense[:4096].contiguous()
    return Case(lambda: matrix @ dense, removals={"in_l2": lambda: near @ part})


@case
def sparse_product_of_uneven_rows() -> Case:
    even, dense = torch.full((262144,), 32, device="cuda"), real(262144, 32)
    uneven = torch.full((262144,), 16, device="cuda")
    uneven[:8] += 262144 * 16 // 8
    skewed, level = sparse(uneven, 262144), sparse(even, 262144)
    return Case(lambda: skewed @ dense, fixes={"balanced_groups": lambda: level @ dense})


# Images and signals


@case
def fourier() -> Case:
    return Case(into(torch.fft.fft, real(4096, 4096, dtype=torch.complex64)))


@case
def sampled_image() -> Case:
    image = real(16, 64, 256, 256)
    random = torch.rand(16, 256, 256, 2, device="cuda") * 2 - 1
    line = torch.linspace(-1, 1, 256, device="cuda")
    ordered = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1).expand(16, -1, -1, -1).contiguous()
    sample = functional.grid_sample
    return Case(
        lambda: sample(image, random, align_corners=False),
        fixes={"in_order": lambda: sample(image, ordered, align_corners=False)},
    )


@case
def pooling() -> Case:
    image = real(64, 64, 224, 224)
    return Case(lambda: functional.max_pool2d(image, 3, 2))


@case
def enlarged() -> Case:
    image = real(16, 64, 128, 128)
    return Case(lambda: functional.interpolate(image, scale_factor=2, mode="bilinear"))
