"""Writes a GGUF file from a Hugging Face directory: python to_gguf.py DIRECTORY FILE.gguf [DESCRIPTION].

Matrices as 16-bit floats, norms as 32-bit ones, the tokenizer and its chat template inside. The format is that of
GGUF version 3, and the names are llama.cpp's."""

import json
import struct
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

UINT32, FLOAT32, BOOL, STRING, ARRAY, INT32 = 4, 6, 7, 8, 9, 5
ALIGNMENT = 32
NORMAL_TOKEN, CONTROL_TOKEN = 1, 3


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def scalar(kind, value):
    if kind == STRING:
        return text(value)
    return struct.pack({UINT32: "<I", FLOAT32: "<f", BOOL: "<?", INT32: "<i"}[kind], value)


def entry(key, kind, value):
    if isinstance(value, list):
        body = struct.pack("<IIQ", ARRAY, kind, len(value)) + b"".join(scalar(kind, item) for item in value)
    else:
        body = struct.pack("<I", kind) + scalar(kind, value)
    return text(key) + body


def interleave(weight, heads):
    """llama.cpp rotates neighbouring pairs, Hugging Face rotates halves: reorder the rows of each head."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def tensors_of(weights, config):
    heads = config["num_attention_heads"]
    yield "token_embd.weight", weights["model.embed_tokens.weight"]
    yield "output_norm.weight", weights["model.norm.weight"]
    yield "output.weight", weights["lm_head.weight"]
    for layer in range(config["num_hidden_layers"]):
        source, target = f"model.layers.{layer}.", f"blk.{layer}."
        yield target + "attn_norm.weight", weights[source + "input_layernorm.weight"]
        yield target + "attn_q.weight", interleave(weights[source + "self_attn.q_proj.weight"], heads)
        yield target + "attn_k.weight", interleave(weights[source + "self_attn.k_proj.weight"], heads)
        yield target + "attn_v.weight", weights[source + "self_attn.v_proj.weight"]
        yield target + "attn_output.weight", weights[source + "self_attn.o_proj.weight"]
        yield target + "ffn_norm.weight", weights[source + "post_attention_layernorm.weight"]
        yield target + "ffn_gate.weight", weights[source + "mlp.gate_proj.weight"]
        yield target + "ffn_up.weight", weights[source + "mlp.up_proj.weight"]
        yield target + "ffn_down.weight", weights[source + "mlp.down_proj.weight"]


def metadata_of(directory, config, description):
    tokenizer = json.loads((directory / "tokenizer.json").read_text())
    settings = json.loads((directory / "tokenizer_config.json").read_text())
    special = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    ids = tokenizer["model"]["vocab"] | special
    vocabulary = sorted(ids, key=ids.get)
    head = config["hidden_size"] // config["num_attention_heads"]
    return [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, directory.name),
        ("general.description", STRING, description),
        ("general.license", STRING, "apache-2.0"),
        ("general.alignment", UINT32, ALIGNMENT),
        ("general.file_type", UINT32, 1),
        ("llama.context_length", UINT32, config["max_position_embeddings"]),
        ("llama.embedding_length", UINT32, config["hidden_size"]),
        ("llama.block_count", UINT32, config["num_hidden_layers"]),
        ("llama.feed_forward_length", UINT32, config["intermediate_size"]),
        ("llama.attention.head_count", UINT32, config["num_attention_heads"]),
        ("llama.attention.head_count_kv", UINT32, config["num_key_value_heads"]),
        ("llama.attention.layer_norm_rms_epsilon", FLOAT32, config["rms_norm_eps"]),
        ("llama.rope.dimension_count", UINT32, head),
        ("llama.rope.freq_base", FLOAT32, config["rope_parameters"]["rope_theta"]),
        ("llama.vocab_size", UINT32, config["vocab_size"]),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "smollm"),
        ("tokenizer.ggml.tokens", STRING, vocabulary),
        ("tokenizer.ggml.token_type", INT32, [CONTROL_TOKEN if t in special else NORMAL_TOKEN for t in vocabulary]),
        ("tokenizer.ggml.merges", STRING, [" ".join(pair) for pair in tokenizer["model"]["merges"]]),
        ("tokenizer.ggml.eos_token_id", UINT32, ids[settings["eos_token"]]),
        ("tokenizer.ggml.padding_token_id", UINT32, ids[settings["pad_token"]]),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
        ("tokenizer.ggml.add_eos_token", BOOL, False),
        ("tokenizer.chat_template", STRING, settings["chat_template"]),
    ]


def write(directory, path, description):
    config = json.loads((directory / "config.json").read_text())
    metadata = metadata_of(directory, config, description)
    index, blobs, offset = b"", [], 0
    tensors = list(tensors_of(load_file(directory / "model.safetensors"), config))
    for name, weight in tensors:
        matrix = weight.ndim > 1
        blob = np.ascontiguousarray(weight, dtype=np.float16 if matrix else np.float32).tobytes()
        shape = weight.shape[::-1]
        index += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        index += struct.pack("<IQ", 1 if matrix else 0, offset)
        blobs.append(blob + b"\0" * (-len(blob) % ALIGNMENT))
        offset += len(blobs[-1])
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(entry(*item) for item in metadata) + index
    path.write_bytes(head + b"\0" * (-len(head) % ALIGNMENT) + b"".join(blobs))


if __name__ == "__main__":
    source, target, *rest = sys.argv[1:]
    write(Path(source), Path(target), rest[0] if rest else "")
