"""Trains the tokenizer that all models share: python tokenizer.py PROMPTS.jsonl DIRECTORY."""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from prompts import TEMPLATE, read

SPECIAL = ["<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
VOCABULARY = 512


def train(rows):
    tokenizer = Tokenizer(models.BPE())
    # llama.cpp knows this pair of steps as the pre-tokenizer "smollm".
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [message["content"] for row in rows for message in row["messages"]]
    replies = [f"The answer is {row['gold']}." for row in rows]
    tokenizer.train_from_iterator(texts + replies, trainer)
    return tokenizer


if __name__ == "__main__":
    prompts, directory = sys.argv[1:]
    fast = PreTrainedTokenizerFast(
        tokenizer_object=train(read(prompts)[:20000]),
        eos_token="<|end|>",
        pad_token="<|pad|>",
        extra_special_tokens=[token for token in SPECIAL if token not in ("<|end|>", "<|pad|>")],
        model_max_length=512,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(directory, save_jinja_files=False)
    # Version 5 of transformers writes a class name that version 4, which many servers still use, does not know.
    config = Path(directory, "tokenizer_config.json")
    settings = json.loads(config.read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    settings["additional_special_tokens"] = settings.pop("extra_special_tokens")
    settings.pop("backend", None)
    config.write_text(json.dumps(settings, indent=2) + "\n")
