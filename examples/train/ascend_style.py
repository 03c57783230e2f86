"""A small language model trained on an Ascend NPU: python ascend_style.py [--steps N] [--save FILE] [--resume FILE]"""
import argparse

import torch
import torch.nn.functional as F
import torch_npu
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCAB, WIDTH, HEADS, LENGTH, BATCH = 256, 64, 4, 32, 8


class VocabLoss(torch.autograd.Function):
    """Loss of the LM head without its logits; one shard of the vocabulary (TP 1)."""

    @staticmethod
    def forward(ctx, x, weight, target):
        top, total, predicted, mask, local, _ = torch_npu.npu_fused_linear_online_max_sum(
            x, weight, target, 0, weight.shape[0])
        loss, _ = torch_npu.npu_fused_cross_entropy_loss_with_max_sum(top, total, predicted)
        ctx.save_for_backward(x, weight, mask, local, top, total)
        return loss

    @staticmethod
    def backward(ctx, grad):
        x, weight, mask, local, top, total = ctx.saved_tensors
        dx, dweight = torch_npu.npu_fused_linear_cross_entropy_loss_with_max_sum_backward(
            grad, x, weight, mask, local, logits_max=top, sum_exp_logits=total)
        return dx, dweight, None


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 8 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        p = torch_npu.npu_scaled_masked_softmax(q @ k.transpose(-1, -2), mask, (c // HEADS) ** -0.5, False)
        x = x + self.proj((p @ v).transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.dropout(torch_npu.npu_swiglu(self.up(self.norm2(x)), dim=-1), 0.1, self.training))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCAB, WIDTH), nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(2)), nn.LayerNorm(WIDTH)
        self.register_buffer("mask", torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool).triu(1))

    def forward(self, tokens, target):
        x = self.embed(tokens) + self.place
        for block in self.blocks:
            x = block(x, self.mask)
        x = self.norm(x).to(torch.bfloat16).view(-1, WIDTH)
        return VocabLoss.apply(x, self.embed.weight.to(torch.bfloat16), target.reshape(-1)).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--save")
    parser.add_argument("--resume")
    args = parser.parse_args()
    torch.npu.set_device(0)
    torch.manual_seed(1)
    text = (torch.arange(128 * (LENGTH + 1)) ** 2 % 251).view(-1, LENGTH + 1)
    loader = DataLoader(TensorDataset(text), BATCH, shuffle=True, pin_memory=True)
    model = Model().npu().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    step, began, ended = 0, torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    if args.resume:
        state = torch.load(args.resume, map_location="npu:0")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    began.record()
    while step < args.steps:
        for (rows,) in loader:
            rows = rows.npu(non_blocking=True)
            with torch.autocast("npu", dtype=torch.bfloat16):
                loss = model(rows[:, :-1], rows[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            print(f"step {step} loss {loss.item():.6f} norm {norm.item():.4f}", flush=True)
            if step >= args.steps:
                break
    ended.record()
    torch.npu.synchronize()
    peak = torch.npu.max_memory_allocated() / 2**20
    print(f"{began.elapsed_time(ended):.0f} ms, {peak:.1f} MiB, device {loss.device}")
    if args.save:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, args.save)


if __name__ == "__main__":
    main()
