"""Checks that the server's LoRA adapters are those of PEFT:

    python check_adapter.py PROMPTS.jsonl NODE

Random adapters for tiny-policy, written by PEFT in three number formats, are loaded into the server and compared, as
in check.py, with what PEFT makes of them when it merges them into the weights."""

import json
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from check import EXAMPLE, LIKELY, TOLERANCE, check
from prompts import read

BASE = EXAMPLE / "models" / "tiny-policy"
PROMPTS = 80
QUESTION = "What is 37 + 58? End with: The answer is X.<|end|>"
REPLY = "The answer is 95.<|end|>"
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS = {
    "all-linear": (torch.float32, dict(r=8, lora_alpha=16, target_modules=[*LINEAR, "lm_head"])),
    "attention": (torch.bfloat16, dict(r=4, lora_alpha=4, target_modules=["q_proj", "k_proj"])),
    "stabilised": (torch.float16, dict(r=32, lora_alpha=8, target_modules=LINEAR, use_rslora=True)),
}


def write(name, directory):
    """The adapter in NAME/ of `directory`, and the merged model in merged/NAME/."""
    dtype, fields = ADAPTERS[name]
    torch.manual_seed(1)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(BASE), LoraConfig(task_type="CAUSAL_LM", **fields))
    for key, weight in model.named_parameters():
        if "lora_B" in key:
            torch.nn.init.normal_(weight, std=0.1)
        if "lora_" in key:
            weight.data = weight.data.to(dtype).float()
    moved = effect(model)
    print(f"{name}: moves log-probabilities by up to {moved:.2f}")
    assert moved > 10 * TOLERANCE, name
    for key, weight in model.named_parameters():
        if "lora_" in key:
            weight.data = weight.data.to(dtype)
    # By itself PEFT would add the unchanged head of the base, which no server wants.
    model.save_pretrained(directory / name, save_embedding_layers=False)
    model.float().merge_and_unload().save_pretrained(directory / "merged" / name)
    AutoTokenizer.from_pretrained(BASE).save_pretrained(directory / "merged" / name)


@torch.no_grad()
def effect(model):
    ids = torch.tensor([AutoTokenizer.from_pretrained(BASE).encode("<|user|>" + QUESTION + "<|assistant|>" + REPLY)])
    adapted = model(ids).logits.log_softmax(-1)
    with model.disable_adapter():
        base = model(ids).logits.log_softmax(-1)
    return (adapted - base)[base > LIKELY].abs().max().item()


def load(base_url, name, path):
    body = json.dumps({"lora_name": name, "lora_path": str(path)}).encode()
    try:
        with urllib.request.urlopen(f"{base_url}/load_lora_adapter", body) as response:
            print(response.read().decode())
    except urllib.error.HTTPError as error:
        raise SystemExit(error.read().decode()) from error


if __name__ == "__main__":
    torch.set_num_threads(1)
    prompts, node = sys.argv[1:]
    server = subprocess.Popen([node, EXAMPLE / "server.ts"], stdout=subprocess.PIPE)
    try:
        address = json.loads(server.stdout.readline())["baseUrl"]
        with tempfile.TemporaryDirectory() as work:
            for each in ADAPTERS:
                write(each, Path(work))
                load(address, each, Path(work, each))
                check(each, Path(work, "merged"), read(prompts)[:PROMPTS], address)
    finally:
        server.terminate()
        server.wait()
