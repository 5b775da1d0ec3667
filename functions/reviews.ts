import { limitBody, onlyMethods } from '../lib/api/app.ts'
import { accept } from '../lib/api/input.ts'
import { cursorOf, listed, pageOf } from '../lib/api/lists.ts'
import { createProgramApi, known, withKey } from '../lib/api/program-key.ts'
import { asReview, reviewDecision, reviewsQuery } from '../lib/api/reviews.ts'
import { decideReviews, listReviews } from '../lib/money/reviews.ts'
import { type RelayEnv, type RelayMessage, sendSoon } from '../lib/notifications/outbox.ts'

const app = createProgramApi<RelayEnv>()
const all = '/api/v1/reviews'

app.get(all, withKey('read'), accept('query', reviewsQuery, known), async (c) => {
  const query = c.req.valid('query')
  const reviews = await listReviews(c.get('db'), c.get('programId'), pageOf(query))
  return c.json(listed(reviews, query.limit, asReview, ({ commission_id: id }) => cursorOf(id)))
})

app.patch(all, limitBody, withKey('manage'), accept('json', reviewDecision, known), async (c) => {
  const { commission_ids: ids, decision, note } = c.req.valid('json')
  const outbox: RelayMessage[] = []
  const decided = await decideReviews(c.get('db'), c.get('programId'), [...new Set(ids)], decision, note, outbox)
  c.executionCtx.waitUntil(sendSoon(c.env, outbox))
  return c.json({ success: true, changed: decided.changed, data: decided.reviews.map(asReview) })
})
app.all(all, onlyMethods('GET', 'HEAD', 'PATCH'))

export default app
