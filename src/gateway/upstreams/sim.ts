/**
 * sim: the simulated pool, in-process and deterministic. With `delays` it takes the time a model would take, with
 * `failures` it fails as models do. SIMULATED: every plan, outcome and estimate made with it says so.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Answer, Exchange } from '../../contract/call.ts';
import { textOf } from '../../contract/chat.ts';
import type { ModelConfig } from '../../contract/config.ts';
import { ConsortError } from '../../contract/errors.ts';
import { chooseLabel, think } from './sim/mind.ts';
import { SIM_MODELS, type SimModel } from './sim/pool.ts';
import { accident, brief, speech, type Speech } from './sim/voice.ts';
import type { Dialect, Upstream } from './upstream.ts';

function open(config: ModelConfig): Upstream {
  const name = config.model ?? config.id.replace(/^sim-/, '');
  const model = SIM_MODELS.find((candidate) => candidate.name === name);
  if (!model) {
    const known = SIM_MODELS.map((candidate) => candidate.name).join(', ');
    throw new ConsortError('config_invalid', [
      `models.${config.id}.model`,
      `there is no simulated model ${name}`,
      `Use one of: ${known}.`,
    ]);
  }
  return { send: (exchange) => answer(config, model, exchange), close: () => Promise.resolve() };
}

async function answer(config: ModelConfig, model: SimModel, exchange: Exchange): Promise<Answer> {
  const { call, signal, note } = exchange;
  const prompt = call.messages.map(textOf).join('\n');
  const key = [model.name, prompt, call.sample, note.attempts];
  const mishap = config.failures ? accident(config.id, model, key) : undefined;
  if (mishap instanceof ConsortError) throw mishap;
  if (mishap === 'hang') {
    const { firstPartMs } = config.timeouts;
    await wait(firstPartMs, signal);
    throw new ConsortError('upstream_timeout', [config.id, firstPartMs, 'first part']);
  }
  const said = call.choose
    ? brief(chooseLabel(model, call.messages, call.sample, call.choose.labels), model, key)
    : speech(model, think(model, call.messages, call.sample), key, !config.delays);
  const spoken = mishap === undefined ? said : { ...said, text: mishap.say, words: [mishap.say] };
  await say(spoken, config, exchange);
  return {
    message: { text: spoken.text },
    finishReason: 'stop',
    usage: { inputTokens: Math.ceil(prompt.length / 4), outputTokens: said.outputTokens },
    from: [config.id],
  };
}

async function say(
  said: Speech,
  config: ModelConfig,
  { call, emit, signal, stream }: Exchange,
): Promise<void> {
  const at = { slot: call.slot, choice: 0 };
  if (config.delays) await wait(said.firstTokenMs, signal);
  else signal.throwIfAborted();
  if (stream && config.delays) {
    for (const word of said.words) {
      await emit({ type: 'text-delta', ...at, text: word });
      await wait(said.gapMs, signal);
    }
  } else {
    if (config.delays) await wait(said.gapMs * said.words.length, signal);
    await emit({ type: 'text-delta', ...at, text: said.text });
  }
  await emit({ type: 'finish', ...at, reason: 'stop' });
}

async function wait(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => {
    throw signal.reason;
  });
}

export const sim: Dialect = { provider: 'sim', simulated: true, open };
