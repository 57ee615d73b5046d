"""One step of training, for any model of transformers: its loss, its rate, its update."""

import math

import torch
from torch.nn.functional import cross_entropy

WARM_UP = 100
PEAK_RATE = 3e-3


def new_optimizer(model):
    """Returns AdamW, without weight decay for norms."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    norms = [p for p in model.parameters() if p.dim() == 1]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                              {"params": norms, "weight_decay": 0.0}],
                             lr=PEAK_RATE, betas=(0.9, 0.95))


def learning_rate(step, steps):
    """Returns the rate of a linear warm-up, then half a cosine down to a fiftieth."""
    if step < WARM_UP:
        return PEAK_RATE * (step + 1) / WARM_UP
    progress = (step - WARM_UP) / max(1, steps - WARM_UP)
    return PEAK_RATE * (0.02 + 0.98 * (1 + math.cos(math.pi * progress)) / 2)


def loss_of(model, windows):
    """Returns the mean cross entropy of every token given the ones before it."""
    logits = model(windows[:, :-1], use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


@torch.no_grad()
def held_out_loss(model, windows):
    """Returns the mean loss over all held-out windows."""
    model.eval()
    losses = [loss_of(model, part).item() for part in windows.split(4)]
    model.train()
    return sum(losses) / len(losses)


def train_step(model, optimizer, windows, rate):
    """Performs one update; returns the loss before it."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    loss = loss_of(model, windows)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()
