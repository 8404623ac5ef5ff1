/** helm/files/dashboards/consort.json: the one dashboard, drawn from a table of panels. */

interface Panel {
  readonly title: string;
  /** What to read from it. */
  readonly description: string;
  readonly unit: string;
  /** Query and legend; `$ns` picks the namespaces that are chosen. */
  readonly queries: readonly (readonly [query: string, legend: string])[];
  readonly max?: number;
}

const RATE = '[$__rate_interval]';
const p95 = (histogram: string, by: string) =>
  `histogram_quantile(0.95, sum by (${by}, le) (rate(${histogram}_bucket{$ns}${RATE})))`;
const perSecond = (counter: string, by: string) => `sum by (${by}) (rate(${counter}{$ns}${RATE}))`;

const ROWS: Readonly<Record<string, readonly Panel[]>> = {
  Requests: [
    {
      title: 'Requests',
      description: 'Requests that ran a plan, by how they ended.',
      unit: 'reqps',
      queries: [[perSecond('consort_requests_total', 'outcome'), '{{outcome}}']],
    },
    {
      title: 'Error ratio',
      description:
        'Failed and timed out, of all but those whose client left. The objective is 0.5 % in 30 days.',
      unit: 'percentunit',
      queries: [
        ['consort:request_error_ratio:rate5m{$ns}', '5 minutes, {{namespace}}'],
        ['consort:request_error_ratio:rate1h{$ns}', '1 hour, {{namespace}}'],
      ],
    },
    {
      title: 'Refused requests',
      description: 'Refused before a plan ran, by the code of the error.',
      unit: 'reqps',
      queries: [[perSecond('consort_requests_rejected_total', 'code'), '{{code}}']],
    },
    {
      title: 'Refused for load',
      description: 'Refused because the process had enough to do, and how late its event loop was.',
      unit: 'short',
      queries: [
        [perSecond('consort_requests_shed_total', 'reason'), '{{reason}}, a second'],
        ['max(consort_event_loop_delay_seconds{$ns})', 'latest loop, seconds'],
      ],
    },
    {
      title: 'Time to first token, p95',
      description: 'Until the first words for the client. A protocol that speaks last is slow by nature.',
      unit: 's',
      queries: [[p95('consort_request_time_to_first_token_seconds', 'protocol'), '{{protocol}}']],
    },
    {
      title: 'Duration, p95',
      description: 'From the plan to the last part.',
      unit: 's',
      queries: [[p95('consort_request_duration_seconds', 'protocol'), '{{protocol}}']],
    },
    {
      title: 'Running now',
      description: 'What a pod that ends would have to wait for.',
      unit: 'short',
      queries: [
        ['sum(consort_requests_in_flight{$ns})', 'plans'],
        ['sum(consort_streams_active{$ns})', 'streams'],
        ['sum(consort_draining{$ns})', 'draining pods'],
      ],
    },
  ],
  Models: [
    {
      title: 'Calls',
      description:
        'Calls to models, by how they ended. Cancelled: a protocol had enough, or the client left.',
      unit: 'reqps',
      queries: [[perSecond('consort_model_calls_total', 'model, outcome'), '{{model}} {{outcome}}']],
    },
    {
      title: 'Failing calls',
      description: 'Failed and timed out, retries included.',
      unit: 'percentunit',
      queries: [['consort:model_call_error_ratio:rate10m{$ns}', '{{model}}']],
    },
    {
      title: 'Retries',
      description: 'Attempts made again, by reason.',
      unit: 'reqps',
      queries: [[perSecond('consort_retries_total', 'model, reason'), '{{model}} {{reason}}']],
    },
    {
      title: 'Left alone',
      description:
        'Endpoints that are not asked, because they failed, are over their limits or have no credit.',
      unit: 'short',
      queries: [
        [
          'sum by (model, endpoint) (consort_circuit_state{$ns, state="open"})',
          '{{model}} at {{endpoint}}, pods',
        ],
      ],
    },
    {
      title: 'Call duration, p95',
      description: 'One call, retries included.',
      unit: 's',
      queries: [[p95('consort_model_call_duration_seconds', 'model'), '{{model}}']],
    },
    {
      title: 'Calls a request',
      description: 'What a team multiplies. Calls shared between coalitions are counted apart.',
      unit: 'short',
      queries: [
        [
          `sum(rate(consort_model_calls_total{$ns}${RATE})) / sum(rate(consort_requests_total{$ns}${RATE}))`,
          'calls',
        ],
        [
          `sum(rate(consort_model_calls_reused_total{$ns}${RATE})) / sum(rate(consort_requests_total{$ns}${RATE}))`,
          'reused',
        ],
        [
          `sum(rate(consort_coalition_size_sum{$ns}${RATE})) / sum(rate(consort_coalition_size_count{$ns}${RATE}))`,
          'members',
        ],
      ],
    },
    {
      title: 'Cost an hour',
      description: 'By the configured prices, failed calls included.',
      unit: 'currencyUSD',
      queries: [
        [`sum by (model) (rate(consort_cost_usd_total{$ns}${RATE})) * 3600`, '{{model}}'],
        ['consort:cost_usd:rate1h{$ns} offset 1w', 'all, a week ago'],
      ],
    },
    {
      title: 'Tokens',
      description: 'Tokens of all calls a second.',
      unit: 'short',
      queries: [[perSecond('consort_tokens_total', 'model, direction'), '{{model}} {{direction}}']],
    },
  ],
  Teams: [
    {
      title: 'Compositional strength',
      description: 'Mean reward of the whole team, with the interval that holds at all times at once.',
      unit: 'percentunit',
      max: 1,
      queries: [
        ['consort:compositional_strength:current{$ns}', '{{system}} {{task}} {{source}}'],
        ['consort:compositional_strength_ci_lower:current{$ns}', '{{system}} {{task}} {{source}} lower'],
        ['consort:compositional_strength_ci_upper:current{$ns}', '{{system}} {{task}} {{source}} upper'],
      ],
    },
    {
      title: 'Contribution of members',
      description: 'What the team loses without the member. Below zero with its whole interval: it hurts.',
      unit: 'percentunit',
      queries: [
        ['consort:member_contribution:current{$ns}', '{{system}} {{task}} {{member}}'],
        ['consort:member_contribution_ci_lower:current{$ns}', '{{system}} {{task}} {{member}} lower'],
        ['consort:member_contribution_ci_upper:current{$ns}', '{{system}} {{task}} {{member}} upper'],
      ],
    },
    {
      title: 'Shapley value less an equal share',
      description: 'Who does more than their part, and who less.',
      unit: 'percentunit',
      queries: [
        [
          'max by (system, task, source, member) (consort_member_shapley_centred{$ns})',
          '{{system}} {{task}} {{member}}',
        ],
      ],
    },
    {
      title: 'Prompts behind the numbers',
      description: 'The value of a system rests on so many prompts.',
      unit: 'short',
      queries: [
        ['max by (system, task, source) (consort_estimate_samples{$ns})', '{{system}} {{task}} {{source}}'],
      ],
    },
    {
      title: 'Estimates held back',
      description: 'Estimates of too few prompts to be shown here.',
      unit: 'short',
      queries: [['max by (system) (consort_estimate_held_back{$ns})', '{{system}}']],
    },
    {
      title: 'Feedback',
      description: 'Rewards that clients sent; unknown ones name no outcome.',
      unit: 'reqps',
      queries: [[perSecond('consort_feedback_total', 'result'), '{{result}}']],
    },
  ],
  Ledger: [
    {
      title: 'Waiting in the spool',
      description: 'Outcomes that Redis does not have yet. More than a moment: Redis is away.',
      unit: 'short',
      queries: [['sum by (pod) (consort_ledger_spool_entries{$ns})', '{{pod}}']],
    },
    {
      title: 'Spool on disk',
      description: 'Against gateway.spoolMaxMiB; beyond it outcomes are dropped.',
      unit: 'bytes',
      queries: [['sum by (pod) (consort_ledger_spool_bytes{$ns})', '{{pod}}']],
    },
    {
      title: 'Outcomes lost',
      description: 'Since the pods started, by reason.',
      unit: 'short',
      queries: [['sum by (reason) (consort_ledger_dropped_total{$ns})', '{{reason}}']],
    },
    {
      title: 'Age of the oldest unread entry',
      description: 'How far the scorer is behind.',
      unit: 's',
      queries: [['consort:ledger_oldest_unread_age_seconds:max{$ns}', '{{pool}}']],
    },
    {
      title: 'Entries in hand',
      description: 'Given to a scorer and not finished.',
      unit: 'short',
      queries: [['max by (pool) (consort_ledger_pending_entries{$ns})', '{{pool}}']],
    },
    {
      title: 'Entries handled',
      description: 'By result. Buried: set aside unscored.',
      unit: 'ops',
      queries: [[perSecond('consort_scorer_entries_total', 'result'), '{{result}}']],
    },
  ],
  Learner: [
    {
      title: 'Reward of a batch',
      description:
        'Mean reward of the rollouts of the last batch, by what was rewarded. It moves from batch to batch.',
      unit: 'percentunit',
      max: 1,
      queries: [['max by (policy, objective) (consort_policy_reward{$ns})', '{{policy}} {{objective}}']],
    },
    {
      title: 'Groups',
      description: 'Rollout groups by what became of them. Rewarded alike: too easy, or too hard.',
      unit: 'ops',
      queries: [[perSecond('consort_policy_groups_total', 'policy, result'), '{{policy}} {{result}}']],
    },
    {
      title: 'Gap to the trainer',
      description: 'Nats a token between trainer and fleet on fresh tokens: near 0, or something is wrong.',
      unit: 'short',
      queries: [['max by (policy) (consort_policy_trainer_gap_nats{$ns})', '{{policy}}']],
    },
    {
      title: 'Steps',
      description: 'Optimiser steps of each policy. Flat between two rounds.',
      unit: 'short',
      queries: [['max by (policy) (consort_policy_step{$ns})', '{{policy}}']],
    },
    {
      title: 'Time of a batch, p95',
      description: 'Rolling the system out, and training.',
      unit: 's',
      queries: [[p95('consort_policy_batch_seconds', 'policy, phase'), '{{policy}} {{phase}}']],
    },
    {
      title: 'Releases',
      description: 'Versions that were taken to a stage in the last day.',
      unit: 'short',
      queries: [
        [
          'sum by (policy, stage) (increase(consort_policy_release_moves_total{$ns}[1d]))',
          '{{policy}} {{stage}}',
        ],
      ],
    },
  ],
  Processes: [
    {
      title: 'Lag of the event loop, p99',
      description: 'Every stream of the pod waits as long.',
      unit: 's',
      queries: [
        [
          'max by (pod) (nodejs_eventloop_lag_p99_seconds{$ns} and on (namespace, pod) consort_build_info)',
          '{{pod}}',
        ],
      ],
    },
    {
      title: 'Memory',
      description: 'Resident memory of the gateways, against the limit of the container.',
      unit: 'bytes',
      queries: [
        [
          'max by (pod) (process_resident_memory_bytes{$ns} and on (namespace, pod) consort_build_info)',
          '{{pod}}',
        ],
      ],
    },
    {
      title: 'Versions',
      description: 'Gateways by version: two lines are a rollout.',
      unit: 'short',
      queries: [['count by (version, node) (consort_build_info{$ns})', '{{version}} on Node {{node}}']],
    },
  ],
};

const DATASOURCE = { type: 'prometheus', uid: '${datasource}' };
const COLUMNS = 3;
const WIDTH = 24 / COLUMNS;
const HEIGHT = 8;

function timeSeries(panel: Panel, id: number, x: number, y: number) {
  const interval = { id: 'byRegexp', options: '/ (lower|upper)$/' };
  const thin = { id: 'custom.lineStyle', value: { fill: 'dash', dash: [4, 6] } };
  return {
    id,
    type: 'timeseries',
    title: panel.title,
    description: panel.description,
    datasource: DATASOURCE,
    gridPos: { x, y, w: WIDTH, h: HEIGHT },
    fieldConfig: {
      defaults: { unit: panel.unit, ...(panel.max !== undefined && { min: 0, max: panel.max }) },
      overrides: [{ matcher: interval, properties: [thin] }],
    },
    options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi' } },
    targets: panel.queries.map(([query, legendFormat], index) => ({
      refId: String.fromCodePoint(65 + index),
      datasource: DATASOURCE,
      expr: query.replaceAll('$ns', 'namespace=~"$namespace"'),
      legendFormat,
    })),
  };
}

function panels(): unknown[] {
  const drawn: unknown[] = [];
  let y = 0;
  for (const [title, row] of Object.entries(ROWS)) {
    drawn.push({
      id: drawn.length + 1,
      type: 'row',
      title,
      collapsed: false,
      gridPos: { x: 0, y, w: 24, h: 1 },
      panels: [],
    });
    y += 1;
    for (const [index, panel] of row.entries()) {
      const line = Math.floor(index / COLUMNS);
      drawn.push(timeSeries(panel, drawn.length + 1, (index % COLUMNS) * WIDTH, y + line * HEIGHT));
    }
    y += Math.ceil(row.length / COLUMNS) * HEIGHT;
  }
  return drawn;
}

export function dashboard(): unknown {
  const everything = {
    includeAll: true,
    multi: true,
    allValue: '.*',
    current: { text: 'All', value: '$__all' },
  };
  const query = 'label_values(consort_build_info, namespace)';
  return {
    uid: 'consort',
    title: 'Consort',
    description: 'Requests, models, teams and the ledger of the gateways of a namespace.',
    tags: ['consort'],
    schemaVersion: 39,
    editable: false,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus' },
        {
          name: 'namespace',
          label: 'Namespace',
          type: 'query',
          datasource: DATASOURCE,
          query,
          refresh: 2,
          ...everything,
        },
      ],
    },
    panels: panels(),
  };
}
