"""What logit-fusion and nudge must say, computed by PyTorch: python reference.py MODELS_DIRECTORY TASKS.jsonl OUTPUT.json.

Both on tiny-dot and tiny-eve, greedy, with defaults. Fusion takes at each step the token with the highest mean of
log-probabilities over the whole vocabulary. Nudging goes by pieces: the guide gives the first word; the base goes on with
its own tokens up to the first where even the likeliest has a probability below GAMMA; there the guide's next word comes,
from its last piece as long as the base has added nothing since. llama.cpp keeps keys and values in 16 bits, so prompts
at which any choice was closer than MARGIN are left out: another rounding may choose otherwise there."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader
from transformers import AutoModelForCausalLM, AutoTokenizer

from prompts import render

BASE, GUIDE = "tiny-dot", "tiny-eve"
GAMMA, CHUNK, LIMIT = 0.4, 16, 48
MARGIN = 0.08
WANTED = 20
LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def halves(weight, heads):
    """The inverse of to_gguf.interleave."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def load(models, name):
    """The served weights in the architecture of tiny-base, of which all are made."""
    stored = {tensor.name: np.array(tensor.data).astype(np.float32) for tensor in GGUFReader(models / f"{name}.gguf").tensors}
    model = AutoModelForCausalLM.from_pretrained(models / "tiny-base").eval()
    heads = model.config.num_attention_heads
    weights = {
        "model.embed_tokens.weight": stored["token_embd.weight"],
        "model.norm.weight": stored["output_norm.weight"],
        "lm_head.weight": stored["output.weight"],
    }
    for layer in range(model.config.num_hidden_layers):
        for target, source in LAYER.items():
            weight = stored[f"blk.{layer}.{source}.weight"]
            rotated = target in ("self_attn.q_proj", "self_attn.k_proj")
            weights[f"model.layers.{layer}.{target}.weight"] = halves(weight, heads) if rotated else weight
    model.load_state_dict({key: torch.tensor(np.ascontiguousarray(value)) for key, value in weights.items()})
    return model


class Close(Exception):
    """A choice that another rounding might make otherwise."""


class Team:
    def __init__(self, models):
        self.models = {name: load(models, name) for name in (BASE, GUIDE)}
        self.tokenizer = AutoTokenizer.from_pretrained(models / "tiny-base")
        self.end = self.tokenizer.eos_token_id

    @torch.no_grad()
    def logprobs(self, name, ids):
        return self.models[name](torch.tensor([ids])).logits[0, -1].log_softmax(-1)

    def ids(self, messages, text=""):
        return self.tokenizer(render(messages) + text, add_special_tokens=False)["input_ids"]

    def text(self, ids):
        return self.tokenizer.decode(ids)

    def best(self, scores):
        (first, second), (token, _) = scores.topk(2)
        if first - second < MARGIN:
            raise Close
        return token.item()

    def fusion(self, messages):
        prompt, said = self.ids(messages), []
        while len(said) < LIMIT:
            token = self.best(sum(self.logprobs(name, prompt + said) for name in (BASE, GUIDE)) / 2)
            if token == self.end:
                break
            said.append(token)
        return said

    def piece(self, name, messages, text, most):
        """A greedy piece: its tokens, each with the probability of the likeliest, and whether the text ends with it."""
        prompt, ids, tops = self.ids(messages, text), [], []
        while len(ids) < most:
            logprobs = self.logprobs(name, prompt + ids)
            token = self.best(logprobs)
            if token == self.end:
                return [self.text([one]) for one in ids], tops, True
            ids.append(token)
            tops.append(logprobs.max().exp().item())
        return [self.text([one]) for one in ids], tops, False

    def nudged(self, messages):
        text, count, words, ends = "", 0, [], False
        while count < LIMIT:
            if text:
                tokens, tops, is_end = self.piece(BASE, messages, text, min(CHUNK, LIMIT - count))
                if any(abs(top - GAMMA) < MARGIN for top in tops):
                    raise Close
                sure = next((at for at, top in enumerate(tops) if top < GAMMA), len(tops))
                if sure:
                    words, ends = [], False
                text += "".join(tokens[:sure])
                count += sure
                if count >= LIMIT or (sure == len(tokens) and not is_end):
                    continue
            if not words:
                tokens, _, ends = self.piece(GUIDE, messages, text, min(CHUNK, LIMIT - count))
                whole = re.findall(r"\s*\S+", "".join(tokens))
                words = whole if ends or len(whole) < 2 else whole[:-1]
                starts = np.cumsum([0, *map(len, tokens)])[:-1]
                at = 0
                # A word counts as many tokens as begin in it.
                sizes = []
                for word in words:
                    sizes.append(max(1, int(((starts >= at) & (starts < at + len(word))).sum())))
                    at += len(word)
            if words:
                text += words.pop(0)
                count += sizes.pop(0)
            if not words and ends:
                break
        return text


def collect(rows, say):
    found = []
    for row in rows:
        messages = [{"role": "user", "content": row["prompt"]}]
        try:
            found.append({"prompt": row["prompt"], **say(messages)})
        except Close:
            continue
        if len(found) == WANTED:
            break
    return found


if __name__ == "__main__":
    models, tasks, output = map(Path, sys.argv[1:])
    team = Team(models)
    rows = [json.loads(line) for line in tasks.read_text().splitlines()]

    def fused(messages):
        ids = team.fusion(messages)
        return {"tokens": [team.text([one]) for one in ids]}

    reference = {
        "models": [BASE, GUIDE],
        "gamma": GAMMA,
        "chunk": CHUNK,
        "limit": LIMIT,
        "fusion": collect(rows, fused),
        "nudge": collect(rows, lambda messages: {"text": team.nudged(messages)}),
    }
    output.write_text(json.dumps(reference, indent=2, ensure_ascii=False) + "\n")
    print({key: len(value) for key, value in reference.items() if isinstance(value, list)})
