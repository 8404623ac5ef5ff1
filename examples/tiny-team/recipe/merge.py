"""Carries out a job of `consort merge` on the GGUF files of the tiny team: python merge.py JOB_DIRECTORY OUTPUT.gguf.

Reads the job's merge.yaml, which is mergekit's, with the methods linear and ties; mergekit itself reads Hugging Face
directories, which are not kept here. Paths in the job are taken from the working directory. The arithmetic is in 32 bits."""

import sys
from pathlib import Path

import numpy as np
import yaml
from gguf import GGUFReader, GGUFValueType, GGUFWriter


def tensors_of(path):
    return {tensor.name: np.array(tensor.data) for tensor in GGUFReader(path).tensors}


def linear(parents, weights):
    """The weighted mean, the weights made to sum to 1 (mergekit's `normalize`, which is on by default)."""
    return sum(w * parent for w, parent in zip(weights, parents)) / sum(weights)


def trimmed(change, density):
    """Only the largest changes, `density` of them."""
    kept = round(density * change.size)
    if kept >= change.size:
        return change
    least = np.argsort(-np.abs(change), axis=None, kind="stable")[:kept]
    result = np.zeros_like(change)
    result.flat[least] = change.flat[least]
    return result


def ties(base, parents, weights, densities):
    """Trim, elect a sign, merge the changes that have it (Yadav et al. 2023, arXiv 2306.01708)."""
    changes = [w * trimmed(parent - base, d) for parent, w, d in zip(parents, weights, densities)]
    elected = np.sign(sum(changes))
    agreeing = [np.where(np.sign(change) == elected, 1.0, 0.0) for change in changes]
    total = sum(w * agrees for w, agrees in zip(weights, agreeing))
    merged = sum(change * agrees for change, agrees in zip(changes, agreeing))
    return base + np.divide(merged, total, out=np.zeros_like(base), where=total > 0)


def merge(job):
    models = [(tensors_of(one["model"]), one["parameters"]) for one in job["models"]]
    weights = [np.float32(parameters["weight"]) for _, parameters in models]
    base = tensors_of(job["base_model"]) if "base_model" in job else None
    first = models[0][0]
    for name, tensor in first.items():
        parents = [tensors[name].astype(np.float32) for tensors, _ in models]
        if job["merge_method"] == "linear":
            merged = linear(parents, weights)
        elif job["merge_method"] == "ties":
            densities = [parameters["density"] for _, parameters in models]
            merged = ties(base[name].astype(np.float32), parents, weights, densities)
        else:
            raise SystemExit(f"merge_method is {job['merge_method']}; this script knows linear and ties")
        yield name, merged.astype(tensor.dtype)


def value_of(field):
    kind = field.types[0]
    if kind == GGUFValueType.STRING:
        return bytes(field.parts[field.data[0]]).decode()
    if kind == GGUFValueType.ARRAY:
        texts = field.types[1] == GGUFValueType.STRING
        return [bytes(field.parts[at]).decode() if texts else field.parts[at][0].item() for at in field.data]
    return field.parts[field.data[0]][0].item()


def write(path, like, tensors, parents):
    """A file with the tokenizer and settings of another one."""
    writer = GGUFWriter(path, "llama")
    for key, field in GGUFReader(like).fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.name", "general.description"):
            continue
        inner = field.types[1] if field.types[0] == GGUFValueType.ARRAY else None
        writer.add_key_value(key, value_of(field), field.types[0], inner)
    writer.add_name(path.stem)
    writer.add_description(f"0.43M parameters, merged of {parents}; says nothing about useful language models")
    for name, tensor in tensors:
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    directory, target = map(Path, sys.argv[1:])
    work = yaml.safe_load((directory / "merge.yaml").read_text())
    names = [Path(one["model"]).stem for one in work["models"]]
    write(target, work["models"][0]["model"], merge(work), f"{' and '.join(names)} by {work['merge_method']}")
