#!/usr/bin/env python3
"""transformers' LLaMA (random weights), trained as it is and with its SwiGLU and its head replaced by Gradus'."""

import argparse
import statistics
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import data
import gradus.torch.patch

CONFIG = LlamaConfig(
    vocab_size=data.VOCABULARY,
    hidden_size=256,
    intermediate_size=704,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=4,
)


def train(patched: bool, steps: int) -> tuple[list[float], float]:
    torch.manual_seed(1)
    model = LlamaForCausalLM(CONFIG).train()
    if patched:
        print("replaced:", ", ".join(map(str, gradus.torch.patch.apply(model))))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    losses, seconds = [], []
    for _, (tokens, _) in zip(range(steps), data.batches(4, 512, seed=1)):
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    return losses, statistics.median(seconds[min(2, steps - 1) :])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    steps = parser.parse_args().steps
    plain, plain_seconds = train(False, steps)
    ours, our_seconds = train(True, steps)
    for step, (a, b) in enumerate(zip(plain, ours), 1):
        print(f"step {step}: loss {a:.4f} as it is, {b:.4f} patched")
    print(f"a step: {plain_seconds:.2f} s as it is, {our_seconds:.2f} s patched ({plain_seconds / our_seconds:.2f} times)")


if __name__ == "__main__":
    main()
