"""Checks that the served GGUF files are the Hugging Face directories that they were made from:

    python check.py PROMPTS.jsonl DIRECTORY NODE [NAME ...]

On 240 prompts of each model: equal token ids, log-probabilities within TOLERANCE at each place of the reply where they
matter, and equal greedy replies on at least 95 %. DIRECTORY holds NAME/ for each; NODE is a Node.js of version 24."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from members import MEMBERS, STAGES
from prompts import read

EXAMPLE = Path(__file__).resolve().parent.parent
PROMPTS = 240
# The weights are rounded to 16 bits in the file, and llama.cpp keeps keys and values in 16 bits.
TOLERANCE = 0.05
# Less probable tokens than this (a thousandth) hardly count, and differ more.
LIKELY = -6.9
REPLY = 24


def served(base_url, name, messages):
    fields = {"temperature": 0, "max_tokens": REPLY, "logprobs": True, "top_logprobs": 5, "return_token_ids": True}
    body = json.dumps({"model": name, "messages": messages, **fields}).encode()
    with urllib.request.urlopen(f"{base_url}/chat/completions", body) as response:
        return json.load(response)


@torch.no_grad()
def check(name, directory, rows, base_url):
    tokenizer = AutoTokenizer.from_pretrained(directory / name)
    model = AutoModelForCausalLM.from_pretrained(directory / name).eval()
    same, worst = 0, 0.0
    for row in rows:
        answer = served(base_url, name, row["messages"])
        prompt = tokenizer.apply_chat_template(row["messages"], add_generation_prompt=True, return_dict=True)
        ids = prompt["input_ids"]
        assert ids == answer["prompt_token_ids"], (name, row["messages"], ids, answer["prompt_token_ids"])
        choice = answer["choices"][0]
        inputs = torch.tensor([ids])
        reply = model.generate(inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=REPLY, do_sample=False)
        same += reply[0, len(ids) :].tolist() == choice["token_ids"]
        own = model(torch.tensor([ids + choice["token_ids"]])).logits[0, len(ids) - 1 :].log_softmax(-1)
        for place, step in zip(own, choice["logprobs"]["content"]):
            for other in step["top_logprobs"]:
                logprob = place[tokenizer.convert_tokens_to_ids(vocabulary_form(tokenizer, other["token"]))].item()
                if logprob > LIKELY:
                    worst = max(worst, abs(logprob - other["logprob"]))
    print(f"{name}: {len(rows)} prompts, equal ids, log-probabilities within {worst:.4f}, equal replies {same}")
    assert worst < TOLERANCE, name
    assert same >= 0.95 * len(rows), name


def vocabulary_form(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False)
    return tokenizer.convert_ids_to_tokens(ids)[0]


if __name__ == "__main__":
    torch.set_num_threads(1)
    prompts, directory, node, *names = sys.argv[1:]
    server = subprocess.Popen([node, EXAMPLE / "server.ts"], stdout=subprocess.PIPE)
    try:
        address = json.loads(server.stdout.readline())["baseUrl"]
        for each in names or [name for name in MEMBERS if name not in STAGES]:
            check(each, Path(directory), read(prompts)[:PROMPTS], address)
    finally:
        server.terminate()
        server.wait()
