import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import t from 'tap';

/** What cannot be built in a test can be read: the promises of the Dockerfile, and that its sources exist. */
const REPOSITORY = resolve(import.meta.dirname, '../..');
const read = (file: string) => readFileSync(resolve(REPOSITORY, file), 'utf8');
const dockerfile = read('Dockerfile');
const instructions = dockerfile
  .replaceAll('\\\n', ' ')
  .split('\n')
  .filter((line) => /^[A-Z]/.test(line));
const last = instructions.slice(instructions.findLastIndex((line) => line.startsWith('FROM ')));

t.test('the base is a full version of Node, the one that the repository pins', (t) => {
  const { devDependencies } = JSON.parse(read('package.json'));
  const bases = instructions.flatMap((line) => /^FROM (\S*:\S*)/.exec(line)?.[1] ?? []);
  t.same([...new Set(bases)], [`node:${devDependencies.node}-bookworm-slim`]);
  t.end();
});

t.test('the image runs as a user with a number, and hears SIGTERM without a shell', (t) => {
  t.ok(last.includes('USER 65532:65532'));
  t.ok(last.includes('STOPSIGNAL SIGTERM'));
  t.ok(last.includes('ENTRYPOINT ["node", "/app/dist/main.js"]'));
  t.ok(last.includes('CMD ["serve", "--config", "/etc/consort/consort.yaml"]'));
  t.end();
});

t.test('no secret and no development tool gets in', (t) => {
  t.notMatch(dockerfile, /(?:_KEY|TOKEN|PASSWORD|SECRET)\s*=|--build-arg|^ARG /m);
  t.notOk(
    last.some((line) => /^(?:ADD|COPY \.)/.test(line)),
    'nothing is copied whole',
  );
  const ignored = read('.dockerignore').split('\n');
  t.equal(
    ignored.find((line) => !line.startsWith('#')),
    '*',
    'the context is empty but for what is named',
  );
  const named = ignored.flatMap((line) => (line.startsWith('!') ? [line.slice(1)] : []));
  const copied = instructions
    .flatMap((line) => /^COPY (?!--from)(.+) \S+$/.exec(line)?.[1]?.split(' ') ?? [])
    .map((path) => path.replace('./', ''));
  t.same([...new Set(copied)].toSorted(), named.toSorted(), 'and what is named is what is copied');
  t.end();
});
