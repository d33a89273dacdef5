"""The estimated time of a GPU's step is the sum of its kernels' rooflines, plus what exchanges are waited for."""

import pytest

from txjax.chips import CHIPS
from txjax.plan.collectives import Collective
from txjax.plan.hlo import Program
from txjax.plan.kernels import AttentionWork, custom_kernels
from txjax.plan.rooflines import LATENCY, LAUNCH, LINKS, MEMORY, PRODUCTS, Estimate, attention_share, estimate
from txjax.plan.traffic import memory_traffic

H100 = CHIPS["H100"]
M, K, N = 4096, 2048, 8192
BETWEEN = 2 * 8 * M * 7 // 8  # an all-gather of bf16[8 M] over eight: bytes that one device sends

PRODUCT = f"""\
HloModule step, is_scheduled=true

%fused (a: bf16[{M},{K}], b: bf16[{K},{N}]) -> bf16[{M},{N}] {{
  %a = bf16[{M},{K}]{{1,0}} parameter(0)
  %b = bf16[{K},{N}]{{1,0}} parameter(1)
  ROOT %dot = bf16[{M},{N}]{{1,0}} dot(%a, %b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""
FUSION = f"bf16[{M},{N}]{{1,0}} fusion(%x, %w), kind=kCustom, calls=%fused"
INPUTS = f"""\
  %x = bf16[{M},{K}]{{1,0}} parameter(0)
  %w = bf16[{K},{N}]{{1,0}} parameter(1)
  %p = bf16[{M}]{{0}} parameter(2)"""
START = (
    f"%start = (bf16[{M}]{{0}}, bf16[{8 * M}]{{0}}) all-gather-start(%p), channel_id=1, replica_groups=[1,8]<=[8], "
    'dimensions={0}, backend_config={"collective_backend_config":{"is_sync":SYNC}}'
)
DONE = f"%done = bf16[{8 * M}]{{0}} all-gather-done(%start)"


def program(*lines: str) -> Program:
    body = "\n".join(f"  {line}" for line in lines)
    return Program(f"{PRODUCT}\nENTRY %main (x: bf16[], w: bf16[], p: bf16[]) -> bf16[] {{\n{INPUTS}\n{body}\n}}\n")


def estimated(*lines: str, bandwidth: float = 450e9) -> Estimate:
    def rate(collective: Collective) -> float:
        assert collective.groups == (tuple(range(8)),) and collective.sent == BETWEEN
        return bandwidth

    return estimate(program(*lines), H100, rate)


PRODUCT_SECONDS = 2 * M * K * N / H100.peak_flops / PRODUCTS


def test_a_product_takes_its_flops() -> None:
    assert estimated(f"ROOT %y = {FUSION}").parts == {
        "products": pytest.approx(PRODUCT_SECONDS),
        "attention": 0,
        "other kernels": 0,
        "launches": LAUNCH,
        "waiting for exchanges": 0,
    }
    assert memory_traffic(program(f"ROOT %y = {FUSION}")) == 2 * (M * K + K * N + M * N)


def test_other_kernels_take_their_bytes() -> None:
    found = estimated(f"ROOT %y = bf16[{M},{K}]{{1,0}} negate(%x)")
    assert found.parts["other kernels"] == pytest.approx(2 * 2 * M * K / H100.memory_bandwidth / MEMORY)


def test_a_loop_counts_each_round() -> None:
    loop = f"""
%body (t: (bf16[])) -> (bf16[]) {{
{INPUTS}
  ROOT %y = {FUSION}
}}

%condition (t: (bf16[])) -> pred[] {{
  %t = (bf16[]) parameter(0)
  ROOT %more = pred[] constant(true)
}}
"""
    trips = 'backend_config={"known_trip_count":{"n":"12"}}'
    line = f"  ROOT %l = (bf16[]) while(%x), condition=%condition, body=%body, {trips}"
    whole = f"{PRODUCT}{loop}\nENTRY %main (x: bf16[], w: bf16[], p: bf16[]) -> bf16[] {{\n{INPUTS}\n{line}\n}}\n"
    found = estimate(Program(whole), H100, lambda _: 450e9)
    assert found.parts["products"] == pytest.approx(12 * PRODUCT_SECONDS)


def test_an_exchange_beside_a_longer_product_takes_no_time() -> None:
    seconds = BETWEEN / 450e9 / LINKS + LATENCY
    assert seconds < PRODUCT_SECONDS
    hidden = estimated(START.replace("SYNC", "false"), f"%y = {FUSION}", f"ROOT {DONE}")
    assert hidden.parts["waiting for exchanges"] == 0
    assert hidden.exchanges == pytest.approx(seconds)
    late = estimated(f"%y = {FUSION}", START.replace("SYNC", "false"), f"ROOT {DONE}")
    assert late.parts["waiting for exchanges"] == pytest.approx(seconds)
    blocking = estimated(START.replace("SYNC", "true"), f"%y = {FUSION}", f"ROOT {DONE}")
    assert blocking.parts["waiting for exchanges"] == pytest.approx(seconds)


def test_an_exchange_that_takes_longer_is_waited_for() -> None:
    slow = estimated(START.replace("SYNC", "false"), f"%y = {FUSION}", f"ROOT {DONE}", bandwidth=1e8)
    seconds = BETWEEN / 1e8 / LINKS + LATENCY
    assert slow.parts["waiting for exchanges"] == pytest.approx(seconds - PRODUCT_SECONDS - LAUNCH)


def test_the_traffic_of_an_exchange_counts_once() -> None:
    lines = program(START.replace("SYNC", "false"), f"ROOT {DONE}")
    assert memory_traffic(lines) == 2 * (M + M + 8 * M)  # the start reads its operand and has both as outputs


# cuDNN's speed, TFLOP/s, in figures 5 and 6 of Shah et al. 2024 (FlashAttention-3).
PUBLISHED = {
    AttentionWork(backward=False, causal=False, length=1024, head=64): 373,
    AttentionWork(backward=False, causal=False, length=16384, head=64): 413,
    AttentionWork(backward=False, causal=True, length=1024, head=64): 288,
    AttentionWork(backward=False, causal=True, length=2048, head=64): 334,
    AttentionWork(backward=False, causal=True, length=16384, head=64): 388,
    AttentionWork(backward=False, causal=False, length=2048, head=128): 617,
    AttentionWork(backward=False, causal=True, length=1024, head=128): 410,
    AttentionWork(backward=False, causal=True, length=4096, head=128): 518,
    AttentionWork(backward=True, causal=False, length=1024, head=64): 348,
    AttentionWork(backward=True, causal=False, length=8192, head=64): 432,
    AttentionWork(backward=True, causal=False, length=1024, head=128): 408,
    AttentionWork(backward=True, causal=False, length=16384, head=128): 516,
}


@pytest.mark.parametrize("work", PUBLISHED, ids=str)
def test_attention_is_as_fast_as_published(work: AttentionWork) -> None:
    assert 989.5 * attention_share(work) == pytest.approx(PUBLISHED[work], rel=0.07)


def test_attention_counts_the_pairs_that_a_causal_mask_lets_through() -> None:
    batch, length, heads, head = 4, 2048, 8, 128
    shape = f"bf16[{batch},{length},{heads},{head}]{{3,2,1,0}}"
    call = (
        f"ROOT %y = ({shape}, f32[{batch},{heads},{length}]{{2,1,0}}) custom-call(%q, %q, %q), "
        'custom_call_target="__cudnn$fmhaSoftmax", backend_config={"mask_type": "CAUSAL", "sliding_window_length": 0}'
    )
    lines = program(f"%q = {shape} parameter(3)", call)
    assert custom_kernels(lines) == 1
    flops = 4 * batch * heads * head * length * length / 2
    share = attention_share(AttentionWork(backward=False, causal=True, length=length, head=head))
    found = estimate(lines, H100, lambda _: 450e9)
    assert found.parts["attention"] == pytest.approx(flops / H100.peak_flops / share)
