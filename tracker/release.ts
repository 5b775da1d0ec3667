/**
 * `npm run release -w tracker`: stores the built package as the release of the version in package.json, unless that version is already
 * stored. From then on, the service always serves it, and the build refuses other content under this version. Also writes the tarball for
 * `npm publish`, but doesn't publish it.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileName, packFor } from './pack.ts'

const at = (path: string) => new URL(path, import.meta.url)
const { version } = JSON.parse(readFileSync(at('package.json'), 'utf8'))
const file = fileName(version)
for (const folder of ['packages/', 'dist/npm/']) mkdirSync(at(folder), { recursive: true })

const template = readFileSync(at('dist/served/template.tgz'))
if (!existsSync(at(`packages/${file}`))) {
  writeFileSync(at(`packages/${file}`), template)
  console.log(`Commit tracker/packages/${file}, and build again.`)
}
// The npm package isn't built for a specific service, so its users must configure one.
writeFileSync(at(`dist/npm/${file}`), packFor(template, { baseUrl: '', version }))
console.log(`For npm: tracker/dist/npm/${file}`)
