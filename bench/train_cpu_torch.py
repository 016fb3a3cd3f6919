"""The same training as bench/train_cpu.cc with PyTorch and transformers; one JSON line.
usage: train_cpu_torch.py [threads] [steps] [batch]"""
import json
import os
import resource
import sys
import time

threads = int(sys.argv[1]) if len(sys.argv) > 1 and int(sys.argv[1]) > 0 else len(os.sched_getaffinity(0))
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 8
batch = int(sys.argv[3]) if len(sys.argv) > 3 else 8
os.environ.setdefault("OMP_NUM_THREADS", str(threads))

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.set_num_threads(threads)
torch.manual_seed(0)
config = LlamaConfig(vocab_size=32000, hidden_size=288, intermediate_size=768, num_hidden_layers=6,
                     num_attention_heads=6, num_key_value_heads=6, max_position_embeddings=256,
                     tie_word_embeddings=True, use_cache=False)
model = LlamaForCausalLM._from_config(config, attn_implementation="sdpa")
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
times = []
for step in range(steps):
    ids = torch.randint(0, 32000, (batch, 256))
    start = time.perf_counter()
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    value = loss.item()
    times.append(time.perf_counter() - start)
times = sorted(times[min(2, len(times) - 1):])
print(json.dumps({"stack": "pytorch " + torch.__version__, "threads": threads,
                  "tokens_per_second": round(batch * 256 / times[len(times) // 2]),
                  "peak_resident_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
                  "parameters": sum(p.numel() for p in model.parameters()), "loss": round(value, 4)}))
