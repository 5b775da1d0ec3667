import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import * as z from 'zod/mini'
import { OperatorError } from './operator-error.ts'
import { runCommand } from './command.ts'
import { readSqlFiles, type SqlFile } from './migrate.ts'

const recordFile = new URL('../../migrations/released.json', import.meta.url)

/** By version, the hashes of the numbered migrations that came with it. */
const released = z.record(z.string(), z.record(z.string(), z.string()))
export type Released = z.infer<typeof released>

export function readReleased(): Released {
  return released.parse(JSON.parse(readFileSync(recordFile, 'utf8')))
}

/** What is not as it was released, in sentences: a migration that was released is never changed, renamed or removed. */
export function changedSinceRelease(record: Released, files: SqlFile[]): string[] {
  return Object.entries(record).flatMap(([version, hashes]) =>
    Object.entries(hashes).flatMap(([name, hash]) => {
      const file = files.find((candidate) => candidate.name === name)
      if (!file) return [`${name} was released with ${version} and is gone. Put it back.`]
      if (file.checksum === hash) return []
      return [
        `${name} was released with ${version} and has changed. Undo that, and put the change into a new migration.`,
      ]
    }),
  )
}

/**
 * The record with a version added: the hashes of the numbered migrations that no version before had.
 *
 * @throws where the version is recorded already, or a released migration has changed.
 */
export function withRelease(record: Released, version: string, files: SqlFile[]): Released {
  if (!/^\d+\.\d+\.\d+$/.test(version)) throw new OperatorError('Give a version such as 0.2.0.')
  if (record[version]) throw new OperatorError(`${version} is recorded already.`)
  const problems = changedSinceRelease(record, files)
  if (problems.length > 0) throw new OperatorError(problems.join('\n'))
  const known = new Set(Object.values(record).flatMap(Object.keys))
  const added = files.filter(({ name }) => !name.startsWith('functions/') && !known.has(name))
  return { ...record, [version]: Object.fromEntries(added.map(({ name, checksum }) => [name, checksum])) }
}

/** The text of a package.json, or of the lock file, with the version of the service's own packages in it. */
export function withVersion(text: string, version: string): string {
  const ours = /("name": "(?:affiliate-tracking-service|svc-tracker)",\s*"version": )"[^"]*"/g
  return text.replaceAll(ours, `$1"${version}"`)
}

const usage = `npm run release -- 0.2.0    records the hashes of the migrations that come with a version, and writes the version into the packages;
                            then commit and tag it`

function main(version = ''): void {
  const changes = readFileSync(new URL('../../CHANGELOG.md', import.meta.url), 'utf8')
  const record = withRelease(readReleased(), version, readSqlFiles())
  if (!changes.includes(`\n## ${version}, `) || changes.includes(`\n## ${version}, not yet released`)) {
    throw new OperatorError(
      `CHANGELOG.md has no heading "## ${version}, <day>". Write what changes, then run this again.`,
    )
  }
  writeFileSync(recordFile, `${JSON.stringify(record, null, 2)}\n`)
  for (const name of ['package.json', 'tracker/package.json', 'package-lock.json']) {
    const file = new URL(`../../${name}`, import.meta.url)
    writeFileSync(file, withVersion(readFileSync(file, 'utf8'), version))
  }
  console.log(
    `Recorded. Now: git commit -am "Release ${version}" && git tag -a v${version} -m ${version} && git push --follow-tags`,
  )
}

if (import.meta.main) await runCommand(usage, async () => main(parseArgs({ allowPositionals: true }).positionals[0]))
