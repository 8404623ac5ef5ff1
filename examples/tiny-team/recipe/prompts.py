"""The rendered prompts, as rows of token ids with what a target needs."""

import json

TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def read(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines]


def render(messages):
    """What TEMPLATE renders; written out because Jinja is too slow for a hundred thousand prompts."""
    return "".join(f"<|{m['role']}|>{m['content']}<|end|>" for m in messages) + "<|assistant|>"
