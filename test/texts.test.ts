import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { readFunctions } from '../lib/local/functions.ts'

const texts = globSync(['**/*.md', '.github/*.md'], {
  exclude: (name) => ['node_modules', 'dist', 'templates', 'docs', '.local'].includes(name),
})

test('functions/README.md names every function', () => {
  const names = readFileSync('functions/README.md', 'utf8').matchAll(/^\| `([a-z-]+)` +\| .*(?:\/|schedule)/gm)
  expect(Array.from(names, ([, name = '']) => name).toSorted()).toEqual(
    readFunctions()
      .map(({ name }) => name)
      .toSorted(),
  )
})

test('every file that lib/README.md names is there', () => {
  const named = readFileSync('lib/README.md', 'utf8').matchAll(/`((?:lib|functions|migrations|test)\/[^`]*)`/g)
  const files = Array.from(named, ([, file = '']) => file)
  expect(files.length).toBeGreaterThan(20)
  expect(files.filter((file) => !existsSync(file))).toEqual([])
})

test('CONTRIBUTING.md names every package', () => {
  const named = readFileSync('.github/CONTRIBUTING.md', 'utf8')
    .match(/^\| [^|]*/gm)
    ?.flatMap((cell) => cell.match(/[@a-z][\w/@-]+/g) ?? [])
  for (const file of ['package.json', 'tracker/package.json']) {
    const { dependencies = {}, devDependencies = {} } = JSON.parse(readFileSync(file, 'utf8')) as Record<string, object>
    const used = Object.keys({ ...dependencies, ...devDependencies }).filter((name) => !name.startsWith('@types/'))
    expect(named).toEqual(expect.arrayContaining(used))
  }
})

/** What a text calls a heading by in a link. */
function anchorsOf(text: string): string[] {
  return Array.from(text.matchAll(/^#+ (.*)$/gm), ([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\s-]/g, '')
      .replaceAll(' ', '-'),
  )
}

test.each(texts)('every link of %s leads somewhere', (file) => {
  const links = Array.from(readFileSync(file, 'utf8').matchAll(/\]\((?!https?:)([^)]+)\)/g), ([, link = '']) => link)
  const broken = links.filter((link) => {
    const [target = '', anchor] = link.split('#')
    const linked = target === '' ? file : path.join(path.dirname(file), target)
    if (!existsSync(linked)) return true
    return anchor !== undefined && !anchorsOf(readFileSync(linked, 'utf8')).includes(anchor)
  })
  expect(broken).toEqual([])
})
