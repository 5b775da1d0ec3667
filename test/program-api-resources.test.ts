import { expect, test } from 'vitest'
import { confirmApplication, findApplication } from '../lib/programs/applications.ts'
import { countClicks, countFigures } from '../lib/tracking/clicks.ts'
import { clickPath, refundPath, salePath, times } from './support/api.ts'
import { today } from './support/ledger.ts'
import { startProgramApi, twoRequests, withKey } from './support/program-api.ts'

const { api, program, other, key, get, post, patch, mailing, approve, sell } = await startProgramApi()

test('a patch changes only the given fields of a partner, as in JSON Merge Patch', async () => {
  const created = await post('/api/v1/partners', {
    name: 'Ada',
    email: 'ada@example.com',
    external_id: 'ext-1',
    metadata: { tier: 'gold', note: 'x' },
  })
  const { id } = created.body.partner
  const path = `/api/v1/partners/${id}`
  expect((await patch(path, { metadata: { tier: 'silver', note: null } })).body.partner).toMatchObject({
    name: 'Ada',
    email: 'ada@example.com',
    external_id: 'ext-1',
    metadata: { tier: 'silver' },
    status: 'active',
  })
  const off = await patch(path, { status: 'inactive', external_id: null, email: null })
  expect(off.body.partner).toMatchObject({ status: 'inactive', external_id: null, email: null })
  expect(off.body.partner.links).toMatchObject([{ status: 'inactive' }])
  expect((await patch(path, { status: 'active', metadata: null })).body.partner).toMatchObject({
    status: 'active',
    metadata: {},
  })
  expect((await get(path)).body.partner).toMatchObject({ name: 'Ada', metadata: {} })
  expect((await get(`/api/v1/partners?search=aDa`)).body.data.map((one: { id: number }) => one.id)).toContain(id)
  const many = Object.fromEntries(times(15, (n) => [`a${n}`, 'x'] as const))
  await patch(path, { metadata: many })
  const more = Object.fromEntries(times(15, (n) => [`b${n}`, 'x'] as const))
  expect(await patch(path, { metadata: more })).toMatchObject({
    status: 400,
    body: { error: { code: 'invalid_request' } },
  })
  expect((await patch('/api/v1/partners/999999999', { name: 'X' })).status).toBe(404)
})

test('the base of commissions is a setting of the program', async () => {
  const { body } = await get('/api/v1/program')
  expect(body.program).toMatchObject({ commission_base: 'net' })
  const changed = { ...body.program, commission_base: 'net_of_fees' }
  expect((await patch('/api/v1/program', { commission_base: 'net_of_fees' })).body.program).toEqual(changed)
  expect((await patch('/api/v1/program', {})).body.program).toEqual(changed)
  expect(await patch('/api/v1/program', { commission_base: 'gross' }, { databaseRequests: 1 })).toMatchObject({
    status: 400,
  })
  expect(await patch('/api/v1/program', { name: 'X' }, { databaseRequests: 1 })).toMatchObject({ status: 400 })
  await patch('/api/v1/program', { commission_base: 'net' })
})

test('rules can be previewed and changed, and a removed group moves its partners', async () => {
  const created = (await post('/api/v1/groups', { name: 'Previewed' })).body.group
  const { partner } = (await post('/api/v1/partners', { name: 'Mover' })).body
  const seller = await api.program()
  const own = { key: seller.apiKey }
  const clickId = await api.click(seller)
  await api.call(
    salePath,
    { transaction_id: 'looked-at', customer_key: 'x', click_id: clickId, amount_cents: 9000 },
    own,
  )
  const month = new Date().toISOString().slice(0, 7)
  const rules = [{ sale_type: 'payment', commission_bp: 5000 }]
  const amounts = { currency: 'usd', actual_cents: 1800, now_cents: 1800, then_cents: 4500 }
  for (const whose of [{}, { partner_id: seller.partnerId }]) {
    expect((await post('/api/v1/rules/preview', { ...whose, rules, month }, own)).body).toMatchObject({
      success: true,
      preview: { month, totals: [amounts], partners: [{ partner_id: seller.partnerId, ...amounts }] },
    })
  }
  expect((await post('/api/v1/rules/preview', { rules })).body.preview).toMatchObject({ totals: [], partners: [] })
  expect((await get('/api/v1/rules')).body.rules).toEqual([])
  const everybodys = await patch('/api/v1/rules', { rules })
  expect(everybodys.body.rules).toMatchObject([{ sale_type: 'payment', commission_bp: 5000, product_id: null }])
  expect((await get('/api/v1/rules')).body.rules).toEqual(everybodys.body.rules)
  await patch('/api/v1/rules', { rules: [] })
  for (const [path, body, field] of [
    ['/api/v1/rules', { rules: [{ commission_bp: 5 }] }, 'rules'],
    ['/api/v1/rules/preview', { rules: [{ commission_bp: 5 }] }, 'rules'],
    ['/api/v1/rules/preview', { rules: [], group_id: 1, partner_id: 1 }, 'partner_id'],
    ['/api/v1/rules/preview', { rules: [], month: '2026-13' }, 'month'],
  ] as const) {
    const send = path === '/api/v1/rules' ? patch : post
    expect(await send(path, body, { databaseRequests: 1 })).toMatchObject({
      status: 400,
      body: { error: { details: [{ field }] } },
    })
  }
  expect(await post('/api/v1/rules/preview', { rules: [], group_id: 999_999_999 })).toMatchObject({ status: 404 })

  const address = `/api/v1/groups/${created.id}`
  const moved = await post(`${address}/partners`, { partner_ids: [partner.id, seller.partnerId] })
  expect(moved.body).toEqual({ success: true, partners: 1 })
  expect((await get(`/api/v1/partners?group_id=${created.id}`)).body.data).toMatchObject([{ id: partner.id }])
  const remove = () => api.call(address, undefined, { method: 'DELETE', ...key, ...twoRequests })
  expect((await remove()).body).toEqual({ success: true, deleted_id: created.id })
  for (const answer of [
    await remove(),
    await get(address),
    await patch(address, { rules: [] }),
    await post(`${address}/partners`, { partner_ids: [partner.id] }),
    await post('/api/v1/rules/preview', { rules: [], group_id: created.id }),
  ])
    expect(answer).toMatchObject({ status: 404, body: { error: { code: 'not_found' } } })
  expect((await get(`/api/v1/partners/${partner.id}`)).body.partner).toMatchObject({ group_id: null })
})

test('a patch changes only the given fields of the join page, and an application through the API is confirmed by mail and decided once', async () => {
  const questions = [{ label: 'Where?', type: 'short', required: true }]
  const own = { key: other.apiKey }
  expect((await get('/api/v1/join-page', own)).body.join_page).toMatchObject({ slug: null, url: null, is_open: false })
  const early = await mailing('POST', '/api/v1/applications', { name: 'Grace', email: 'early@example.com' }, own)
  expect(early).toMatchObject({ status: 409, body: { error: { code: 'conflict' } } })
  const slug = `page-${crypto.randomUUID()}`
  const page = await patch(
    '/api/v1/join-page',
    { slug, questions, terms: 'Be true.', faq: [{ question: 'When?', answer: 'Monthly.' }] },
    own,
  )
  expect(page.body.join_page).toMatchObject({
    slug,
    url: expect.stringContaining(`/join/${slug}`),
    terms_version: 1,
    questions,
  })
  expect((await patch('/api/v1/join-page', { intro: 'Hello' }, own)).body.join_page).toMatchObject({
    slug,
    intro: 'Hello',
    questions,
  })

  const applicant = {
    name: 'Grace Hopper',
    email: `Grace-${crypto.randomUUID()}@Example.com`,
    answers: [{ question: 'Where?', answer: 'Here' }],
    terms_version: 1,
  }
  for (const [wrong, field] of [
    [{ terms_version: 2 }, 'terms_version'],
    [{ terms_version: null }, 'terms_version'],
    [{ answers: [] }, 'answers'],
    [{ answers: [{ question: 'Where?', answer: ' ' }] }, 'answers'],
    [{ answers: [...applicant.answers, { question: 'Why?', answer: 'x' }] }, 'answers'],
    [{ answers: [...applicant.answers, ...applicant.answers] }, 'answers'],
    [{ answers: [{ question: 'Where?', answer: 'x'.repeat(301) }] }, 'answers'],
    [{ email: 'nobody' }, 'email'],
    [{ name: 'a\u202Eb' }, 'name'],
  ] as const) {
    const refused = await mailing('POST', '/api/v1/applications', { ...applicant, ...wrong }, own)
    expect([wrong, refused.body.error.details?.[0].field]).toEqual([wrong, field])
  }
  const created = await mailing('POST', '/api/v1/applications', applicant, { ...own, ...withKey('grace') })
  expect(created.body.application).toMatchObject({
    status: 'unverified',
    source: 'api',
    email: applicant.email.toLowerCase(),
    terms_version: 1,
  })
  expect((await mailing('POST', '/api/v1/applications', applicant, { ...own, ...withKey('grace') })).body).toEqual(
    created.body,
  )
  const mails = async () =>
    (
      await api.stack.sql.query<{ subject: string; body: string }>(
        'select subject, body from mails where recipient = $1 order by id',
        [applicant.email.toLowerCase()],
      )
    ).rows
  await expect.poll(mails).toHaveLength(1)
  const { id } = created.body.application
  const address = `/api/v1/applications/${id}`
  expect(await mailing('PATCH', address, { status: 'approved' }, own)).toMatchObject({ status: 409 })
  const confirmed = /application\?token=(\S+)/.exec((await mails())[0]?.body ?? '')?.[1] ?? ''
  const found = await findApplication(api.stack.db, confirmed)
  if (found) await confirmApplication(api.stack.db, found)
  for (const wrong of [
    { status: 'waiting' },
    { status: 'rejected', group_id: 1 },
    { status: 'approved', note: 'x' },
    {},
  ])
    expect(await mailing('PATCH', address, wrong, own)).toMatchObject({ status: 400 })
  expect(await mailing('PATCH', address, { status: 'approved', group_id: 9_999_999 }, own)).toMatchObject({
    status: 404,
  })
  const approved = await mailing('PATCH', address, { status: 'approved' }, own)
  expect(approved.body.application).toMatchObject({
    status: 'approved',
    partner_id: expect.any(Number),
    decided_by: expect.any(String),
  })
  expect((await mailing('PATCH', address, { status: 'approved' }, own)).body).toEqual(approved.body)
  expect(await mailing('PATCH', address, { status: 'rejected' }, own)).toMatchObject({ status: 409 })
  expect((await get(address, own)).body).toEqual(approved.body)
  await expect.poll(mails).toHaveLength(2)
  expect(
    await get(`/api/v1/applications?email=${encodeURIComponent(applicant.email)}&status=approved`, own),
  ).toMatchObject({
    body: { data: [{ id }] },
  })
  expect(await mailing('DELETE', address, undefined, own)).toMatchObject({ status: 409 })
})

test('a group is created once with its rules, can be changed, and pays its partners', async () => {
  const rules = [{ commission_bp: 3000 }, { sale_type: 'upgrade', commission_fixed_cents: 500 }]
  const created = await post('/api/v1/groups', { name: 'Gold', rules }, withKey('gold'))
  expect(created).toMatchObject({
    status: 201,
    body: {
      group: {
        name: 'Gold',
        partners: 0,
        rules: [
          { product_id: null, sale_type: null, commission_bp: 3000, lifetime_cap_cents: null },
          { sale_type: 'upgrade', commission_bp: 0, commission_fixed_cents: 500 },
        ],
      },
    },
  })
  const { group } = created.body
  expect((await post('/api/v1/groups', { name: 'Gold', rules }, withKey('gold'))).body).toEqual(created.body)
  // Postgres and JavaScript convert this letter to lower case differently.
  expect((await post('/api/v1/groups', { name: 'İ' })).body.group).toMatchObject({ name: 'İ' })
  expect(await post('/api/v1/groups', { name: 'GOLD' })).toMatchObject({
    status: 409,
    body: { error: { code: 'conflict', details: [{ field: 'name' }] } },
  })
  const { partner } = (await post('/api/v1/partners', { name: 'Grouped', group_id: group.id })).body
  expect(partner).toMatchObject({ group_id: group.id, rules: [] })
  const address = `/api/v1/groups/${group.id}`
  expect((await patch(address, { name: 'Silver' })).body.group).toMatchObject({
    name: 'Silver',
    partners: 1,
    rules: group.rules,
  })
  expect((await patch(address, { rules: [{ commission_bp: 100 }] })).body.group.rules).toMatchObject([
    { commission_bp: 100 },
  ])
  expect((await get(address)).body.group.rules).toHaveLength(1)
  const ofPartner = `/api/v1/partners/${partner.id}`
  expect((await patch(ofPartner, { rules: [{ commission_bp: 50 }] })).body.partner).toMatchObject({
    group_id: group.id,
    rules: [{ commission_bp: 50 }],
  })
  expect((await patch(ofPartner, { group_id: null, rules: [] })).body.partner).toMatchObject({
    group_id: null,
    rules: [],
  })
  for (const group_id of [
    999_999,
    (await post('/api/v1/groups', { name: 'Theirs' }, { key: other.apiKey })).body.group.id,
  ]) {
    const refused = { status: 404, body: { error: { code: 'not_found', details: [{ field: 'group_id' }] } } }
    expect(await patch(ofPartner, { group_id, name: 'Half' })).toMatchObject(refused)
    expect(await post('/api/v1/partners', { name: 'Half', group_id })).toMatchObject(refused)
  }
  expect((await get(ofPartner)).body.partner.name).toBe('Grouped')
})

test('a code is created once, found by its text, and revoked', async () => {
  const request = { partner_id: program.partnerId, code: 'Spring-20' }
  const created = await post('/api/v1/codes', request, withKey('spring'))
  expect(created).toMatchObject({
    status: 201,
    body: { code: { ...request, status: 'active', promotion_code_id: null, revoked_at: null } },
  })
  expect((await post('/api/v1/codes', request, withKey('spring'))).body).toEqual(created.body)
  expect((await get('/api/v1/codes?code=SPRING-20')).body.data).toEqual([created.body.code])
  const partner = (await post('/api/v1/partners', { name: 'Coded' })).body.partner
  const taken = { status: 409, body: { error: { code: 'conflict', details: [{ field: 'code' }] } } }
  expect(await post('/api/v1/codes', { partner_id: partner.id, code: 'spring-20' })).toMatchObject(taken)
  const address = `/api/v1/codes/${created.body.code.id}`
  const revoked = await api.call(address, undefined, { method: 'DELETE', key: program.apiKey, databaseRequests: 2 })
  expect(revoked.body.code).toMatchObject({ status: 'revoked', revoked_at: expect.any(String) })
  expect(
    (await api.call(address, undefined, { method: 'DELETE', key: program.apiKey, databaseRequests: 2 })).body,
  ).toEqual(revoked.body)
  expect(await post('/api/v1/codes', { partner_id: partner.id, code: 'spring-20' })).toMatchObject(taken)
  expect((await get('/api/v1/codes?status=active&code=spring-20')).body.data).toEqual([])
  expect((await post('/api/v1/codes', request)).body.code).toMatchObject({ id: created.body.code.id, status: 'active' })
  expect(await post('/api/v1/codes', { partner_id: 999_999_999, code: 'NOBODYS' })).toMatchObject({ status: 404 })
  const discounted = { ...request, stripe: { percent_off: 20, duration: 'once' } }
  expect((await post('/api/v1/codes', discounted, { databaseRequests: 3 })).body.code).toMatchObject({
    id: created.body.code.id,
    promotion_code_id: expect.stringMatching(/^promo_/),
  })
})

test.each([
  '/api/v1/partners?search=',
  '/api/v1/partners?email=',
  '/api/v1/links?external_id=',
  '/api/v1/codes?code=',
  '/api/v1/customers?customer_key=',
  '/api/v1/sales?click_id=',
  '/api/v1/commissions?transaction_id=',
  '/api/v1/applications?email=',
])('%s takes at most 320 characters', async (filter) => {
  expect((await get(filter + 'x'.repeat(320))).status).toBe(200)
  const { status, body } = await get(filter + 'x'.repeat(321), { databaseRequests: 1 })
  expect([status, body.error.details[0].message]).toEqual([400, 'must be at most 320 characters long'])
})

test.each([
  ['none', {}, 'code'],
  ['one with a space', { code: 'A B' }, 'code'],
  ['one that is too long', { code: 'x'.repeat(65) }, 'code'],
  ['one with a line break', { code: 'A\nB' }, 'code'],
  ['one that Stripe refuses', { code: 'CAFÉ', stripe: { coupon_id: 'c' } }, 'code'],
  ['a code and a promotion code', { code: 'A', stripe: { promotion_code_id: 'promo_1' } }, 'code'],
  ['an invalid promotion code id', { stripe: { promotion_code_id: 'cou_1' } }, 'stripe'],
  ['no discount', { code: 'A', stripe: { duration: 'once' } }, 'stripe'],
  [
    'a percentage and an amount',
    { code: 'A', stripe: { percent_off: 1, amount_off_cents: 1, duration: 'once' } },
    'stripe',
  ],
  [
    'months for a discount that applies once',
    { code: 'A', stripe: { percent_off: 1, duration: 'once', duration_in_months: 2 } },
    'stripe',
  ],
])('a code is refused: %s', async (_, code, field) => {
  const answer = await post('/api/v1/codes', { partner_id: program.partnerId, ...code }, { databaseRequests: 1 })
  expect([answer.status, answer.body.error.details?.[0].field.split('.')[0]]).toEqual([400, field])
})

test.each([
  ['two for every sale', [{ commission_bp: 1 }, { commission_bp: 2 }], 'rules'],
  ['two for one product', [{ product_id: 'prod_1' }, { product_id: 'prod_1', sale_type: null }], 'rules'],
  ['one for a product and a type', [{ product_id: 'prod_1', sale_type: 'payment' }], 'rules.0.sale_type'],
  [
    'a lead amount for a product',
    [{ product_id: 'prod_1', lead_commission_cents: 1 }],
    'rules.0.lead_commission_cents',
  ],
  ['more than 100%', [{ commission_bp: 10_001 }], 'rules.0.commission_bp'],
  ['an amount below zero', [{ commission_fixed_cents: -1 }], 'rules.0.commission_fixed_cents'],
  ['no months', [{ commission_duration_months: 0 }], 'rules.0.commission_duration_months'],
  ['an amount that is too large', [{ lifetime_cap_cents: 1e15 }], 'rules.0.lifetime_cap_cents'],
  ['an invalid type', [{ sale_type: '\0' }], 'rules.0.sale_type'],
  ['fifty-one', Array.from({ length: 51 }, (_, n) => ({ product_id: `prod_${n}` })), 'rules'],
])('rules are refused: %s', async (_, rules, field) => {
  const answer = await post('/api/v1/groups', { name: crypto.randomUUID(), rules }, { databaseRequests: 1 })
  expect([answer.status, answer.body.error.details?.[0].field]).toEqual([400, field])
})

test.each<[string, string, string, (ids: { partner: number; group: number }) => object]>([
  ['a link', '/api/v1/links', 'partner_id', ({ partner }) => ({ partner_id: partner })],
  ['a code', '/api/v1/codes', 'partner_id', ({ partner }) => ({ partner_id: partner, code: 'FOREIGN' })],
  [
    'an adjustment',
    '/api/v1/adjustments',
    'partner_id',
    ({ partner }) => ({ partner_id: partner, amount_cents: 100, note: 'Bonus' }),
  ],
  ['a partner', '/api/v1/partners', 'group_id', ({ group }) => ({ name: 'Grouped', group_id: group })],
])("%s with an unknown or another program's partner or group is not found", async (_, path, field, body) => {
  const { group } = (await post('/api/v1/groups', { name: crypto.randomUUID() }, { key: other.apiKey })).body
  for (const ids of [
    { partner: other.partnerId, group: group.id },
    { partner: 999_999_999, group: 999_999_999 },
  ]) {
    const answer = await post(path, body(ids))
    expect([answer.status, answer.body.error.code]).toEqual([404, 'not_found'])
    expect(answer.body.error.details[0].field).toBe(field)
  }
})

test('a partner includes ten links, and a flag if more exist', async () => {
  const { id } = (await post('/api/v1/partners', { name: 'Many links', code: 'many-0' })).body.partner
  await api.rows(
    `insert into referral_links (program_id, partner_id, code) select $1, $2, 'many-' || n from generate_series(1, 9) n returning id`,
    [program.programId, id],
  )
  const codes = Array.from({ length: 10 }, (_, n) => `many-${n}`)
  const read = async () => {
    const one = (await get(`/api/v1/partners/${id}`)).body.partner
    expect((await get('/api/v1/partners?code=many-0')).body.data).toEqual([one])
    expect(one.links.map(({ code }: { code: string }) => code)).toEqual(codes)
    return one.has_more_links
  }
  expect(await read()).toBe(false)
  await post('/api/v1/links', { partner_id: id, code: 'many-10' })
  expect(await read()).toBe(true)
  expect((await patch(`/api/v1/partners/${id}`, { status: 'active' })).body.partner.links).toHaveLength(10)
  expect((await get(`/api/v1/links?partner_id=${id}`)).body.data).toHaveLength(11)
})

test("the API can't change a person's own data", async () => {
  expect(await patch(`/api/v1/partners/${program.partnerId}`, { name: 'Other' })).toMatchObject({
    status: 409,
    body: { error: { code: 'conflict' } },
  })
})

test.for([
  ['', null],
  [
    'group_by=partner&interval=day&time_zone=Asia/Kolkata&metrics=clicks,revenue_cents&sort=revenue_cents&order=asc&limit=1',
    null,
  ],
  ['group_by=utm_source&from=2026-01-01&to=2028-12-31&interval=week&currency=eur', null],
  ['time_zone=europe/berlin', null],
  ['metrics=clicks', null],
  ['group_by=city', 'group_by'],
  ['group_by=', 'group_by'],
  ['group_by=link&group_by=page', 'group_by'],
  ['from=2026-02-30', 'from'],
  ['from=0001-01-01', 'from'],
  ['from=2026-01-01T00:00:00Z', 'from'],
  ['from=2026-01-02&to=2026-01-01', 'to'],
  ['from=2023-01-01&to=2026-01-05', 'to'],
  ['from=2999-01-01', 'to'],
  ['time_zone=Mars/Olympus', 'time_zone'],
  ['time_zone=%2B05:30', 'time_zone'],
  ['time_zone=', 'time_zone'],
  ['interval=minute', 'interval'],
  ['interval=hour&from=2026-01-01&to=2026-02-01', 'interval'],
  ['interval=day&from=2026-01-01&to=2027-01-02', 'interval'],
  ['group_by=page&interval=hour&from=2026-01-01&to=2026-01-09&limit=100', 'limit'],
  ['metrics=clicks,money', 'metrics'],
  ['metrics=', 'metrics'],
  ['sort=sales&metrics=clicks', 'sort'],
  ['sort=value', 'sort'],
  ['order=up', 'order'],
  ['limit=1e1', 'limit'],
  ['currency=USD', 'currency'],
] as const)('performance?%s is checked, and the invalid field is %s', async ([query, field]) => {
  const { status, body } = await get(`/api/v1/performance?${query}`, { databaseRequests: field === null ? 2 : 1 })
  expect([status, body.error?.details[0].field ?? null]).toEqual([field === null ? 200 : 400, field])
})

test("performance shows only the program's own figures", async () => {
  const shop = await api.program({ name: 'Counted' })
  const clickId = await api.click(shop, {
    affiliate_url: `https://shop.example.com/?aff=${shop.partnerCode}&utm_source=mail`,
  })
  await api.call(
    '/api/v1/track/sale',
    { transaction_id: 'grouped', customer_key: 'buyer', click_id: clickId, amount_cents: 5000 },
    { key: shop.apiKey },
  )
  const query = 'group_by=utm_source&interval=month&metrics=clicks,sales,revenue_cents,conversion_rate'
  const read = async () => (await get(`/api/v1/performance?${query}`, { key: shop.apiKey })).body
  expect(await read()).toMatchObject({ total: { clicks: 0, revenue_cents: 0 }, data: [] })
  while ((await countClicks(api.stack.db, 1000)) + (await countFigures(api.stack.db, 1000)) > 0);
  const figures = { clicks: 1, sales: 1, revenue_cents: 5000, conversion_rate: 100 }
  const { total, data, ...request } = await read()
  expect(request).toMatchObject({ group_by: 'utm_source', time_zone: 'UTC', interval: 'month', currency: 'usd' })
  expect(total).toMatchObject(figures)
  expect(data).toEqual([{ value: 'mail', ...figures, intervals: expect.any(Array) }])
  expect((await get('/api/v1/performance?group_by=utm_source', { key: other.apiKey })).body.data).toEqual([])
})

test("links can be added and changed, but only on the program's domain and for active partners", async () => {
  const created = await post('/api/v1/partners', { name: 'Linked' })
  const partner_id = created.body.partner.id
  const { domain } = (await api.rows('select domain from programs where id = $1', [program.programId]))[0]
  const request = {
    partner_id,
    code: 'spring-sale',
    page_url: `https://${domain}/spring`,
    metadata: { a: 'b' },
    external_id: 'l1',
  }
  const { link } = (await post('/api/v1/links', request)).body
  expect(link).toMatchObject({
    ...request,
    url: `https://${domain}/spring?aff=spring-sale`,
    status: 'active',
    clicks: 0,
  })
  expect((await get('/api/v1/links?code=SPRING-sale')).body.data).toEqual([link])
  const path = `/api/v1/links/${link.id}`
  expect((await get(path)).body).toEqual({ success: true, link })
  expect((await get(path, { key: other.apiKey })).status).toBe(404)
  const page_url = 'https://elsewhere.example/'
  expect((await patch(path, { page_url }, { databaseRequests: 1 })).body.error.details[0].field).toBe('page_url')
  expect((await patch(path, { status: 'inactive', page_url: null })).body.link).toMatchObject({
    status: 'inactive',
    page_url: null,
  })
  await patch(`/api/v1/partners/${partner_id}`, { name: 'Still off' })
  expect((await get(`/api/v1/links?external_id=l1`)).body.data[0].status).toBe('inactive')
  await patch(`/api/v1/partners/${partner_id}`, { status: 'inactive' })
  expect((await patch(path, { status: 'active' })).status).toBe(409)
  expect((await post('/api/v1/links', { partner_id })).status).toBe(409)
  expect((await post('/api/v1/links', { partner_id: program.partnerId, code: 'SPRING-SALE' })).status).toBe(409)
  expect((await post('/api/v1/links', { partner_id: program.partnerId, external_id: 'l1' })).status).toBe(409)
})

test('a customer, their sale and its commission can be read by their ids', async () => {
  const click_id = await api.click(program)
  const customer_key = 'user 1/ö'
  await api.call('/api/v1/track/lead', { customer_key, click_id }, key)
  await api.call(salePath, { transaction_id: 'order/1', customer_key, amount_cents: 5000 }, key)
  await api.call(refundPath, { transaction_id: 'order/1', refund_amount_cents: 1000 }, key)
  const { customer } = (await get(`/api/v1/customers/${click_id}`)).body
  expect(customer).toMatchObject({ click_id, customer_key, status: 'conversion', partner_id: program.partnerId })
  expect((await get(`/api/v1/customers/${encodeURIComponent(customer_key)}`)).body.customer).toEqual(customer)
  const { sale } = (await get(`/api/v1/sales/${encodeURIComponent('order/1')}`)).body
  expect(sale).toMatchObject({
    click_id,
    customer_key,
    amount_cents: 5000,
    refunded_cents: 1000,
    commission: { status: 'refunded', amount_cents: 1000, reversed_cents: 200 },
  })
  expect((await get(`/api/v1/sales?customer_key=${encodeURIComponent(customer_key)}`)).body.data).toEqual([sale])
  const of = (list: string, partnerId: number) => get(`/api/v1/${list}?partner_id=${partnerId}`)
  expect((await of('sales', program.partnerId)).body.data).toContainEqual(sale)
  expect((await of('sales', program.partnerId + 1)).body.data).not.toContainEqual(sale)
  const visitor = await api.click(program)
  const theirs: { click_id: string }[] = (await of('customers', program.partnerId)).body.data
  expect(theirs).toContainEqual(customer)
  expect(theirs.map((one) => one.click_id)).not.toContain(visitor)
  expect((await of('customers', program.partnerId + 1)).body.data).not.toContainEqual(customer)
  const { data } = (await get('/api/v1/commissions?transaction_id=order%2F1')).body
  expect(data).toMatchObject([{ id: sale.commission.id, transaction_id: 'order/1', sale_cents: 5000 }])
  // A refund changes the sale and its commission. The customer isn't changed by the refund or by another click.
  const since = new Date(Date.parse(sale.updated_at) + 1).toISOString()
  const changed = async (list: string) => (await get(`/api/v1/${list}?updated_since=${since}`)).body.data
  expect([await changed('sales'), await changed('commissions'), await changed('customers')]).toEqual([[], [], []])
  await api.call(refundPath, { transaction_id: 'order/1', refund_amount_cents: 500 }, key)
  await api.call(refundPath, { transaction_id: 'order/1', refund_amount_cents: 500 }, key)
  await api.call(clickPath, {
    affiliate_url: `https://a.example/?aff=${program.partnerCode}`,
    existing_click_id: click_id,
  })
  expect(await changed('sales')).toMatchObject([{ transaction_id: 'order/1', refunded_cents: 1500 }])
  expect(await changed('commissions')).toMatchObject([{ id: sale.commission.id, reversed_cents: 300 }])
  expect(await changed('customers')).toEqual([])
  expect((await get('/api/v1/customers/nobody')).status).toBe(404)
  expect((await get('/api/v1/sales/nothing')).status).toBe(404)
})

test("a payout that doesn't arrive is marked as returned or failed, and its money is payable again", async () => {
  for (const [status, opposite] of [
    ['returned', 'failed'],
    ['failed', 'returned'],
  ] as const) {
    await approve(await sell())
    const run = (await post('/api/v1/payout-runs', {})).body.payout_run
    const [{ id, amount_cents }] = (await get(`/api/v1/payout-runs/${run.id}`)).body.payout_run.payout_list
    const payout = `/api/v1/payouts/${id}`
    const { created_at, updated_at } = (await get(payout)).body.payout
    expect(updated_at).toBe(created_at)
    const transfer = { amount_cents, reference: 'transfer 9', paid_on: today }
    expect((await patch(payout, { status, reason: 'Account closed' })).status).toBe(409)
    await patch(payout, { status: 'paid', ...transfer })
    const since = new Date(Date.parse(updated_at) + 1).toISOString()
    expect((await get(`/api/v1/payouts?updated_since=${since}`)).body.data).toMatchObject([{ id, status: 'paid' }])
    expect((await patch(payout, { status }, { databaseRequests: 1 })).status).toBe(400)
    expect((await patch(payout, { status, ...transfer }, { databaseRequests: 1 })).status).toBe(400)
    for (let time = 0; time < 2; time++) {
      const answer = await patch(payout, { status, reason: 'Account closed' })
      expect(answer.body.payout).toMatchObject({ id, status, reason: 'Account closed', amount_cents })
    }
    expect((await patch(payout, { status: opposite, reason: 'x' })).status).toBe(409)
    expect((await patch(payout, { status: 'paid', ...transfer })).status).toBe(409)
    expect((await get(`/api/v1/payouts?status=${status}`)).body.data).toMatchObject([{ id }])
    const again = (await post('/api/v1/payout-runs', {})).body.payout_run
    const [next] = (await get(`/api/v1/payout-runs/${again.id}`)).body.payout_run.payout_list
    expect(next).toMatchObject({ status: 'in_run', amount_cents })
    await patch(`/api/v1/payouts/${next.id}`, { status: 'paid', ...transfer })
  }
})

test("decisions about money follow the dashboard's rules, and repeats change nothing", async () => {
  const commission = await sell()
  const path = `/api/v1/commissions/${commission}`
  for (let time = 0; time < 2; time++) {
    expect((await approve(commission)).body.commission).toMatchObject({ status: 'approved' })
  }
  const run = (await post('/api/v1/payout-runs', {})).body.payout_run
  const whole = (await get(`/api/v1/payout-runs/${run.id}`)).body.payout_run
  expect(whole).toMatchObject({ status: 'open', payouts: 1, payout_list: [{ status: 'in_run' }], excluded: [] })
  const [{ id, amount_cents }] = whole.payout_list
  const payout = `/api/v1/payouts/${id}`
  const transfer = { status: 'paid', amount_cents, reference: 'transfer 1', paid_on: today }
  expect((await patch(payout, { ...transfer, amount_cents: amount_cents + 1 })).status).toBe(409)
  expect((await patch(payout, { ...transfer, reason: 'x' }, { databaseRequests: 1 })).status).toBe(400)
  for (const day of ['9999-12-31', '0026-11-20'])
    expect((await patch(payout, { ...transfer, paid_on: day }, { databaseRequests: 1 })).status).toBe(400)
  const closed = await patch(payout, { ...transfer, paid_on: '2019-01-31' })
  expect(closed.body.error).toMatchObject({ code: 'invalid_request', details: [{ field: 'paid_on' }] })
  expect((await patch(payout, { status: 'returned', reason: 'Not sent yet' })).status).toBe(409)
  expect((await patch(payout, { status: 'paid' }, { databaseRequests: 1 })).status).toBe(400)
  for (let time = 0; time < 2; time++) {
    expect((await patch(payout, transfer)).body.payout).toMatchObject({
      status: 'paid',
      reference: 'transfer 1',
      paid_on: today,
    })
  }
  expect((await patch(payout, { status: 'refused', reason: 'late' })).status).toBe(409)
  expect((await get(payout)).body.payout).toMatchObject({ status: 'paid' })
  expect((await get(`${payout}/lines`)).body.data).toMatchObject([
    { cause: 'commission_credited', commission_id: commission, amount_cents, entry_cents: amount_cents },
  ])
  expect((await get(`/api/v1/payouts/${id + 999}/lines`)).status).toBe(404)
  expect((await get('/api/v1/commissions')).body.data).toContainEqual(
    expect.objectContaining({ id: commission, status: 'paid', payout_id: id }),
  )
  expect((await get(`/api/v1/payouts?payout_run_id=${run.id}&status=paid`)).body.data).toHaveLength(1)
  expect((await post('/api/v1/payout-runs', {})).status).toBe(409)
  for (let time = 0; time < 2; time++) {
    const rejected = await patch(path, { status: 'rejected', reason: 'Self-referral' })
    expect(rejected.body.commission).toMatchObject({ status: 'reversed', reason: 'Self-referral' })
  }
  expect((await approve(commission)).status).toBe(409)
})
