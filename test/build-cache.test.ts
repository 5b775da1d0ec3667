import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'

test('a build is reused until a source or a package changes, and stays inside the checkout', async () => {
  const folder = mkdtempSync(path.join(realpathSync(tmpdir()), 'svc-kept-'))
  const at = (name: string) => path.join(folder, name)
  for (const name of ['lib/serve', 'functions', 'node_modules']) mkdirSync(at(name), { recursive: true })
  cpSync('lib/serve/build-cache.ts', at('lib/serve/build-cache.ts'))
  const write = (name: string, text: string) => () => writeFileSync(at(name), text)
  const { buildOnce } = (await import(
    pathToFileURL(at('lib/serve/build-cache.ts')).href
  )) as typeof import('../lib/serve/build-cache.ts')
  let duringBuild: (() => void) | undefined
  /** Counts how often two requests build the file, and checks the file. */
  const keepTwice = async (): Promise<[created: number, isThere: boolean]> => {
    let created = 0
    const files = new Set<string | undefined>()
    for (let times = 0; times < 2; times++) {
      const file = await buildOnce('a.js', async (name) => {
        created += 1
        duringBuild?.()
        return [
          { path: name, contents: 'built' },
          { path: `${name}.map`, contents: '' },
        ]
      })
      files.add(file && readFileSync(file, 'utf8'))
    }
    return [created, files.size === 1 && files.has('built')]
  }
  const built = [1, true]
  const found = [0, true]
  const rebuilt = [0, false]
  const steps: [what: string, change: () => void, expected: unknown][] = [
    ['nothing is there', () => {}, built],
    ['nothing changed', () => {}, found],
    ['a function changed', write('functions/a.ts', 'a'), built],
    ['a function was renamed', () => renameSync(at('functions/a.ts'), at('functions/b.ts')), built],
    ['a function was added', write('functions/c.ts', 'c'), built],
    ['a function was removed', () => rmSync(at('functions/c.ts')), found],
    ['a package changed', write('node_modules/.package-lock.json', '{}'), built],
    ['the tests changed', write('test.ts', ''), found],
    [
      'a function changes while it is read',
      () => {
        write('functions/c.ts', 'c2')()
        duringBuild = write('functions/c.ts', 'c3')
      },
      [2, false],
    ],
    ['the next request', () => {}, found],
    [
      'the packages are in another folder',
      () => {
        renameSync(at('node_modules'), at('elsewhere'))
        symlinkSync(at('elsewhere'), at('node_modules'))
      },
      rebuilt,
    ],
    [
      'the cache has no folder',
      () => {
        rmSync(at('node_modules'))
        renameSync(at('elsewhere'), at('node_modules'))
        rmSync(at('node_modules/.svc'), { recursive: true })
        writeFileSync(at('node_modules/.svc'), '')
      },
      rebuilt,
    ],
  ]
  for (const [what, change, expected] of steps) {
    change()
    expect([what, await keepTwice()]).toEqual([what, expected])
    if (what === 'the tests changed')
      expect(readdirSync(at('node_modules/.svc')).filter((name) => name.includes('partial'))).toEqual([])
  }
  rmSync(folder, { recursive: true })
})
