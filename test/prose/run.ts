import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { readOptions } from '../../lib/commands/command.ts'
import { check } from './rules.ts'
import { textsOf } from './texts.ts'

/**
 * Checks the prose of documents, comments, pages, messages and commit subjects, and exits with 1 if a sentence breaks a rule. `node
 * test/prose/run.ts PATH…` checks only these files or folders.
 */
const usage = 'npm run prose -- [PATH…]    checks the prose of these files or folders, or of all and of commit subjects'
const { positionals: paths } = readOptions(usage, { allowPositionals: true })
const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8' }).split('\n').filter(Boolean)

/** Files that a tool writes, data, messages in other languages, and licenses of other projects. */
const notOurs =
  /^(THIRD_PARTY_NOTICES|LICENSE|package-lock\.json|lib\/schema\.ts|lib\/texts\/messages\/|tracker\/src\/api-types\.ts|migrations\/schema\.sql|test\/queries\/|test\/plans\/)/

/** The first commit whose subject must follow the rules. Earlier subjects can't be changed. */
const subjectsSince = '2026-11-23T12:00:00Z'

const exceptions = readFileSync(new URL('exceptions.txt', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => line && !line.startsWith('#'))
if (exceptions.length > 20) throw new Error('exceptions.txt has more than 20 lines. Rewrite a sentence instead.')

const files = git('ls-files', ...paths).filter((file) => /\.(md|tsx?|sql|toml|yml)$/.test(file) && !notOurs.test(file))
const findings: string[] = []
for (const file of files) {
  for (const { line, text } of textsOf(file)) {
    for (const { reason, sentence } of await check(text)) {
      if (exceptions.some((exception) => sentence.includes(exception))) continue
      findings.push(`${file}:${line}: ${reason}\n    ${sentence.slice(0, 200)}`)
    }
  }
}
if (paths.length === 0) {
  for (const subject of git('log', '--no-merges', `--since=${subjectsSince}`, '--format=%s')) {
    if (subject.length > 72)
      findings.push(`commit subject of ${subject.length} characters; 72 at most.\n    ${subject}`)
    if (exceptions.some((exception) => subject.includes(exception))) continue
    for (const { reason } of await check(subject)) findings.push(`commit subject: ${reason}\n    ${subject}`)
  }
}
if (findings.length > 0) {
  console.log(findings.join('\n'))
  console.log(`${findings.length} sentences in ${files.length} files break a rule of test/prose/rules.ts.`)
  process.exit(1)
}
