import { exec } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { styleText } from 'node:util'
import { startVitest, type TestModule } from 'vitest/node'
import { answerHelp } from '../../lib/commands/command.ts'

/**
 * `npm test`: runs the formatter, linter and type checkers, then every test. `npm test -- <part of a file's name>` runs only the tests of
 * matching files. Tests run the service as test/support/stack.ts describes: as lib/serve does, or in workerd with `RUN_ON=workers`. `npm
 * run check` skips all tests that start more than a database. The last line is `N passed, N failed`. A check counts as one.
 */
answerHelp(`npm test               checks everything, on a database of its own
npm test -- NAME       the test files whose names hold that
npm run test:workers   the same with functions in workerd also where a test leaves open how they run
npm run check          what doesn't need a stack: formatter, linter, types and the quick tests`)
const { RUN_ON: runOn = 'serve' } = process.env
if (runOn !== 'serve' && runOn !== 'workers') throw new Error('Set RUN_ON to serve or to workers, or leave it out.')
const isCheck = process.argv.includes('--check')
const filters = process.argv.slice(2).filter((argument) => argument !== '--check')

interface Check {
  name: string
  command: string
}

/** This check always runs first, because tests run its output. It fails if a file exceeds its size limit. */
const build: Check = { name: 'build and sizes of the tracker', command: 'npm run -s build -w tracker' }
/** There is only one checker, because several checkers repeat shared work and take twice the CPU time. */
const checks: Check[] = [
  { name: 'formatter', command: 'oxfmt --check' },
  { name: 'prose', command: 'node test/prose/run.ts' },
  { name: 'linter', command: 'oxlint' },
  { name: 'types', command: 'tsc --noEmit --checkers 1' },
  { name: 'types of the tracker', command: 'tsc --noEmit -p tracker' },
]

let passed = 0
let failed = 0

/**
 * The linter and the compiler are short-lived Go programs, so they don't collect garbage below 3 GiB. The linter starts a type checker
 * per CPU, and all of them repeat shared work. A single checker takes three fifths of the CPU time.
 */
const environment = { ...process.env, GOGC: 'off', GOMEMLIMIT: '3GiB', GOMAXPROCS: '1' }

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

/** The test files that start only a database: no function, endpoint, queue, browser or command. */
function testsWithoutStack(): string[] {
  return readdirSync('test', { encoding: 'utf8' })
    .filter((name) => /\.test\.tsx?$/.test(name))
    .map((name) => `test/${name}`)
    .filter((file) => !/\b(start[A-Z]\w*|launchBrowser|spawn|execFile)\(/.test(readFileSync(file, 'utf8')))
}

const counter = {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]) {
    for (const module of modules) {
      // Counts files that failed to load, because they have no failed tests.
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
 * Runs during the tests, which leave the CPU idle while they wait for a browser, a process or a queue. Runs one check
 * at a time, because the linter and the compiler need much memory.
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
