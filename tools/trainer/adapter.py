"""Log-probs of token sequences under a base model with a PEFT adapter: what the serving fleet would compute.

Arguments: base directory, adapter directory or "-". Reads a JSON list of token lists from stdin, writes a JSON list
of lists to stdout: the log-prob of each token but the first.
"""

import json
import sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

base, adapter = sys.argv[1:3]
model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
if adapter != "-":
    model = PeftModel.from_pretrained(model, adapter)
model.eval()
result = []
with torch.no_grad():
    for ids in json.load(sys.stdin):
        tokens = torch.tensor([ids])
        logprobs = torch.log_softmax(model(tokens).logits[0, :-1], dim=-1)
        result.append(logprobs.gather(1, tokens[0, 1:, None])[:, 0].tolist())
json.dump(result, sys.stdout)
