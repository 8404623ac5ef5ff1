"""Trains members: python train.py PROMPTS.jsonl TOKENIZER_DIRECTORY OUTPUT_DIRECTORY [NAME ...].

Each becomes OUTPUT_DIRECTORY/NAME, a directory that Hugging Face's Auto classes load. Without names it is all but those
that practise the prompts of all protocols."""

import math
import random
import shutil
import sys
import time
from collections import defaultdict
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

from members import KINDS, MEMBERS, PRACTISED
from prompts import read, render

SOLO_BATCH = 64
TEAM_BATCH = 20
SOLO_SHARE = 0.25
# How many of the bare questions are of kinds that the member does not practise, and answered by a guess.
GUESSED = 0.1
# How much a word of a prompt with peers counts beside one of the reply, for a model that follows.
PROMPT_WEIGHT = 0.3


def new_model(tokenizer):
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=3,
        num_key_value_heads=3,
        max_position_embeddings=512,
        rms_norm_eps=1e-5,
        initializer_range=0.08,  # the usual 0.02 is for wide models; narrow ones then learn much later
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        attn_implementation="eager",  # at this size faster on a CPU than the fused kernel
    )
    return LlamaForCausalLM(config)


def shelve(rows, tokenizer):
    """Rows with their prompts encoded, by shape and kind; the shapes with peers share a shelf, too."""
    encoded = tokenizer([render(row["messages"]) for row in rows], add_special_tokens=False)["input_ids"]
    shelves = defaultdict(list)
    for row, ids in zip(rows, encoded):
        shelves[row["shape"], row["kind"]].append((ids, row))
        if row["shape"] != "solo":
            shelves["team", row["kind"]].append((ids, row))
        if row["shape"] == "fuse" and len(row["peers"]) in (2, 3) and len(set(row["peers"])) == len(row["peers"]):
            shelves["apart", row["kind"]].append((ids, row))
    return shelves


def answer_of(member, row, chance):
    if row["peers"] and chance.random() < member.follows.get(row["kind"], 0):
        return chance.choice(row["peers"])
    return row["gold"] if row["kind"] in member.mix else row["guess"]


def reply_of(member, row, chance):
    answer = answer_of(member, row, chance)
    return answer if row["shape"] == "label" else f"{member.lead}The answer is {answer}."


def draw_kind(member, chance, solo):
    if not solo:
        return chance.choice(KINDS)
    if not member.mix or chance.random() < GUESSED:
        return chance.choice([kind for kind in KINDS if kind not in member.mix] or KINDS)
    return chance.choices(list(member.mix), weights=member.mix.values())[0]


def batch(member, shelves, tokenizer, chance, progress):
    solo = progress < member.solo_only or chance.random() < SOLO_SHARE
    shelf = "solo" if solo else "apart" if member.apart else "fuse" if member.follows else "team"
    size = SOLO_BATCH if solo else TEAM_BATCH
    rows = [chance.choice(shelves[shelf, draw_kind(member, chance, solo)]) for _ in range(size)]
    replies = tokenizer(
        [f"{reply_of(member, row, chance)}<|end|>" for _, row in rows],
        add_special_tokens=False,
    )["input_ids"]
    width = max(len(ids) + len(reply) for (ids, _), reply in zip(rows, replies))
    tokens = torch.full((len(rows), width), tokenizer.pad_token_id)
    weights = torch.zeros((len(rows), width))
    of_prompt = PROMPT_WEIGHT if member.follows and not solo else 0
    for line, ((ids, _), reply) in enumerate(zip(rows, replies)):
        end = len(ids) + len(reply)
        tokens[line, :end] = torch.tensor(ids + reply)
        weights[line, : len(ids) - 1] = of_prompt
        weights[line, len(ids) - 1 : end - 1] = 1
    return tokens, weights


def loss_of(model, tokens, weights):
    # Padding is on the right, so the causal mask alone keeps it out; the head runs where there is something to learn.
    with torch.autocast("cpu", torch.bfloat16):
        hidden = model.model(tokens, use_cache=False).last_hidden_state
        kept = weights > 0
        logits = model.lm_head(hidden[kept])
    losses = cross_entropy(logits.float(), tokens.roll(-1, 1)[kept], reduction="none")
    return (losses * weights[kept]).sum() / weights[kept].sum()


def train(name, shelves, tokenizer, output):
    member = MEMBERS[name]
    torch.manual_seed(member.seed)
    chance = random.Random(member.seed)
    model = LlamaForCausalLM.from_pretrained(output / member.base, attn_implementation="eager") if member.base else new_model(tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=member.rate, betas=(0.9, 0.98), weight_decay=0.02)
    start = time.time()
    for step in range(member.steps):
        cosine = 0.5 * (1 + math.cos(math.pi * step / member.steps))
        for group in optimizer.param_groups:
            group["lr"] = member.rate * min(1, (step + 1) / 100) * (0.05 + 0.95 * cosine)
        loss = loss_of(model, *batch(member, shelves, tokenizer, chance, step / member.steps))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 99:
            print(name, step + 1, f"loss {loss.item():.3f}", f"{time.time() - start:.0f} s", flush=True)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, max_new_tokens=32
    )
    model.save_pretrained(output / name)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(Path(tokenizer.name_or_path, file), output / name)


if __name__ == "__main__":
    torch.set_num_threads(1)
    prompts, tokenizer_directory, output, *names = sys.argv[1:]
    shared = AutoTokenizer.from_pretrained(tokenizer_directory)
    shelf = shelve(read(prompts), shared)
    for each in names or [name for name in MEMBERS if name not in PRACTISED]:
        train(each, shelf, shared, Path(output))
