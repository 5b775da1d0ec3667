import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../', import.meta.url))

/**
 * The layers from top to bottom. A file imports from its own layer and from lower ones. The local stack is at the top, so production code
 * never imports it. The single-server code imports commands, but functions don't.
 */
const layers = [
  ['lib/local'],
  ['lib/serve'],
  ['lib/commands'],
  ['functions'],
  ['lib/agents'],
  ['lib/api'],
  ['lib/moving'],
  ['lib/audit', 'lib/tracking', 'lib/money', 'lib/processors', 'lib/programs'],
  ['lib/access', 'lib/notifications'],
  ['lib/texts'],
  ['lib/*.ts'],
]

interface Import {
  file: string
  imported: string
  /** Whether the import contains only types and therefore disappears. */
  isType?: boolean
}

/** Returns the relative imports, including types, of every file in a folder and its subfolders. */
function importsOf(folder: string): Import[] {
  return readdirSync(path.join(root, folder), { encoding: 'utf8', recursive: true })
    .filter((name) => /\.tsx?$/.test(name) && !/\bnode_modules\b/.test(name))
    .flatMap((name) => {
      const file = path.posix.join(folder, name)
      const found = readFileSync(path.join(root, file), 'utf8').matchAll(
        /^(?:import|export)( type)?\b[^'=]*?'(\.[^']*)'|\bimport\(\s*'(\.[^']*)'/gm,
      )
      return Array.from(found, ([, type, target = '', late = '']) => ({
        file,
        imported: path.posix.join(file, '..', target || late),
        isType: type !== undefined,
      }))
    })
}

/**
 * The part of the code base that a file belongs to: a folder of lib/, the files directly in lib/, or another top-level
 * folder.
 */
function roomOf(file: string): string {
  const [top = '', folder = '', ...rest] = file.split('/')
  if (top !== 'lib') return top
  return rest.length === 0 ? 'lib/*.ts' : `lib/${folder}`
}

/** 0 is the highest layer. The result is -1 if the file has no layer. */
function layerOf(file: string): number {
  return layers.findIndex((layer) => layer.includes(roomOf(file)))
}

/** Returns the paths along `edges` that lead back to their start. */
function circles(edges: Import[]): string[][] {
  const targets = Map.groupBy(edges, ({ file }) => file)
  const done = new Set<string>()
  const visit = (file: string, way: string[]): string[][] => {
    if (way.includes(file)) return [[...way.slice(way.indexOf(file)), file]]
    if (done.has(file)) return []
    const found = (targets.get(file) ?? []).flatMap(({ imported }) => visit(imported, [...way, file]))
    done.add(file)
    return found
  }
  return [...targets.keys()].flatMap((file) => visit(file, []))
}

const imports = [...importsOf('lib'), ...importsOf('functions')]
const shown = ({ file, imported }: Import) => `${file} imports ${imported}`

test('the test finds every import of functions/ and lib/', () => {
  expect(imports).toContainEqual({ file: 'functions/track-sale.ts', imported: 'lib/money/sales.ts', isType: false })
  expect(imports).toContainEqual({ file: 'lib/money/sales.ts', imported: 'lib/database.ts', isType: false })
  const rooms = new Set(imports.map(({ file }) => roomOf(file)))
  expect([...rooms].toSorted()).toEqual(layers.flat().toSorted())
})

test('imports point downwards', () => {
  const upwards = imports.filter(({ file, imported }) => layerOf(imported) !== -1 && layerOf(imported) < layerOf(file))
  expect(upwards.map(shown)).toEqual([])
})

test('imports form no cycle of files or folders', () => {
  expect(circles(imports)).toEqual([])
  const between = imports.map(({ file, imported }) => ({ file: roomOf(file), imported: roomOf(imported) }))
  expect(circles(between.filter(({ file, imported }) => file !== imported))).toEqual([])
})

test.for(['track-click', 'track-lead', 'track-sale', 'track-refund'])('%s works without the query builder', (name) => {
  const reached = new Set([`functions/${name}.ts`])
  for (const file of reached) {
    for (const next of imports) if (next.file === file && !next.isType) reached.add(next.imported)
  }
  expect(reached).toContain('lib/database.ts')
  expect(reached).not.toContain('lib/kysely.ts')
})

test('code for integrators imports nothing from the service', () => {
  const own = importsOf('tracker').filter(({ imported }) => !imported.startsWith('tracker/'))
  expect(own.map(shown)).toEqual([])
})
