/** Loads and unloads LoRA adapters while the server runs, each as a model of its own that shares no memory. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import type { Llama } from 'node-llama-cpp';
import { isFields } from './chat-request.ts';
import { loraGguf } from './lora-gguf.ts';
import { layersOf, readAdapter } from './peft.ts';
import { badField, RequestError } from './request-error.ts';
import { TinyModel } from './tiny-model.ts';

const mostAdapters = 8;
const usualBase = 'tiny-policy';

export class Adapters {
  readonly #llama: Llama;
  /** Of the whole server: the models that it started with, and the adapters. */
  readonly #models: Map<string, TinyModel>;
  readonly #arriving = new Set<string>();
  /** Those that come or go included. */
  #count = 0;

  constructor(llama: Llama, models: Map<string, TinyModel>) {
    this.#llama = llama;
    this.#models = models;
  }

  async load(body: unknown): Promise<string> {
    const name = textOf(body, 'lora_name');
    const path = textOf(body, 'lora_path');
    const base = isFields(body) && body['base_model'] ? this.#base(textOf(body, 'base_model')) : undefined;
    if (isFields(body) && (body['load_inplace'] ?? false) !== false) {
      throw badField('load_inplace', body['load_inplace'], 'false: unload the adapter first');
    }
    this.#reserve(name);
    try {
      this.#models.set(name, await this.#open(name, path, base));
    } catch (error) {
      this.#count -= 1;
      throw error;
    } finally {
      this.#arriving.delete(name);
    }
    return `Success: LoRA adapter '${name}' added successfully.`;
  }

  /** New calls find the adapter gone at once; its memory is free when this is done, after its last call. */
  async unload(body: unknown): Promise<string> {
    const name = textOf(body, 'lora_name');
    const model = this.#models.get(name);
    if (!model?.parent) {
      throw new RequestError(404, 'adapter_not_found', `there is no LoRA adapter ${name} here`, 'lora_name');
    }
    this.#models.delete(name);
    await model.close();
    this.#count -= 1;
    return `Success: LoRA adapter '${name}' removed successfully.`;
  }

  #reserve(name: string): void {
    if (this.#models.has(name) || this.#arriving.has(name)) {
      throw new RequestError(400, 'name_taken', `lora_name ${name} is loaded already`, 'lora_name');
    }
    if (this.#count >= mostAdapters) {
      const message = `${mostAdapters} adapters are loaded already; unload one first`;
      throw new RequestError(400, 'too_many_adapters', message);
    }
    this.#count += 1;
    this.#arriving.add(name);
  }

  async #open(name: string, path: string, asked: TinyModel | undefined): Promise<TinyModel> {
    const adapter = await readAdapter(path);
    const own = this.#models.get(basename(adapter.base));
    const base = own && !own.parent ? own : (asked ?? this.#base(usualBase));
    if (asked && base !== asked) {
      throw badField('base_model', asked.id, `${base.id}, which adapter_config.json names, or nothing`);
    }
    const gguf = loraGguf(adapter.alpha, layersOf(adapter, base));
    const directory = await mkdtemp(join(tmpdir(), 'tiny-team-'));
    try {
      const file = join(directory, 'lora.gguf');
      await writeFile(file, gguf);
      return await TinyModel.load(this.#llama, name, base.path, { file, root: path, parent: base.id });
    } finally {
      // It is all in memory now.
      await rm(directory, { recursive: true });
    }
  }

  #base(id: string): TinyModel {
    const base = this.#models.get(id);
    if (base && !base.parent) return base;
    const bases = [...this.#models.values()].filter(({ parent }) => !parent).map((model) => model.id);
    throw badField('base_model', id, `one of ${bases.join(', ')}`);
  }
}

function textOf(body: unknown, field: string): string {
  const value = isFields(body) ? body[field] : undefined;
  if (typeof value === 'string' && value !== '' && value.length <= 4096) return value;
  throw badField(field, value, 'a text of up to 4096 characters that is not empty');
}
