#!/usr/bin/env python3
"""The peer: transformers + PEFT (Liger's kernels too, if asked) on the same case as train_gpu.

Random weights at the published shape, random tokens, fused AdamW unless --optim says another one. Prints one line
"PEER {json}".
  peer.py --model Qwen/Qwen2.5-7B-Instruct --batch 4 --length 2048 [--rank 128] [--dtype bf16]
          [--checkpointing] [--liger] [--nf4-double] [--target 256] [--steps 6] [--curve FOLDER] [--fp32-weights]
          [--optim adamw|adamw8bit|adafactor]
--curve begins with the weights and sees the tokens that train_gpu wrote to the folder, and prints all losses.
PEER_PATH names a folder with peft, liger_kernel and bitsandbytes where they are not installed.
"""

import argparse
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.environ.get("PEER_PATH", "."))

import torch  # noqa: E402
import transformers  # noqa: E402

DECODERS = {
    "Qwen/Qwen2.5-7B-Instruct": ("Qwen2", "qwen2", dict(
        vocab_size=152064, hidden_size=3584, intermediate_size=18944, num_hidden_layers=28,
        num_attention_heads=28, num_key_value_heads=4, rope_theta=1e6, max_position_embeddings=32768,
        tie_word_embeddings=False)),
    "Qwen/Qwen2.5-3B-Instruct": ("Qwen2", "qwen2", dict(
        vocab_size=151936, hidden_size=2048, intermediate_size=11008, num_hidden_layers=36,
        num_attention_heads=16, num_key_value_heads=2, rope_theta=1e6, max_position_embeddings=32768,
        tie_word_embeddings=True)),
    "mistralai/Mistral-7B-Instruct-v0.3": ("Mistral", "mistral", dict(
        vocab_size=32768, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
        num_attention_heads=32, num_key_value_heads=8, rope_theta=1e6, max_position_embeddings=32768,
        sliding_window=None, tie_word_embeddings=False)),
    "deepseek-ai/deepseek-llm-7b-base": ("Llama", "llama", dict(
        vocab_size=102400, hidden_size=4096, intermediate_size=11008, num_hidden_layers=30,
        num_attention_heads=32, num_key_value_heads=32, max_position_embeddings=4096)),
}
FLAN_T5_XL = dict(vocab_size=32128, d_model=2048, d_kv=64, d_ff=5120, num_layers=24, num_heads=32,
                  feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0,
                  dropout_rate=0.0)


def quantise(model):
    """What load_in_4bit with nf4, double quantisation and bf16 compute makes of a model. PEFT's
    prepare_model_for_kbit_training is left out: it would cast the head and the embeddings to fp32."""
    import bitsandbytes

    for name, module in list(model.named_modules()):
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            coded = bitsandbytes.nn.Linear4bit(
                module.in_features, module.out_features, bias=module.bias is not None, device="meta",
                compute_dtype=torch.bfloat16, compress_statistics=True, quant_type="nf4")
            coded.weight = bitsandbytes.nn.Params4bit(
                module.weight.detach().cpu(), requires_grad=False, compress_statistics=True, quant_type="nf4")
            coded.bias = module.bias
            module.weight = None
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, coded.to("cuda"))
    torch.cuda.empty_cache()
    model.is_loaded_in_4bit = True


def make_model(options, dtype):
    torch.set_default_dtype(dtype)
    with torch.device("cuda"):
        if options.model == "google/flan-t5-xl":
            model = transformers.T5ForConditionalGeneration(transformers.T5Config(**FLAN_T5_XL))
            # transformers ties a fresh model's head to its embeddings whatever the config says; FLAN-T5's are two.
            model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
        else:
            family, liger_name, shape = DECODERS[options.model]
            if options.liger:
                import liger_kernel.transformers as liger

                getattr(liger, f"apply_liger_kernel_to_{liger_name}")()
            config = getattr(transformers, f"{family}Config")(**shape)
            model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    torch.set_default_dtype(torch.float32)
    model.config.use_cache = False
    if options.nf4_double:
        quantise(model)
    if options.checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if options.rank > 0:
        import peft

        model.requires_grad_(False)
        if options.checkpointing:
            model.enable_input_require_grads()
        linears = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj".split()
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=options.rank, lora_alpha=2 * options.rank, lora_dropout=0.0, target_modules=linears,
            task_type="CAUSAL_LM"))
    return model.train()


def make_optimizer(options, trainable):
    if options.optim == "adamw8bit":
        import bitsandbytes

        return bitsandbytes.optim.AdamW8bit(trainable, lr=1e-4, weight_decay=0.0)
    if options.optim == "adafactor":  # as Trainer makes it
        return transformers.optimization.Adafactor(trainable, lr=1e-4, scale_parameter=False, relative_step=False)
    return torch.optim.AdamW(trainable, lr=1e-4, fused=True, weight_decay=0.0)


class SameStart:
    """The weights and batches of train_gpu's curve=FOLDER."""

    def __init__(self, folder, model, options):
        with open(os.path.join(folder, "start.json"), encoding="utf-8") as file:
            start = json.load(file)
        block = torch.frombuffer(bytearray(open(os.path.join(folder, "block.f32"), "rb").read()), dtype=torch.float32)
        block = block.cuda()
        wanted = dict(start["tensors"])
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                plain = name.replace(".base_layer", "").replace(".default", "")
                if ".lora_" not in plain:
                    plain = plain.removeprefix("base_model.model.")
                place = wanted.pop(plain)
                index = torch.arange(parameter.numel(), device="cuda") + place["first"]
                values = block[index % block.numel()] * place["deviation"] + place["mean"]
                parameter.copy_(values.view_as(parameter))
        assert not wanted, list(wanted)[:5]
        self.batches = []
        for batch in start["batches"]:
            targets = torch.tensor(batch["targets"], device="cuda").view(options.batch, -1)
            if options.target:
                ids = torch.tensor(batch["source_ids"], device="cuda").view(options.batch, -1)
                self.batches.append((ids, targets))
            else:  # labels are shifted by the model
                ids = torch.tensor(batch["ids"], device="cuda").view(options.batch, -1)
                self.batches.append((ids, ids))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--target", type=int, default=0)
    parser.add_argument("--rank", type=int, default=128)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--liger", action="store_true")
    parser.add_argument("--nf4-double", action="store_true", help="the base in 4 bits, by bitsandbytes")
    parser.add_argument("--curve", default="")
    parser.add_argument("--fp32-weights", action="store_true", help="compute in dtype by autocast, as Trainer's bf16")
    parser.add_argument("--optim", default="adamw", choices=["adamw", "adamw8bit", "adafactor"])
    options = parser.parse_args()
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[options.dtype]
    torch.manual_seed(0)
    model = make_model(options, torch.float32 if options.fp32_weights else dtype)
    trainable = [p for p in model.parameters() if p.requires_grad]
    start_point = SameStart(options.curve, model, options) if options.curve else None
    optimizer = make_optimizer(options, trainable)
    vocabulary = model.config.vocab_size
    seconds = []
    losses = []
    for step in range(options.steps):
        ids = torch.randint(0, vocabulary, (options.batch, options.length), device="cuda")
        labels = ids
        if options.target:
            labels = torch.randint(0, vocabulary, (options.batch, options.target), device="cuda")
        if start_point:
            ids, labels = start_point.batches[step % len(start_point.batches)]
        torch.cuda.synchronize()
        start = time.perf_counter()
        autocast = dtype != torch.float32 and (options.rank > 0 or options.fp32_weights)
        with torch.autocast("cuda", dtype=dtype, enabled=autocast):
            loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        losses.append(loss.detach())
    median = statistics.median(seconds[2:])
    free, total = torch.cuda.mem_get_info()
    tokens = options.batch * (options.length + options.target)
    print("PEER " + json.dumps(dict(
        vars(options), tok_s=tokens / median, step_s=median, loss=loss.item(),
        losses=[value.item() for value in losses] if options.curve else [],
        driver_GiB=(total - free) / 2**30,
        peak_allocated_GiB=torch.cuda.max_memory_allocated() / 2**30)), flush=True)


if __name__ == "__main__":
    main()
