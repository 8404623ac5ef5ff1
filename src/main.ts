// Plain syntax and no imports before the check: an old Node must reach the message.
const major = Number(process.versions.node.split('.')[0]);
if (major < 24) {
  process.stderr.write(
    'consort needs Node 24 or later, and this is Node ' +
      process.versions.node +
      '.\nIn a checkout, `npm ci` brings the right one and `npm start` uses it.\n',
  );
  process.exit(1);
}
const { main } = await import('./cli/index.ts');
process.exitCode = await main(process.argv.slice(2), process.env);
