import { readdirSync, readFileSync } from 'node:fs'
import { parseSync, Visitor } from 'oxc-parser'
import { check } from 'recheck'
import { expect, test } from 'vitest'

/** The folders that read text from outside. Commands and the local stack read only the input of the person who runs them. */
const folders = ['tracker/src', 'functions', 'lib']
const ownText = /^(lib\/(commands|local)|tracker\/src\/cli)\//
/** An expression without any of these operators reads a limited number of characters. */
const unbounded = /[*+]|,\}/

const files = folders
  .flatMap((folder) => readdirSync(folder, { encoding: 'utf8', recursive: true }).map((name) => `${folder}/${name}`))
  .filter((file) => /\.tsx?$/.test(file) && !ownText.test(file))

/** Every regular expression literal, with the places in which it is used. */
const literals = new Map<string, { pattern: string; flags: string; places: string[] }>()
for (const file of files) {
  const text = readFileSync(file, 'utf8')
  const { program } = parseSync(file, text)
  new Visitor({
    Literal(node) {
      if (!('regex' in node) || !unbounded.test(node.regex.pattern)) return
      const { pattern, flags } = node.regex
      const place = `${file}:${text.slice(0, node.start).split('\n').length}`
      const known = literals.get(`/${pattern}/${flags}`) ?? { pattern, flags, places: [] }
      literals.set(`/${pattern}/${flags}`, { ...known, places: [...known.places, place] })
    },
  }).visit(program)
}

test("regular expressions run in linear time, so outside text can't make them slow", async () => {
  const found: string[] = []
  for (const [literal, { pattern, flags, places }] of literals) {
    const { status } = await check(pattern, flags.replace('v', 'u'), { timeout: 20_000, randomSeed: 1 })
    if (status !== 'safe') found.push(`${literal} in ${places.join(', ')} is ${status}`)
  }
  expect(literals.size).toBeGreaterThan(50)
  expect(found).toEqual([])
}, 120_000)
