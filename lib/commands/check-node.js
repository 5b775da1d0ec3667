// Plain JavaScript, which also runs where the service doesn't: `node --import ./lib/commands/check-node.js`.
if (!process.features.typescript) {
  console.error(
    `Node ${process.versions.node} at ${process.execPath} cannot run TypeScript. Some distributions, such as Debian, build it without that. ` +
      'Install Node 24 from nodejs.org or NodeSource.',
  )
  process.exit(1)
}
