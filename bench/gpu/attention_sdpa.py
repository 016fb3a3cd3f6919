"""Times PyTorch's scaled_dot_product_attention at the shapes of `attention_check time`, for the same table.

    python3 bench/gpu/attention_sdpa.py [part of a name] [flash]

"flash": by FlashAttention-2 and nothing else, which cards before Hopper run too."""

import statistics
import sys

import torch
import torch.nn.attention
import torch.nn.functional as functional

CASES = [
    # name, batch, query heads, kv heads, head size, queries, keys, causal, bias
    ("qwen2.5-7b 4x2048", 4, 28, 4, 128, 2048, 2048, True, False),
    ("qwen2.5-7b 1x8192", 1, 28, 4, 128, 8192, 8192, True, False),
    ("qwen2.5-7b 1x2048", 1, 28, 4, 128, 2048, 2048, True, False),
    ("qwen2.5-7b 1x512", 1, 28, 4, 128, 512, 512, True, False),
    ("qwen2.5-7b 4x1024", 4, 28, 4, 128, 1024, 1024, True, False),
    ("qwen2.5-7b 1x16384", 1, 28, 4, 128, 16384, 16384, True, False),
    ("qwen2.5-7b 1x32768", 1, 28, 4, 128, 32768, 32768, True, False),
    ("qwen3-8b 2x2048", 2, 32, 8, 128, 2048, 2048, True, False),
    ("llama-7b 4x2048", 4, 32, 32, 128, 2048, 2048, True, False),
    ("qwen2.5-0.5b 32x1024", 32, 14, 2, 64, 1024, 1024, True, False),
    ("mistral 4x1536", 4, 32, 8, 128, 1536, 1536, True, False),
    ("t5-xl encoder 8x512", 8, 32, 32, 64, 512, 512, False, True),
    ("t5-xl encoder, no bias", 8, 32, 32, 64, 512, 512, False, False),
    ("t5-xl cross 256x512", 8, 32, 32, 64, 256, 512, False, False),
    ("gemma-like d256 2x2048", 2, 16, 8, 256, 2048, 2048, True, False),
]


def median_ms(work):
    times = []
    for _ in range(25):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[5:])


def main():
    words = sys.argv[1:]
    if "flash" in words:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
            time_cases([word for word in words if word != "flash"])
    else:
        time_cases(words)


def time_cases(parts):
    for name, batch, heads, kv_heads, size, queries, keys, causal, biased in CASES:
        if not all(part in name for part in parts):
            continue
        def draw(count, rows):
            shape = (batch, rows, count, size)
            return torch.randn(shape, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_()

        q, k, v = draw(heads, queries), draw(kv_heads, keys), draw(kv_heads, keys)
        bias = None
        if biased:
            bias = torch.randn(1, heads, queries, keys, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        out = None

        def forward():
            nonlocal out
            out = functional.scaled_dot_product_attention(
                q, k, v, attn_mask=bias, is_causal=causal, enable_gqa=heads != kv_heads)

        forward_ms = median_ms(forward)
        gradient = torch.randn_like(out)
        inputs = (q, k, v) if bias is None else (q, k, v, bias)
        backward_ms = median_ms(lambda: torch.autograd.grad(out, inputs, gradient, retain_graph=True))
        flops = 4.0 * batch * heads * size * queries * keys * (0.5 if causal else 1.0)
        print(f"{name:24} {'SDPA':9} forward {forward_ms:7.3f} ms {flops / forward_ms * 1e-9:4.0f} TFLOP/s, "
              f"backward {backward_ms:7.3f} ms {2.5 * flops / backward_ms * 1e-9:4.0f} TFLOP/s", flush=True)


if __name__ == "__main__":
    main()
