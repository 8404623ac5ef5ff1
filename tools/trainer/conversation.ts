/**
 * One conversation with a server of the Tinker protocol, request by request and without our client: what a server
 * answers to each, good and bad. Recorded from a real server (`record.ts`), it is what the fake of the tests is
 * checked against.
 */
import { request } from 'undici';
import { encodePass, type CodecName } from '../../src/policy/trainers/codec.ts';

export interface Exchange {
  readonly name: string;
  readonly status: number;
  readonly contentType: string;
  /** The parsed JSON, or the bytes in base64. */
  readonly body: unknown;
  readonly location?: string;
}

const tensor = (data: number[], dtype: 'int64' | 'float32') => ({
  data,
  dtype,
  shape: [data.length] as [number],
});

const DATUM = {
  model_input: { chunks: [{ type: 'encoded_text', tokens: [5, 6, 7, 8] }] },
  loss_fn_inputs: {
    target_tokens: tensor([6, 7, 8, 9], 'int64'),
    logprobs: tensor([0, 0, -6, -6], 'float32'),
    advantages: tensor([0, 0, 0.5, 0.5], 'float32'),
    weights: tensor([0, 0, 1, 1], 'float32'),
  },
} as const;

const ADAM = { learning_rate: 0.001, beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0, grad_clip_norm: 0 };
const LOSS = { name: 'importance_sampling' } as const;

/** Talks to the server and gives all that it said, in order. */
export async function converse(baseUrl: string, baseModel: string, codec: CodecName): Promise<Exchange[]> {
  const talk = new Conversation(`${baseUrl}/api/v1/`);
  await talk.get('healthz', 'healthz');
  await talk.get('capabilities', 'get_server_capabilities');
  const { session_id: session } = await talk.post('create_session', 'create_session', {
    tags: ['record'],
    user_metadata: {},
    sdk_version: 'consort',
    type: 'create_session',
  });
  await talk.post('heartbeat', 'session_heartbeat', { session_id: session, type: 'session_heartbeat' });
  await talk.post('heartbeat of nobody', 'session_heartbeat', {
    session_id: 'nobody',
    type: 'session_heartbeat',
  });
  const model = await makeModel(talk, 'create_model', session, baseModel);
  await talk.post('get_info', 'get_info', { model_id: model, type: 'get_info' });
  await talk.post('get_info of nobody', 'get_info', { model_id: 'nobody', type: 'get_info' });
  await train(talk, model, codec);
  await save(talk, model);
  const second = await makeModel(talk, 'create_model again', session, baseModel);
  const path = `tinker://${model}/weights/state-1`;
  const load = { model_id: second, path, optimizer: true, seq_id: 1, type: 'load_weights' };
  await talk.operation('load_weights', 'load_weights', load);
  await talk.post('load_weights late', 'load_weights', { ...load, seq_id: 2 });
  for (const id of [model, second]) {
    await talk.post('unload_model', 'unload_model', { model_id: id, type: 'unload_model' });
  }
  await talk.post('future of nobody', 'retrieve_future', { request_id: '999999' });
  return talk.exchanges;
}

async function makeModel(
  talk: Conversation,
  name: string,
  session: unknown,
  baseModel: string,
): Promise<string> {
  const reply = await talk.operation(name, 'create_model', {
    session_id: session,
    model_seq_id: 1,
    base_model: baseModel,
    lora_config: { rank: 8, seed: 7, train_unembed: false, train_mlp: true, train_attn: true },
    type: 'create_model',
  });
  return String(reply['model_id']);
}

async function train(talk: Conversation, model: string, codec: CodecName): Promise<void> {
  const pass = (seq: number, copies = 1) => ({
    modelId: model,
    seq,
    data: Array.from({ length: copies }, () => DATUM),
    loss: LOSS,
    forwardOnly: false,
  });
  const json = encodePass('json', pass(1));
  await talk.send('forward_backward as JSON', json.path, json.body, json.contentType);
  const { path, body, contentType } = encodePass(codec, pass(1));
  const first = await talk.send('forward_backward', path, body, contentType);
  const again = await talk.send('forward_backward again', path, body, contentType);
  talk.note('forward_backward has one promise', first['request_id'] === again['request_id']);
  const other = encodePass(codec, pass(1, 2));
  await talk.send('forward_backward with the number of another', other.path, other.body, other.contentType);
  await talk.result('forward_backward result', first);
  const forward = encodePass(codec, { ...pass(2), forwardOnly: true });
  const scored = await talk.send('forward', forward.path, forward.body, forward.contentType);
  await talk.result('forward result', scored);
  const step = { model_id: model, adam_params: ADAM, seq_id: 3, type: 'optim_step' };
  const stepped = await talk.post('optim_step', 'optim_step', step);
  const twice = await talk.post('optim_step again', 'optim_step', step);
  talk.note('optim_step has one promise', stepped['request_id'] === twice['request_id']);
  await talk.result('optim_step result', stepped);
}

async function save(talk: Conversation, model: string): Promise<void> {
  const state = { model_id: model, path: 'state-1', seq_id: 4, type: 'save_weights' };
  await talk.operation('save_weights', 'save_weights', state);
  await talk.post('save_weights again', 'save_weights', state);
  const sampler = { model_id: model, path: 'policy-1', seq_id: 5, type: 'save_weights_for_sampler' };
  await talk.operation('save_weights_for_sampler', 'save_weights_for_sampler', sampler);
  const place = `training_runs/${model}/checkpoints`;
  await talk.get('checkpoints', place);
  await talk.get('archive', `${place}/policy-1/archive`);
  await talk.get('archive of nothing', `${place}/nothing/archive`);
}

class Conversation {
  readonly exchanges: Exchange[] = [];
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  get(name: string, path: string) {
    return this.send(name, path);
  }

  post(name: string, path: string, body: object) {
    return this.send(name, path, Buffer.from(JSON.stringify(body)));
  }

  note(name: string, body: unknown): void {
    this.exchanges.push({ name, status: 0, contentType: '', body });
  }

  /** Submits and waits for the result. */
  async operation(name: string, path: string, body: object) {
    return this.result(`${name} result`, await this.post(name, path, body));
  }

  result(name: string, submitted: Record<string, unknown>) {
    return this.post(name, 'retrieve_future', { request_id: submitted['request_id'] });
  }

  async send(name: string, path: string, body?: Buffer, contentType = 'application/json') {
    const reply = await request(this.#prefix + path, {
      method: body ? 'POST' : 'GET',
      headers: body ? { 'content-type': contentType } : {},
      body: body ?? null,
    });
    const bytes = Buffer.from(await reply.body.arrayBuffer());
    const type = String(reply.headers['content-type'] ?? '').split(';', 1)[0] ?? '';
    const isJson = type.includes('json');
    const value: unknown = isJson ? JSON.parse(bytes.toString('utf8')) : bytes.toString('base64');
    const { location } = reply.headers;
    this.exchanges.push({
      name,
      status: reply.statusCode,
      contentType: type,
      body: value,
      ...(location !== undefined && { location: String(location) }),
    });
    return isJson ? (value as Record<string, unknown>) : {};
  }
}
