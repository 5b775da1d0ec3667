import { onlyMethods } from '../lib/api/app.ts'
import { accept } from '../lib/api/input.ts'
import { idCursorOf, listed, pageOf } from '../lib/api/lists.ts'
import {
  asOwnCommission,
  asOwnLink,
  asOwnPayout,
  ownCommissionsQuery,
  ownLinksQuery,
  ownPayoutsQuery,
  ownPerformanceQuery,
} from '../lib/api/partner-data.ts'
import { createProgramApi, known, withPartnerKey } from '../lib/api/program-key.ts'
import { listCommissions } from '../lib/money/commission-list.ts'
import { listPayouts } from '../lib/money/payouts.ts'
import { listLinks } from '../lib/programs/links.ts'
import { readPartnerCampaigns } from '../lib/tracking/partner-campaigns.ts'

/** A partner's own links, figures, commissions and payouts in one program, with the partner's key. Only reads data. */
const app = createProgramApi()
const [links, performance, commissions, payouts] = [
  '/api/v1/partner/links',
  '/api/v1/partner/performance',
  '/api/v1/partner/commissions',
  '/api/v1/partner/payouts',
] as const

app.get(links, withPartnerKey, accept('query', ownLinksQuery, known), async (c) => {
  const query = c.req.valid('query')
  const { programId, partnerId: partner_id } = c.get('partner')
  const rows = await listLinks(c.get('db'), programId, { ...pageOf(query), partner_id })
  return c.json(listed(rows, query.limit, asOwnLink, idCursorOf))
})

app.get(performance, withPartnerKey, accept('query', ownPerformanceQuery, known), async (c) => {
  const { days, currency } = c.req.valid('query')
  const { currency: own, ...partner } = c.get('partner')
  const asked = { ...partner, days, currency: currency ?? own, filters: {} }
  const { total, breakdowns } = await readPartnerCampaigns(c.get('db'), asked)
  return c.json({
    success: true,
    days,
    currency: asked.currency,
    total,
    data: breakdowns.map(({ name, rows }) => ({ group_by: name, values: rows })),
  })
})

app.get(commissions, withPartnerKey, accept('query', ownCommissionsQuery, known), async (c) => {
  const query = c.req.valid('query')
  const rows = await listCommissions(c.get('db'), c.get('partner'), pageOf(query))
  return c.json(listed(rows, query.limit, asOwnCommission, idCursorOf))
})

app.get(payouts, withPartnerKey, accept('query', ownPayoutsQuery, known), async (c) => {
  const query = c.req.valid('query')
  const { programId, partnerId: partner_id } = c.get('partner')
  const rows = await listPayouts(c.get('db'), { programId }, { ...pageOf(query), partner_id })
  return c.json(listed(rows, query.limit, asOwnPayout, idCursorOf))
})
for (const path of [links, performance, commissions, payouts]) app.all(path, onlyMethods('GET', 'HEAD'))

export default app
