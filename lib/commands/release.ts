import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { runCommand } from './command.ts'
import { OperatorError } from './operator-error.ts'

const usage = `npm run release [-- --plan]    prepares the release of the version at the top of CHANGELOG.md

It sets that version in the package files and today's date in the changelog, stores the package in tracker/packages/, updates
THIRD_PARTY_NOTICES, commits these changes and creates the tag. It pushes nothing. With --plan it only prints the changes.`

const root = new URL('../../', import.meta.url)
const read = (file: string) => readFileSync(new URL(file, root), 'utf8')
const run = (command: string, ...args: string[]) => execFileSync(command, args, { cwd: root, encoding: 'utf8' }).trim()

/** Sets the version in a package file, at the given indentation, and keeps the rest as npm wrote it. */
const withVersion = (text = '', version: string, indentation = '  ') =>
  text.replace(new RegExp(`^${indentation}"version": ".*"`, 'm'), `${indentation}"version": "${version}"`)

/** The changes of a release: the new texts of its files, and the text of its tag. */
export interface Release {
  version: string
  /** The section of the changelog. */
  notes: string
  files: Record<string, string>
}

/**
 * Prepares the release of the changelog's first section, which must be marked as unreleased.
 * @param texts The texts of CHANGELOG.md, package.json, tracker/package.json and package-lock.json.
 * @param today Such as 2026-11-23.
 */
export function prepareRelease(texts: Record<string, string>, today: string): Release {
  const changelog = texts['CHANGELOG.md'] ?? ''
  const [heading = '', version = ''] = /^## (\d+\.\d+\.\d+), unreleased$/m.exec(changelog) ?? []
  const start = changelog.indexOf('\n## ') + 1
  if (heading === '' || !changelog.startsWith(heading, start))
    throw new OperatorError(
      'CHANGELOG.md must begin with a section such as "## 0.3.0, unreleased". Add it and its changes.',
    )
  const rest = changelog.slice(start + heading.length)
  const end = rest.indexOf('\n## ')
  const notes = rest.slice(0, end === -1 ? undefined : end).trim()
  if (notes === '') throw new OperatorError(`The section of ${version} in CHANGELOG.md is empty. Describe the changes.`)

  // The parts of the lock file for the two packages of this repository.
  const own = /^ {4}"(?:tracker)?": \{$[^{}]*?"version": ".*"/gm
  return {
    version,
    notes,
    files: {
      'CHANGELOG.md': changelog.replace(heading, `## ${version}, ${today}`),
      'package.json': withVersion(texts['package.json'], version),
      'tracker/package.json': withVersion(texts['tracker/package.json'], version),
      'package-lock.json': withVersion(texts['package-lock.json'], version).replace(own, (part) =>
        withVersion(part, version, '      '),
      ),
    },
  }
}

/** Refuses a release if its commit wouldn't be exactly the tested state of main. */
function checkRepository(version: string): void {
  if (run('git', 'status', '--porcelain') !== '')
    throw new OperatorError('The work tree has uncommitted changes. Commit or remove them.')
  const branch = run('git', 'branch', '--show-current')
  if (branch !== 'main') throw new OperatorError(`Releases come from main, and this is ${branch}. Switch to main.`)
  if (run('git', 'tag', '--list', `v${version}`) !== '')
    throw new OperatorError(`The tag v${version} exists. Start the next section in CHANGELOG.md.`)
}

if (import.meta.main)
  await runCommand(usage, async () => {
    const { values } = parseArgs({ options: { plan: { type: 'boolean', default: false } } })
    const names = ['CHANGELOG.md', 'package.json', 'tracker/package.json', 'package-lock.json']
    const { version, notes, files } = prepareRelease(
      Object.fromEntries(names.map((name) => [name, read(name)])),
      new Date().toISOString().slice(0, 10),
    )
    checkRepository(version)
    const stored = `tracker/packages/svc-tracker-${version}.tgz`
    const changed = [...names, stored, 'THIRD_PARTY_NOTICES']
    if (values.plan) {
      console.log(
        `Would change ${changed.join(', ')}, commit them as "Release ${version}" and tag v${version} with:\n\n${notes}`,
      )
      return
    }
    for (const [name, text] of Object.entries(files)) writeFileSync(new URL(name, root), text)
    run('npm', 'run', '-s', 'release', '-w', 'tracker')
    run('npm', 'run', '-s', 'notices')
    run('git', 'add', '--', ...changed)
    run('git', 'commit', '--quiet', '--message', `Release ${version}`)
    run('git', 'tag', '--annotate', '--cleanup=verbatim', '--message', `${version}\n\n${notes}`, `v${version}`)
    console.log(`Committed and tagged v${version}. Publish it with: git push origin main v${version}`)
  })
