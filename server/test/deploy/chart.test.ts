import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { SETTINGS } from '../../src/config.ts';

// The chart, rendered by a few lines that know the expressions it uses. If Helm is installed, it renders the
// same.

const CHART = fileURLToPath(new URL('../../../deploy/helm/belfry/', import.meta.url));
const read = (name: string) => readFileSync(`${CHART}${name}`, 'utf8');

// biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects, and fails if it is missing
type Yaml = any;

const values: Yaml = parse(read('values.yaml'));
const scope = { Values: values, Chart: chartMetadata(), Release: { Name: 'shop' } };

function chartMetadata(): { AppVersion: string } {
  const { appVersion } = parse(read('Chart.yaml'));
  return { AppVersion: appVersion };
}

/** Renders all templates with these values, and parses the objects. */
function objects(changes: Record<string, unknown> = {}): Yaml[] {
  const data = { ...scope, Values: { ...values, ...changes } };
  return readdirSync(`${CHART}templates`).flatMap((name) =>
    parseAllDocuments(render(read(`templates/${name}`), data))
      .map((document) => {
        expect(document.errors, name).toEqual([]);
        return document.toJS();
      })
      .filter((object) => object !== null),
  );
}

/** Renders `if`, `range`, values, `default`, `quote`, and `toYaml … | nindent`, as Helm does. */
function render(template: string, root: object): string {
  const parts = template.replaceAll(/\s*\{\{-/g, '{{').split(/(\{\{.*?\}\})/);
  const variables: Record<string, Yaml> = { $: root };
  let at = 0;
  const block = (isShown: boolean): string => {
    let out = '';
    while (at < parts.length) {
      const part = parts[at++] ?? '';
      const code = /^\{\{\s*(.*?)\s*\}\}$/.exec(part)?.[1];
      if (code === undefined) out += part;
      else if (code === 'end') break;
      else if (code.startsWith('if ')) {
        const inner = block(isShown && Boolean(evaluated(code.slice(3), variables)));
        if (isShown && evaluated(code.slice(3), variables)) out += inner;
      } else if (code.startsWith('range ')) {
        const [, key = '', item = '', list = ''] = /^range (\$\w+), (\$\w+) := (.*)$/.exec(code) ?? [];
        const start = at;
        const entries = isShown ? Object.entries(evaluated(list, variables)).sort() : [];
        if (entries.length === 0) block(false);
        for (const [name, value] of entries) {
          at = start;
          Object.assign(variables, { [key]: name, [item]: value });
          out += block(isShown);
        }
      } else if (isShown) out += evaluated(code, variables);
    }
    return out;
  };
  return block(true);
}

function evaluated(code: string, variables: Record<string, Yaml>): Yaml {
  const [first = '', ...filters] = code.split(' | ');
  const path = first.replace(/^toYaml /, '');
  const [, name = '', members = ''] = /^(\$\w*)((?:\.\w+)*)$/.exec(path) ?? [];
  if (!(name in variables)) throw new Error(`the test cannot render ${code}`);
  let value: Yaml = variables[name];
  for (const member of members.split('.').filter(Boolean)) value = value?.[member];
  if (first.startsWith('toYaml ')) value = stringify(value).trimEnd();
  for (const filter of filters) {
    const [filterName = '', argument = ''] = filter.split(' ');
    if (filterName === 'quote') value = JSON.stringify(String(value));
    else if (filterName === 'default') value = value || evaluated(argument, variables);
    else if (filterName === 'nindent')
      value = `\n${value}`.replaceAll('\n', `\n${' '.repeat(Number(argument))}`);
    else throw new Error(`the test cannot render ${code}`);
  }
  return value;
}

const of = (kind: string, all: Yaml[] = objects()) => all.filter((object) => object.kind === kind);
const podsOf = (all: Yaml[]) =>
  [...of('Deployment', all), ...of('Job', all)].map(({ spec }: Yaml) => spec.template.spec);

test('the chart has a deployment, a budget and an autoscaler for each pool', () => {
  const names = ['shop-web', 'shop-worker'];
  for (const kind of ['Deployment', 'PodDisruptionBudget', 'HorizontalPodAutoscaler'])
    expect(of(kind).map(({ metadata }) => metadata.name)).toEqual(names);
  expect(of('Deployment').map(({ spec }) => spec.template.spec.containers[0].args)).toEqual([
    ['start', '--role', 'api,realtime'],
    ['start', '--role', 'worker'],
  ]);
});

test('the workers scale by the age of the queue, and nothing else sets replicas', () => {
  const [web, worker] = of('HorizontalPodAutoscaler').map(({ spec }) => spec);
  expect(web.metrics).toEqual([
    { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 60 } } },
  ]);
  expect(worker.metrics).toEqual([
    {
      type: 'External',
      external: {
        metric: { name: 'belfry_queue_oldest_ready_seconds' },
        target: { type: 'Value', value: '10' },
      },
    },
  ]);
  expect(of('Deployment').map(({ spec }) => spec.replicas)).toEqual([undefined, undefined]);
});

test('the service selects the pods of the pools that serve requests', () => {
  const [service] = of('Service');
  const selected = of('Deployment').filter(({ spec }) =>
    Object.entries(service.spec.selector).every(
      ([label, value]) => spec.template.metadata.labels[label] === value,
    ),
  );
  expect(selected.map(({ metadata }) => metadata.name)).toEqual(['shop-web']);
});

test('the ingress forwards all requests except those for metrics and readiness', () => {
  const all = objects();
  const { paths } = of('Ingress', all)[0].spec.rules[0].http;
  const serviceFor = (requested: string) => {
    const exact = paths.find(({ path, pathType }: Yaml) => pathType === 'Exact' && path === requested);
    const { backend } =
      exact ?? paths.find(({ path, pathType }: Yaml) => pathType === 'Prefix' && path === '/');
    return of('Service', all).find(({ metadata }) => metadata.name === backend.service.name);
  };
  for (const path of ['/metrics', '/metrics/', '/readyz', '/readyz/'])
    expect(serviceFor(path).spec.selector, path).toBe(undefined);
  for (const path of ['/', '/v2/broadcasts', '/metrics/topics', '/healthz'])
    expect(serviceFor(path).metadata.name, path).toBe('shop');
});

describe('every pod', () => {
  test('has no privileges and a read-only file system, and mounts what it names', () => {
    for (const pod of podsOf(objects())) {
      expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 10001 });
      expect(pod.automountServiceAccountToken).toBe(false);
      const [container] = pod.containers;
      expect(container.securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
      const volumes = pod.volumes.map(({ name }: Yaml) => name);
      expect(container.volumeMounts.map(({ name }: Yaml) => name)).toEqual(volumes);
      expect(container.image).toBe(`belfry:${scope.Chart.AppVersion}`);
    }
  });

  test('has its secrets from existing ones, and only settings that exist', () => {
    for (const { containers } of podsOf(objects())) {
      const { env } = containers[0];
      expect(env.slice(0, 2)).toEqual([
        { name: 'DATABASE_URL', valueFrom: { secretKeyRef: { name: 'belfry-db-app', key: 'uri' } } },
        { name: 'SECRET_KEY', valueFrom: { secretKeyRef: { name: 'belfry', key: 'SECRET_KEY' } } },
      ]);
      const unknown = env.filter(({ name }: Yaml) => !(name in SETTINGS));
      expect(unknown).toEqual([]);
    }
  });
});

test('the nodes get NATS_URL from a secret, if one is named', () => {
  const reference = { name: 'NATS_URL', valueFrom: { secretKeyRef: { name: 'bus', key: 'url' } } };
  const natsOf = (all: Yaml[]) =>
    of('Deployment', all).map(({ spec }) =>
      spec.template.spec.containers[0].env.find(({ name }: Yaml) => name === 'NATS_URL'),
    );
  expect(natsOf(objects({ nats: { secret: 'bus', key: 'url' } }))).toEqual([reference, reference]);
  expect(natsOf(objects())).toEqual([undefined, undefined]);
});

test('the nodes and the migration get a URL around the pooler, if its key is named', () => {
  const direct = (all: Yaml[]) =>
    [...of('Deployment', all), ...of('Job', all)].map(({ spec }) =>
      spec.template.spec.containers[0].env.find(({ name }: Yaml) => name === 'DATABASE_DIRECT_URL'),
    );
  const secretKeyRef = { name: 'belfry-db-app', key: 'direct' };
  const reference = { name: 'DATABASE_DIRECT_URL', valueFrom: { secretKeyRef } };
  const pooled = objects({ database: { ...values.database, directKey: 'direct' } });
  expect(direct(pooled)).toEqual([reference, reference, reference]);
  expect(direct(objects())).toEqual([undefined, undefined, undefined]);
});

test('the migration has the settings of the nodes', () => {
  const settings = { LOG_LEVEL: 'warn' };
  const [job] = of('Job', objects({ settings }));
  const { env } = job.spec.template.spec.containers[0];
  expect(env).toContainEqual({ name: 'LOG_LEVEL', value: 'warn' });
});

test('the migration is a hook before a new release starts, and both it and the ingress are optional', () => {
  expect(of('Job')[0].metadata.annotations['helm.sh/hook']).toBe('pre-install,pre-upgrade');
  const without = objects({ migrate: false, ingress: { ...values.ingress, enabled: false } });
  expect([...of('Job', without), ...of('Ingress', without)]).toEqual([]);
});

test('the chart has the release of the program', () => {
  const { version } = JSON.parse(readFileSync(`${CHART}../../../package.json`, 'utf8'));
  expect(parse(read('Chart.yaml'))).toMatchObject({ version, appVersion: version });
});

const helm = (args: string[], input = '') => spawnSync('helm', args, { encoding: 'utf8', input });

describe.skipIf(helm(['version']).status !== 0)('Helm', () => {
  test.each([
    ['by default', {}],
    ['with NATS', { nats: { secret: 'bus', key: 'url' } }],
    ['with a pooler', { database: { ...values.database, directKey: 'direct' } }],
    ['without migration and ingress', { migrate: false, ingress: { ...values.ingress, enabled: false } }],
    [
      'with an image',
      { image: { repository: 'registry.example.com/belfry', tag: '1', pullPolicy: 'Always' } },
    ],
  ])('renders the same objects %s', (_, changes) => {
    const args = ['template', 'shop', CHART, '--kube-version', '1.32.0', '--values', '-'];
    const { status, stdout, stderr } = helm(args, stringify(changes));
    expect([status, stderr]).toEqual([0, '']);
    const rendered = parseAllDocuments(stdout)
      .map((document) => document.toJS())
      .filter((object) => object !== null);
    expect(sorted(rendered)).toEqual(sorted(objects(changes)));
  });

  test('finds no fault in the chart', () => {
    const { status, stdout } = helm(['lint', '--strict', CHART]);
    expect(status, stdout).toBe(0);
  });

  test('refuses a Kubernetes that is too old', () => {
    const { status, stderr } = helm(['template', 'shop', CHART, '--kube-version', '1.29.9']);
    expect(status).not.toBe(0);
    expect(stderr).toContain('kubeVersion');
  });
});

/** Helm sorts objects by kind, in the order in which they are installed. */
function sorted(all: Yaml[]): Yaml[] {
  const key = ({ kind, metadata }: Yaml) => `${kind} ${metadata.name}`;
  return all.toSorted((a, b) => key(a).localeCompare(key(b)));
}
