import { limitBodyTo, onlyMethods } from '../lib/api/app.ts'
import { accept } from '../lib/api/input.ts'
import { listed } from '../lib/api/lists.ts'
import { createProgramApi, known, withKey, withoutFields } from '../lib/api/program-key.ts'
import {
  asDifference,
  asShadowMode,
  comparisonQuery,
  differenceCursorOf,
  differencesQuery,
  formerCommissions,
  partnerCursorOf,
  periodOf,
} from '../lib/api/shadow-mode.ts'
import { compareSides, storeFormerCommissions } from '../lib/moving/comparison.ts'
import { enterShadowMode, leaveShadowMode, readShadowMode } from '../lib/programs/shadow-mode.ts'

const app = createProgramApi()
const all = '/api/v1/shadow-mode'

app.get(all, withKey('read'), async (c) => {
  return c.json({ success: true, ...asShadowMode(await readShadowMode(c.get('db'), c.get('programId'))) })
})
app.all(all, onlyMethods('GET', 'HEAD'))

for (const [act, work] of [
  ['enter', enterShadowMode],
  ['leave', leaveShadowMode],
] as const) {
  app.post(`${all}/${act}`, limitBodyTo(1024), withKey('manage'), withoutFields, async (c) => {
    return c.json({ success: true, ...asShadowMode(await work(c.get('db'), c.get('programId'))) })
  })
  app.all(`${all}/${act}`, onlyMethods('POST'))
}

app.get(`${all}/comparison`, withKey('read'), accept('query', comparisonQuery, known), async (c) => {
  const { limit, cursor, ...range } = c.req.valid('query')
  const parts = { partners: { limit: limit + 1, before: cursor } }
  const { partners } = await compareSides(c.get('db'), c.get('programId'), periodOf(range), parts)
  return c.json(listed(partners, limit, (row) => row, partnerCursorOf))
})
app.all(`${all}/comparison`, onlyMethods('GET', 'HEAD'))

app.get(`${all}/differences`, withKey('read'), accept('query', differencesQuery, known), async (c) => {
  const { limit, cursor, from, to, ...filters } = c.req.valid('query')
  const parts = { differences: { ...filters, limit: limit + 1, before: cursor } }
  const { differences } = await compareSides(c.get('db'), c.get('programId'), periodOf({ from, to }), parts)
  return c.json(listed(differences, limit, asDifference, differenceCursorOf))
})
app.all(`${all}/differences`, onlyMethods('GET', 'HEAD'))

app.post(
  `${all}/commissions`,
  limitBodyTo(512 * 1024),
  withKey('manage'),
  accept('json', formerCommissions, known),
  async (c) => {
    const { commissions } = c.req.valid('json')
    await storeFormerCommissions(c.get('db'), c.get('programId'), commissions)
    return c.json({ success: true, stored: commissions.length })
  },
)
app.all(`${all}/commissions`, onlyMethods('POST'))

export default app
