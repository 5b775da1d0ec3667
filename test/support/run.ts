import { exec } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { styleText } from 'node:util'
import { startVitest, type TestModule } from 'vitest/node'
import { answerHelp } from '../../lib/commands/command.ts'

/**
 * `npm test`: formatter, linter and type checkers, then every test. `npm test -- <part of a file's name>` runs the tests of these files
 * only. Tests run the service as test/support/stack.ts says: as lib/serve does, or with `RUN_ON=workers` in workerd. `npm run check` leaves
 * out every test that starts more than a database. The last line is `N passed, N failed`, where a check counts as one.
 */
answerHelp(`npm test               checks everything, on a database of its own
npm test -- NAME       the test files whose names hold that
npm run test:workers   the same with functions in workerd also where a test leaves open how they run
npm run check          what needs no stack: formatter, linter, types and the quick tests`)
const { RUN_ON: runOn = 'serve' } = process.env
if (runOn !== 'serve' && runOn !== 'workers') throw new Error('Set RUN_ON to serve or to workers, or leave it out.')
const isCheck = process.argv.includes('--check')
const filters = process.argv.slice(2).filter((argument) => argument !== '--check')

interface Check {
  name: string
  command: string
}

/** First and always, because tests run what it builds; it fails where a size is over its limit. */
const build: Check = { name: 'build and sizes of the tracker', command: 'npm run -s build -w tracker' }
/** One checker, because several each work out anew what they share: it takes half the CPU time. */
const checks: Check[] = [
  { name: 'formatter', command: 'oxfmt --check' },
  { name: 'linter', command: 'oxlint' },
  { name: 'types', command: 'tsc --noEmit --checkers 1' },
  { name: 'types of the tracker', command: 'tsc --noEmit -p tracker' },
]

let passed = 0
let failed = 0

/**
 * The linter and the compiler are written in Go and over soon: they collect no garbage before they hold 2 GiB. The linter has a type checker
 * for each processor it sees, and each checks anew what they share: with one it takes three fifths of the CPU time.
 */
const environment = { ...process.env, GOGC: 'off', GOMEMLIMIT: '2GiB', GOMAXPROCS: '1' }

async function check({ name, command }: Check, priority = constants.priority.PRIORITY_NORMAL): Promise<void> {
  const started = Date.now()
  const { isOk, output } = await new Promise<{ isOk: boolean; output: string }>((resolve) => {
    const { pid } = exec(command, { env: environment }, (error, stdout, stderr) =>
      resolve({ isOk: error === null, output: stdout + stderr }),
    )
    if (pid !== undefined) setPriority(pid, priority)
  })
  const seconds = ((Date.now() - started) / 1000).toFixed(1)
  if (isOk) {
    passed += 1
    console.log(`${styleText('green', '✓')} ${name} ${styleText('dim', `${seconds} s`)}`)
  } else {
    failed += 1
    console.log(`${styleText('red', '✗')} ${name}: ${command}\n${output}`)
  }
}

/** The test files that start nothing but a database: no function, endpoint, queue, browser or command. */
function testsWithoutStack(): string[] {
  return readdirSync('test', { encoding: 'utf8' })
    .filter((name) => /\.test\.tsx?$/.test(name))
    .map((name) => `test/${name}`)
    .filter((file) => !/\b(start[A-Z]\w*|launchBrowser|spawn|execFile)\(/.test(readFileSync(file, 'utf8')))
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

/**
 * Beside the tests, which leave the processor alone where they wait for a browser, a process or a queue. One after the other, for the
 * memory that the linter and the compiler take.
 */
async function runChecks(): Promise<void> {
  for (const one of checks) await check(one, constants.priority.PRIORITY_LOW)
}

await check(build)
const checked = filters.length === 0 ? runChecks() : undefined

const vitest = await startVitest('test', isCheck ? testsWithoutStack() : filters, {
  config: 'test/vitest.config.ts',
  watch: false,
  reporters: ['default', counter],
  provide: { withFunctions: !isCheck },
})
await checked
await vitest.close()
console.log(`${passed} passed, ${failed} failed`)
process.exit(failed === 0 ? 0 : 1)
