/** A merge of LoRA adapters: PEFT has no file for it, so a script reads what `add_weighted_adapter` is to be given. */
import type { Merge } from './request.ts';

export function peftJob({ parents, method, weights, density, dtype }: Merge): string {
  const job = {
    base: parents[0]?.weights.base,
    dtype,
    adapters: parents.map(({ weights: { at } }) => at),
    add_weighted_adapter: {
      weights,
      combination_type: method,
      ...(density !== undefined && { density }),
    },
  };
  return `${JSON.stringify(job, null, 2)}\n`;
}

export const PEFT_SCRIPT = `"""Merges the LoRA adapters of merge.json into adapter/merged; needs torch, transformers and peft."""

import json
from pathlib import Path

from peft import PeftModel
from transformers import AutoModelForCausalLM

here = Path(__file__).resolve().parent
job = json.loads((here / "merge.json").read_text())
names = [f"parent{place}" for place in range(len(job["adapters"]))]
model = AutoModelForCausalLM.from_pretrained(job["base"], dtype=job["dtype"])
model = PeftModel.from_pretrained(model, job["adapters"][0], adapter_name=names[0])
for name, path in zip(names[1:], job["adapters"][1:]):
    model.load_adapter(path, adapter_name=name)
model.add_weighted_adapter(names, adapter_name="merged", **job["add_weighted_adapter"])
model.save_pretrained(here / "adapter", selected_adapters=["merged"])
`;
