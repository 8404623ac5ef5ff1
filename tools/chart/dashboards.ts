/** Whether every panel of a dashboard works anywhere: its data source, its unit, its queries. */
import { load } from './packages.ts';

interface Target {
  readonly expr: string;
}
interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly datasource?: { readonly uid: string };
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
  readonly targets?: readonly Target[];
}
export interface Dashboard {
  readonly uid?: string;
  readonly panels: readonly Panel[];
}

/** The grammar that Prometheus' own web page reads queries with. */
interface Grammar {
  readonly parser: {
    readonly parse: (query: string) => {
      readonly iterate: (visit: { enter: (node: { type: { isError: boolean } }) => void }) => void;
    };
  };
}

export type Parses = (query: string) => boolean;

export async function openGrammar(): Promise<Parses> {
  const { parser } = await load<Grammar>('@prometheus-io/lezer-promql');
  return (query) => {
    let isBroken = false;
    parser.parse(query.replaceAll('$__rate_interval', '5m')).iterate({
      enter: ({ type }) => {
        isBroken ||= type.isError;
      },
    });
    return !isBroken;
  };
}

export function dashboardProblems(
  { uid, panels }: Dashboard,
  parses: Parses,
  strangers: (query: string) => string[],
): string[] {
  const problems = panels
    .filter(({ type }) => type !== 'row')
    .flatMap((panel) =>
      panelProblems(panel, parses, strangers).map((problem) => `${panel.title}: ${problem}`),
    );
  if (!uid) problems.push('the dashboard has no uid: each update would be another one');
  if (new Set(panels.map(({ id }) => id)).size < panels.length) problems.push('two panels have the same id');
  return problems;
}

function panelProblems(panel: Panel, parses: Parses, strangers: (query: string) => string[]): string[] {
  const problems: string[] = [];
  if (panel.datasource?.uid !== '${datasource}') problems.push('its data source is not the variable');
  if (!panel.fieldConfig?.defaults.unit) problems.push('it has no unit');
  if (!panel.description) problems.push('it does not say what to read from it');
  if (!panel.targets?.length) problems.push('it asks for nothing');
  for (const { expr } of panel.targets ?? []) {
    if (!parses(expr)) problems.push(`this is no PromQL: ${expr}`);
    if (!expr.includes('namespace=~"$namespace"')) problems.push(`this looks into all namespaces: ${expr}`);
    problems.push(...strangers(expr).map((name) => `nothing is called ${name}: ${expr}`));
  }
  return problems;
}
