import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { styleText } from 'node:util'
import { startVitest, type TestModule } from 'vitest/node'

/**
 * `npm test`: formatter, linter and type checker, then every test. `npm test -- <part of a file's name>` runs the tests of
 * these files only. The last line is `N passed, N failed`, where a check counts as one.
 */
const filters = process.argv.slice(2)

const checks = [
  // First and always, because tests run what it builds; it fails where a size is over its limit.
  ['build and sizes of the tracker', 'npm run -s build -w tracker'],
  ['formatter', 'prettier --check .'],
  ['linter', 'oxlint'],
  ['types', 'tsc --noEmit'],
  ...(existsSync('tracker/tsconfig.json') ? [['types of the tracker', 'tsc --noEmit -p tracker']] : []),
  ['bundles', 'node lib/commands/deploy.ts --dry-run'],
] as const

let passed = 0
let failed = 0

for (const [name, command] of filters.length === 0 ? checks : checks.slice(0, 1)) {
  const started = Date.now()
  const { status, stdout, stderr } = spawnSync(command, { shell: true, encoding: 'utf8' })
  const seconds = ((Date.now() - started) / 1000).toFixed(1)
  if (status === 0) {
    passed += 1
    console.log(`${styleText('green', '✓')} ${name} ${styleText('dim', `${seconds} s`)}`)
  } else {
    failed += 1
    console.log(`${styleText('red', '✗')} ${name}: ${command}\n${stdout}${stderr}`)
  }
}

const counter = {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]) {
    for (const module of modules) {
      // A file that could not be read or set up has no failed test of its own.
      failed += module.errors().length
      for (const suite of module.children.allSuites()) failed += suite.errors().length
      for (const test of module.children.allTests()) {
        if (test.result().state === 'passed') passed += 1
        else failed += 1
      }
    }
    failed += unhandledErrors.length + (modules.length === 0 ? 1 : 0)
  },
}

const vitest = await startVitest('test', filters, {
  config: 'test/vitest.config.ts',
  watch: false,
  reporters: ['default', counter],
})
await vitest.close()
console.log(`${passed} passed, ${failed} failed`)
process.exit(failed === 0 ? 0 : 1)
