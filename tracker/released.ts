import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { type Files, pack } from './pack.ts'

/** Reads the released packages of `packages/`, with placeholders, by version. */
export function readReleased(folder: URL): Record<string, Buffer> {
  const names = existsSync(folder) ? readdirSync(folder) : []
  return Object.fromEntries(
    names.flatMap((name) => {
      const [, version] = /^svc-tracker-(.+)\.tgz$/.exec(name) ?? []
      return version ? [[version, readFileSync(new URL(name, folder))]] : []
    }),
  )
}

/**
 * Returns the version of files with placeholders. Before a release, the version contains a hash of the files, so that different files
 * never share a version. Throws if the version is already released with other content.
 */
export function versionOf(files: Files, version: string, released: Record<string, Buffer>): string {
  const packed = pack(files)
  if (!released[version]) return `${version}-dev.${createHash('sha256').update(packed).digest('hex').slice(0, 10)}`
  if (released[version].equals(packed)) return version
  throw new Error(`The package differs from its release ${version}. Raise the version in tracker/package.json.`)
}
