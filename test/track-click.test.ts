import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { UAParser } from 'ua-parser-js'
import { afterEach, describe, expect, test, vi } from 'vitest'
import trackClick from '../functions/track-click.ts'
import { proveDomain } from '../lib/programs/domain-proof.ts'
import { addLink } from '../lib/programs/links.ts'
import { addPartner } from '../lib/programs/partners.ts'
import { programDefaults, updateProgram } from '../lib/programs/programs.ts'
import { countClicks } from '../lib/tracking/clicks.ts'
import { readPerformance } from '../lib/tracking/performance.ts'
import { visitorDevice } from '../lib/tracking/visitor.ts'
import { clickPath, leadPath, salePath, startTrackingApi, times } from './support/api.ts'

const api = await startTrackingApi({ functions: ['track-click', 'track-lead', 'track-sale'] })
const program = await api.program()
const url = `https://shop.example.com/?aff=${program.partnerCode}`

const chrome =
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36'
const iphone =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1'

const customerOf = async (clickId: string) =>
  (
    await api.rows(
      `select c.id, c.program_id, c.customer_status, c.partner_id, l.code, c.last_click_at
       from customers c join referral_links l on l.id = c.link_id where click_id = $1`,
      [clickId],
    )
  )[0]
const eventsOf = (clickId: string) =>
  api.rows(
    `select e.*, l.code from customers c join affiliate_click_events e on e.program_id = c.program_id and e.customer_id = c.id
     join referral_links l on l.id = e.link_id where c.click_id = $1 order by e.click_timestamp`,
    [clickId],
  )
const linkOf = async (code: string) => {
  const [link] = await api.rows(
    `select coalesce(k.clicks, 0)::int as clicks, k.last_clicked_at as last_clicked
     from referral_links l left join link_click_counts k on k.link_id = l.id where l.code = $1`,
    [code],
  )
  return link
}

describe('processing of a click', () => {
  test('responds with click_id, partner_code and cookie_window_days, and nothing else', async () => {
    const { status, body } = await api.call(clickPath, { affiliate_url: url })
    expect(status).toBe(200)
    expect(body).toEqual({
      success: true,
      click_id: expect.stringMatching(/^cust_\d{13}_\d+$/),
      partner_code: program.partnerCode,
      cookie_window_days: 30,
    })
  })

  test('a click call without a matching existing_click_id creates a customer in `click` with a new click id', async () => {
    const first = await api.click(program)
    const second = await api.click(program)
    expect(second).not.toBe(first)
    expect(await customerOf(first)).toMatchObject({ customer_status: 'click', program_id: String(program.programId) })
  })

  test('a click call with a matching existing_click_id reuses the customer and creates a click event', async () => {
    const clickId = await api.click(program)
    const { id, last_click_at: firstClick } = await customerOf(clickId)
    expect(await api.click(program, { existing_click_id: clickId })).toBe(clickId)
    expect(await eventsOf(clickId)).toHaveLength(2)
    const after = await customerOf(clickId)
    expect(after.id).toBe(id)
    expect(after.last_click_at.getTime()).toBeGreaterThanOrEqual(firstClick.getTime())
  })

  test('the click event stores every field of the request, and the fields that the service derives', async () => {
    const sent = {
      affiliate_url: `${url}&utm_source=mail`,
      page_url: 'https://shop.example.com/',
      page_title: 'Shop „ü“ 🛒',
      referrer_url: 'https://blog.example.org/post',
      session_id: 'session-1',
      user_agent: chrome,
      screen_resolution: '1920x1080',
      viewport_size: '1280x720',
      language: 'de-AT',
      timezone: 'Europe/Vienna',
      additional_data: { campaign: 'spring', nested: { list: [1, 2] } },
    }
    const { body } = await api.call(clickPath, sent)
    const [event] = await eventsOf(body.click_id)
    expect(event).toMatchObject({
      ...sent,
      geo_country: 'US',
      geo_region: 'California',
      geo_city: 'San Francisco',
      device_type: 'desktop',
      device_os: 'Windows',
      browser_name: 'Chrome',
      is_test: false,
    })
  })

  test('user_agent defaults to the header', async () => {
    const { body } = await api.call(clickPath, { affiliate_url: url }, { headers: { 'user-agent': iphone } })
    expect(await eventsOf(body.click_id)).toMatchObject([
      { user_agent: iphone, device_type: 'mobile', device_os: 'iOS', browser_name: 'Mobile Safari' },
    ])
  })

  test('cuts a long user agent, even inside a character', async () => {
    const long = `${'x'.repeat(2047)}🛒`
    const header = Buffer.from(long).toString('latin1')
    expect((await api.call(clickPath, { affiliate_url: url }, { headers: { 'user-agent': header } })).status).toBe(200)
  })

  test('optional fields may be null or empty', async () => {
    const names = ['page_url', 'page_title', 'referrer_url', 'session_id', 'user_agent', 'language', 'timezone']
    const fields = (value: unknown) => Object.fromEntries([...names, 'existing_click_id'].map((name) => [name, value]))
    expect((await api.call(clickPath, { affiliate_url: url, ...fields(null) })).status).toBe(200)
    expect((await api.call(clickPath, { affiliate_url: url, ...fields('') })).status).toBe(200)
  })

  test("updates the link's clicks and last_clicked, the partner's metric for the program, and the day's totals", async () => {
    const other = await api.program()
    const code = `${other.partnerCode}-2`
    await addLink(api.stack.db, { programId: other.programId, partnerId: other.partnerId, code, pageUrl: null })
    const started = Date.now()
    const clickId = await api.click(other)
    await api.click(other, { existing_click_id: clickId })
    await api.click(other, { affiliate_url: `https://shop.example.com/?aff=${code}`, existing_click_id: clickId })
    expect(await linkOf(other.partnerCode)).toMatchObject({ clicks: 2 })
    const second = await linkOf(code)
    expect(second.clicks).toBe(1)
    expect(second.last_clicked.getTime()).toBeGreaterThanOrEqual(started - 1000)
    const [partner] = await api.rows(
      `select sum(k.clicks)::int as clicks from link_click_counts k join referral_links l on l.id = k.link_id
       where l.program_id = $1 and l.partner_id = $2`,
      [other.programId, other.partnerId],
    )
    expect(partner).toEqual({ clicks: 3 })
    const { metrics } = await readPerformance(
      api.stack.db,
      { id: other.programId, currency: 'usd', createdAt: new Date(started) },
      {},
    )
    expect(metrics.totalClicks).toBe(3)
  })

  test('twenty clicks of one visitor at once are twenty events of one customer', async () => {
    const busy = await api.program()
    const clickId = await api.click(busy)
    const body = { affiliate_url: `https://x.example.com/?aff=${busy.partnerCode}`, existing_click_id: clickId }
    const answers = await api.callAll(
      clickPath,
      times(20, () => body),
    )
    expect(new Set(answers.map((answer) => answer.body.click_id))).toEqual(new Set([clickId]))
    expect(await eventsOf(clickId)).toHaveLength(21)
    expect(await linkOf(busy.partnerCode)).toMatchObject({ clicks: 21 })
  })
})

describe('ignores an existing_click_id that belongs to no customer of the program', async () => {
  const tenant = await api.program()
  const foreign = await api.click(tenant)
  test.for([
    ['of another program and tenant', foreign],
    ['that was never issued', `cust_1767225600000_${'7'.repeat(20)}${program.programId}`],
    ['that is not a click id', 'hello'],
    ['with an SQL quote', "cust_1767225600000_1' or '1'='1"],
  ] as const)('%s', async ([, existing]) => {
    const clickId = await api.click(program, { existing_click_id: existing })
    expect(clickId).not.toBe(existing)
    expect(await customerOf(clickId)).toMatchObject({ program_id: String(program.programId) })
    expect(await eventsOf(foreign)).toHaveLength(1)
  })
})

describe('attribution model', () => {
  test.for([
    ['last_click moves a customer in `click` to the new link', 'last_click', 'click', true],
    ["first_click doesn't move it", 'first_click', 'click', false],
    ["last_click doesn't move a customer in `lead`", 'last_click', 'lead', false],
    ["last_click doesn't move a customer in `conversion`", 'last_click', 'conversion', false],
  ] as const)('%s', async ([, model, status, moves]) => {
    const own = await api.program({ attribution_model: model })
    const second = await addPartner(api.stack.db, {
      programId: own.programId,
      name: 'Second',
      email: null,
      code: null,
    })
    const clickId = await api.click(own)
    const key = { key: own.apiKey }
    if (status === 'lead') await api.call(leadPath, { customer_key: 'u', click_id: clickId }, key)
    if (status === 'conversion') {
      await api.call(salePath, { transaction_id: 't', customer_key: 'u', click_id: clickId, amount_cents: 100 }, key)
    }
    const affiliate_url = `https://shop.example.com/?aff=${second.code}`
    const again = await api.call(clickPath, { affiliate_url, existing_click_id: clickId })
    expect(again.body).toMatchObject({ click_id: clickId, partner_code: second.code })
    expect(await customerOf(clickId)).toMatchObject(
      moves
        ? { partner_id: String(second.partnerId), code: second.code }
        : { partner_id: String(own.partnerId), code: own.partnerCode, customer_status: status },
    )
    expect((await eventsOf(clickId)).map(({ code }) => code)).toEqual([own.partnerCode, second.code])
  })
})

describe('keeps the campaign parameters of the link', () => {
  test.for([
    [
      'fully',
      '&utm_source=mail&utm_medium=email&utm_campaign=spring&utm_term=shoes&utm_content=top&sub1=a&sub2=b&sub3=c',
      {
        utm_source: 'mail',
        utm_medium: 'email',
        utm_campaign: 'spring',
        utm_term: 'shoes',
        utm_content: 'top',
        sub1: 'a',
        sub2: 'b',
        sub3: 'c',
      },
    ],
    ['none', '', null],
    ['nothing else', '&utm_id=1&sub4=x&UTM_SOURCE=x&gclid=y', null],
    ['no empty values', '&utm_source=&sub1=%20&sub2=x', { sub2: 'x' }],
    ['the first of several values', '&sub1=a&sub1=b', { sub1: 'a' }],
    ['decoded and trimmed', '&utm_campaign=%C3%BC+%F0%9F%9B%92+', { utm_campaign: 'ü 🛒' }],
    ["no NUL, which Postgres can't store", '&sub1=%00a%00', { sub1: 'a' }],
    ['invalid UTF-8 as a replacement character', '&sub1=%ff', { sub1: '\ufffd' }],
    ['200 characters, cut inside a character', `&sub1=${'x'.repeat(199)}🛒`, { sub1: `${'x'.repeat(199)}\ufffd` }],
    ['nothing from the hash', '#utm_source=x', null],
  ] as const)('%s', async ([, query, campaign]) => {
    const { body } = await api.call(clickPath, { affiliate_url: `${url}${query}` })
    expect(await eventsOf(body.click_id)).toMatchObject([{ campaign }])
  })
})

describe('a bot, by its user agent,', () => {
  const mozilla = 'Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible;'
  test.for([
    'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)',
    'Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36 (compatible; GoogleOther)',
    'Mediapartners-Google',
    'Mozilla/5.0 (Windows NT 6.1; WOW64) AppleWebKit/534+ (KHTML, like Gecko) BingPreview/1.0b',
    'Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)',
    'Mozilla/5.0 (compatible; YandexImages/3.0; +http://yandex.com/bots)',
    'facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)',
    'meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)',
    'WhatsApp/2.23.20.0 A',
    'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)',
    `${mozilla} ChatGPT-User/1.0; +https://openai.com/bot)`,
    `${mozilla} PerplexityBot/1.0; +https://perplexity.ai/perplexitybot)`,
    'Mozilla/5.0 (Linux; Android 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 (compatible; Bytespider; spider-feedback@bytedance.com)',
    'Screaming Frog SEO Spider/19.4',
    'ia_archiver (+http://www.alexa.com/site/help/webmasters; crawler@alexa.com)',
    'Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)',
    'Mozilla/5.0 (Linux; Android 11; moto g power) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36 Chrome-Lighthouse',
  ])('%s', async (agent) => {
    expect(await visitorDevice(agent)).toMatchObject({ device_type: 'bot' })
  })

  test.for([
    [chrome, 'desktop'],
    [iphone, 'mobile'],
    [
      'Mozilla/5.0 (Linux; Android 10; CUBOT X30) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36',
      'mobile',
    ],
    [
      'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [FBAN/FBIOS;FBAV/468.0]',
      'mobile',
    ],
    [
      'Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/AP1A; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/126.0.0.0 Mobile Safari/537.36 Instagram 336.0',
      'mobile',
    ],
    [
      'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 YaBrowser/24.6 Safari/537.36',
      'desktop',
    ],
    [
      'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/126.0.0.0 Safari/537.36',
      'desktop',
    ],
    ['node', null],
    ['curl/8.5.0', null],
    [
      'Mozilla/5.0 (Windows NT 10.0; Win64; x64; Xbox; Xbox One) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36',
      'console',
    ],
    ['python-requests/2.32.0', null],
    ['', null],
  ] as const)('is not %s', async ([agent, device]) => {
    expect(await visitorDevice(agent)).toMatchObject({ device_type: device })
  })

  test('no desktop browser counts as a bot, and the results match the full parser', async () => {
    const systems = [
      'Windows NT 6.1',
      'Windows NT 10.0; Win64; x64',
      'Macintosh; Intel Mac OS X 10_15_7',
      'X11; Linux x86_64',
    ]
    const browsers = ['Chrome/126.0.0.0 Safari/537.36', 'Version/17.5 Safari/605.1.15', 'Safari/605.1.15'].flatMap(
      (browser) =>
        ['', ' Edg/126.0.0.0', ' OPR/112.0.0.0'].map(
          (more) => `AppleWebKit/537.36 (KHTML, like Gecko) ${browser}${more}`,
        ),
    )
    for (const system of systems) {
      const agents = [
        `(${system}; rv:127.0) Gecko/20100101 Firefox/127.0`,
        ...browsers.map((browser) => `(${system}) ${browser}`),
      ]
      for (const agent of agents.map((rest) => `Mozilla/5.0 ${rest}`)) {
        const parsed = new UAParser(agent)
        expect([agent, parsed.getDevice().type]).toEqual([agent, undefined])
        expect([agent, await visitorDevice(agent)]).toEqual([
          agent,
          { device_type: 'desktop', device_os: parsed.getOS().name, browser_name: parsed.getBrowser().name },
        ])
      }
    }
  })

  test('gets a normal response, is marked, and counts separately', async () => {
    const { partnerCode, programId } = await api.program()
    const click = async (user_agent: string) =>
      (await api.call(clickPath, { affiliate_url: `https://shop.example.com/?aff=${partnerCode}`, user_agent })).body
    const person = await click(chrome)
    const bot = await click('Twitterbot/1.0')
    expect(bot).toEqual({ ...person, click_id: expect.stringMatching(/^cust_/) })
    expect(await eventsOf(bot.click_id)).toMatchObject([{ device_type: 'bot' }])
    const counts = async () => {
      const [link] = await api.rows(
        `select k.clicks::int, k.bot_clicks::int, k.last_clicked_at - e.click_timestamp as since_person
         from link_click_counts k join affiliate_click_events e on e.program_id = k.program_id and e.click_id = $2
         where k.program_id = $1`,
        [programId, person.click_id],
      )
      const { metrics } = await readPerformance(
        api.stack.db,
        { id: programId, currency: 'usd', createdAt: new Date() },
        { dateFrom: new Date(Date.now() - 1000 * 60 * 20), dateTo: new Date() },
      )
      return { ...link, since_person: Object.values(link.since_person), day: metrics.totalClicks }
    }
    const counted = { clicks: 1, bot_clicks: 1, since_person: [], day: 1 }
    expect(await counts()).toEqual(counted)
    while ((await countClicks(api.stack.db, 1000)) > 0);
    expect(await counts()).toEqual(counted)
  })
})

describe('the partner code', async () => {
  const codes = ['Jane.Doe', 'a@b.example', 'under_score', 'da-sh', 'x'.repeat(64), '0']
  for (const code of codes) {
    await addLink(api.stack.db, { programId: program.programId, partnerId: program.partnerId, code, pageUrl: null })
  }
  test.for([
    ['in a different case', '?aff=JANE.DOE', 'Jane.Doe'],
    ['with @', '?aff=a@b.example', 'a@b.example'],
    ['with @, percent-encoded', '?aff=a%40b.example', 'a@b.example'],
    ['with _', '?aff=under_score', 'under_score'],
    ['with -', '?aff=da-sh', 'da-sh'],
    ['of 64 characters', `?aff=${'x'.repeat(64)}`, 'x'.repeat(64)],
    ['of one character', '?aff=0', '0'],
    ['first of several', '?aff=da-sh&aff=under_score', 'da-sh'],
    ['with a slash from a tool', '?aff=da-sh/', 'da-sh'],
    ['with a slash and a query after it', '?aff=da-sh/?utm_source=x', 'da-sh'],
    ['with an encoded & after it', '?aff=da-sh%26utm_source=x', 'da-sh'],
    ['with an encoded ? after it', '?aff=da-sh%3Futm_source=x', 'da-sh'],
    ['with a bracket from the surrounding text', '?aff=da-sh)', 'da-sh'],
    ['with spaces and quotes around it', '?aff=%20%22da-sh%22+', 'da-sh'],
    ['among other parameters', '?utm=1&aff=da-sh&x=2#aff=none', 'da-sh'],
  ] as const)('%s is matched', async ([, query, code]) => {
    const { body } = await api.call(clickPath, { affiliate_url: `https://shop.example.com/landing${query}` })
    expect(body).toMatchObject({ success: true, partner_code: code })
  })
})

const at = (query: string) => ({ affiliate_url: `https://shop.example.com/${query}` })

describe('click errors', async () => {
  const { stack } = api
  const broken = `broken-${program.programId}`
  await stack.sql.query(
    `insert into referral_links (code, program_id, partner_id) values ($1 || '-1', $2, null), ($1 || '-2', null, $3), ($1 || '-3', null, null)`,
    [broken, program.programId, program.partnerId],
  )
  const off = await api.program()
  await stack.sql.query(`update referral_links set is_active = false where program_id = $1`, [off.programId])

  test.for([
    ['400 affiliate_url missing', {}, 400, 'invalid_request'],
    ['400 affiliate_url null', { affiliate_url: null }, 400, 'invalid_request'],
    ['400 affiliate_url empty', { affiliate_url: '' }, 400, 'invalid_request'],
    ['400 affiliate_url not text', { affiliate_url: 7 }, 400, 'invalid_request'],
    ['400 affiliate_url cannot be parsed as a URL', { affiliate_url: 'shop/?aff=x' }, 400, 'invalid_url'],
    ['400 no aff parameter', at(''), 400, 'missing_partner_code'],
    ['400 aff empty', at('?aff='), 400, 'missing_partner_code'],
    ['400 aff in the hash only', at('#aff=x'), 400, 'missing_partner_code'],
    ['400 AFF is not aff', at('?AFF=x'), 400, 'missing_partner_code'],
    ['400 no referral link matches', at('?aff=nobody-has-this'), 400, 'unknown_partner_code'],
    ['400 aff of 65 characters', at(`?aff=${'x'.repeat(65)}`), 400, 'unknown_partner_code'],
    ['400 aff with a space', at('?aff=da+sh'), 400, 'unknown_partner_code'],
    ['400 aff with NUL', at('?aff=%00'), 400, 'unknown_partner_code'],
    ['400 aff that is not UTF-8', at('?aff=%ff%fe'), 400, 'unknown_partner_code'],
    ['400 referral link without partner', at(`?aff=${broken}-1`), 400, 'invalid_link'],
    ['400 referral link without program', at(`?aff=${broken}-2`), 400, 'invalid_link'],
    ['400 referral link without partner and program', at(`?aff=${broken}-3`), 400, 'invalid_link'],
    ['410 referral link inactive', at(`?aff=${off.partnerCode}`), 410, 'link_disabled'],
    ['400 screen_resolution in another form', { ...at('?aff=x'), screen_resolution: 'wide' }, 400, 'invalid_request'],
    ['400 viewport_size in another form', { ...at('?aff=x'), viewport_size: '10' }, 400, 'invalid_request'],
  ] as const)('%s, nothing recorded', async ([, body, status, code]) => {
    const count = `select (select count(*) from affiliate_click_events) + (select count(*) from customers) +
      (select sum(clicks) from link_click_counts) as count`
    const before = await api.rows(count)
    const answer = await api.call(clickPath, body)
    expect(answer).toMatchObject({ status, body: { error: { code } } })
    expect(await api.rows(count)).toEqual(before)
  })

  describe('a click whose tag has a program id', () => {
    test.for([
      ['and the link belongs to another program', () => off, 'unknown_partner_code'],
      ['and the link belongs to it', () => program, undefined],
    ] as const)('%s', async ([, named, code]) => {
      const existing = await api.click(program)
      const before = await customerOf(existing)
      const { programId } = named()
      const body = {
        ...at(`?aff=${program.partnerCode}`),
        existing_click_id: existing,
        additional_data: { program_id: programId },
      }
      const answer = await api.call(clickPath, body)
      if (code === undefined) {
        expect(answer.body).toMatchObject({ success: true, click_id: existing })
        expect((await eventsOf(existing)).map(({ additional_data: stored }) => stored)).toEqual([null, null])
      } else {
        expect(answer).toMatchObject({ status: 400, body: { error: { code } } })
        expect(await customerOf(existing)).toEqual(before)
        expect(await eventsOf(existing)).toHaveLength(1)
      }
    })
  })

  describe('a code of several programs', () => {
    const code = `ann-${program.programId}`
    const addAnn = async (domain: string) => {
      const created = await api.program()
      await stack.sql.query('update programs set domain = $2 where id = $1', [created.programId, domain])
      await stack.sql.query('update referral_links set code = $2 where program_id = $1', [created.programId, code])
      return created.programId
    }
    const clickOn = async (host: string, program_id?: number, test_mode?: true) => {
      const affiliate_url = `https://${host}/?aff=${code.toUpperCase()}`
      const { status, body } = await api.call(clickPath, { affiliate_url, additional_data: { program_id, test_mode } })
      if (status !== 200) return body.error
      if (test_mode) return body.data.programId
      return Number((await customerOf(body.click_id))?.['program_id'])
    }

    test('belongs to the named program, or to the one whose tag was seen on the domain', async () => {
      const first = await addAnn('first.example')
      expect(await clickOn('anywhere.example')).toBe(first)
      const second = await addAnn('second.example:8080')
      const ambiguous = {
        code: 'ambiguous_partner_code',
        message: expect.stringContaining('additional_data.program_id'),
      }
      expect(await clickOn('first.example')).toEqual(ambiguous)
      expect(await clickOn('first.example', undefined, true)).toEqual(ambiguous)
      // On another domain, the tag doesn't verify anything.
      expect(await clickOn('elsewhere.example', first)).toBe(first)
      expect(await clickOn('first.example')).toEqual(ambiguous)
      expect(await clickOn('first.example', first)).toBe(first)
      expect(await clickOn('first.example')).toBe(first)
      expect(await clickOn('www.first.example')).toBe(first)
      expect(await clickOn('www.first.example', undefined, true)).toBe(first)
      expect(await clickOn('notfirst.example')).toEqual(ambiguous)
      expect(await clickOn('app.second.example', second)).toBe(second)
      expect(await clickOn('second.example')).toBe(second)
      expect(await clickOn('first.example', second)).toBe(second)
      expect(await clickOn('first.example', program.programId)).toMatchObject({ code: 'unknown_partner_code' })
    })

    test('goes to the program of the closest verified domain', async () => {
      const above = await addAnn('site.example')
      const below = await addAnn('shop.site.example')
      await clickOn('site.example', above)
      expect(await clickOn('shop.site.example')).toBe(above)
      await clickOn('shop.site.example', below)
      expect(await clickOn('shop.site.example')).toBe(below)
      expect(await clickOn('site.example')).toBe(above)
    })

    test('stays with the first program seen on the domain, whatever clicks a stranger invents', async () => {
      const owner = await addAnn('owned.example')
      await clickOn('owned.example', owner)
      for (const domain of ['owned.example', 'www.owned.example', 'owned.example:8443', 'example']) {
        const stranger = await addAnn(domain)
        expect(await clickOn('www.owned.example', stranger)).toBe(stranger)
        expect(await clickOn('owned.example')).toBe(owner)
        expect(await clickOn('www.owned.example')).toBe(owner)
        expect(await clickOn('nobody.example')).toMatchObject({ code: 'ambiguous_partner_code' })
      }
    })

    test('goes to the program in its TXT record, whatever tags were seen', async () => {
      const [owner, stranger] = [await addAnn('proven.example:8080'), await addAnn('proven.example')]
      await clickOn('proven.example', stranger)
      expect(await clickOn('proven.example')).toBe(stranger)
      const lookups: string[] = []
      const nameService = createServer((request, response) => {
        lookups.push(request.url ?? '')
        const records = ['v=spf1 -all', `svc-program-id=${owner}`]
        response.end(JSON.stringify({ Answer: records.map((text) => ({ type: 16, data: `"${text}"` })) }))
      }).listen(0, '127.0.0.1')
      await once(nameService, 'listening')
      const env = { DNS_OVER_HTTPS_URL: `http://127.0.0.1:${(nameService.address() as AddressInfo).port}` }
      expect(await proveDomain(stack.db, env, { id: stranger, domain: 'proven.example' })).toBe(false)
      expect(await clickOn('proven.example')).toBe(stranger)
      expect(await proveDomain(stack.db, env, { id: owner, domain: 'proven.example:8080' })).toBe(true)
      expect(await clickOn('www.proven.example')).toBe(owner)
      expect(lookups).toEqual(lookups.map(() => '/?name=_svc.proven.example&type=TXT'))
      // The proof covers only that domain.
      await updateProgram(stack.db, owner, { ...programDefaults, name: 'Moved', domain: 'elsewhere.example' })
      expect(await clickOn('proven.example')).toBe(stranger)
      nameService.close()
      await expect(proveDomain(stack.db, env, { id: owner, domain: 'elsewhere.example' })).rejects.toThrow()
    })

    test('needs to be verified again after the domain changed', async () => {
      const moved = await addAnn('moved.example')
      await clickOn('moved.example', moved)
      expect(await clickOn('moved.example')).toBe(moved)
      await updateProgram(stack.db, moved, { ...programDefaults, name: 'Moved', domain: 'new.example' })
      expect(await clickOn('new.example')).toMatchObject({ code: 'ambiguous_partner_code' })
      await clickOn('new.example', moved)
      await updateProgram(stack.db, moved, { ...programDefaults, name: 'Moved', domain: 'new.example' })
      expect(await clickOn('new.example')).toBe(moved)
    })
  })

  test('details contain the refused field', async () => {
    const { body } = await api.call(clickPath, { page_url: 7, additional_data: { program_id: -1 } })
    expect(body.error.details.map(({ field }: { field: string }) => field)).toEqual([
      'affiliate_url',
      'page_url',
      'additional_data.program_id',
    ])
  })
})

describe('test click', async () => {
  const fresh = await api.program()
  await api.stack.sql.query(`delete from referral_links where program_id = $1`, [fresh.programId])
  const test_mode = true
  test.for([
    ["program_id, and aff doesn't match a link", '?aff=none', fresh.programId, fresh.programId],
    ['program_id without aff', '', fresh.programId, fresh.programId],
    ['program_id, and aff contains NUL', '?aff=%00', fresh.programId, fresh.programId],
    ['program_id takes precedence over the link', `?aff=${program.partnerCode}`, fresh.programId, fresh.programId],
    ["without program_id the link's program", `?aff=${program.partnerCode}`, undefined, program.programId],
  ] as const)('%s', async ([, query, program_id, recorded]) => {
    const effects = `select (select count(*) from customers) + (select sum(clicks) from link_click_counts) as n`
    const before = await api.rows(effects)
    const { body, status } = await api.call(clickPath, {
      affiliate_url: `https://shop.example.com/${query}`,
      additional_data: { test_mode, program_id },
    })
    expect(status).toBe(200)
    expect(body).toEqual({
      success: true,
      message: expect.any(String),
      data: { eventId: expect.any(Number), programId: recorded, test_mode: true },
    })
    expect(Number.isSafeInteger(body.data.eventId)).toBe(true)
    expect(
      await api.rows(`select is_test, program_id::int, customer_id from affiliate_click_events where id = $1`, [
        body.data.eventId,
      ]),
    ).toEqual([{ is_test: true, program_id: recorded, customer_id: null }])
    expect(await api.rows(effects)).toEqual(before)
  })

  test.for([
    ['400 neither link nor program', '?aff=none', undefined, 'unknown_partner_code'],
    ['400 neither aff nor program', '', undefined, 'missing_partner_code'],
    ['400 program_id of a missing program', '?aff=none', 999_999_999, 'invalid_request'],
    ['400 program_id not an integer', '?aff=none', 1.5, 'invalid_request'],
    ['400 program_id above 2^53', '?aff=none', 2 ** 53, 'invalid_request'],
  ] as const)('%s', async ([, query, program_id, code]) => {
    const answer = await api.call(clickPath, {
      affiliate_url: `https://shop.example.com/${query}`,
      additional_data: { test_mode, program_id },
    })
    expect(answer).toMatchObject({ status: 400, body: { error: { code } } })
  })

  test('a program accepts a thousand test clicks and leads without a key per day, with any aff value', async () => {
    const full = await api.program()
    const additional_data = { test_mode, program_id: full.programId }
    const send = {
      program: () => api.call(clickPath, { affiliate_url: 'https://shop.example.com/', additional_data }),
      link: () => {
        const affiliate_url = `https://shop.example.com/?aff=${full.partnerCode}`
        return api.call(clickPath, { affiliate_url, additional_data: { test_mode } })
      },
      lead: () => api.call(leadPath, { customer_key: 'u', additional_data }),
    }
    const events = async () =>
      await api.rows(
        `select (select count(*)::int from affiliate_click_events where is_test and program_id = $1) as clicks,
          (select count(*)::int from affiliate_lead_events where is_test and program_id = $1) as leads`,
        [full.programId],
      )
    for (const call of Object.values(send)) expect((await call()).status).toBe(200)
    const setTo = 'update public_test_events set events = $2, day = day - $3::integer where program_id = $1'
    await api.stack.sql.query(setTo, [full.programId, 999, 0])
    expect((await send.program()).status).toBe(200)
    expect(await events()).toEqual([{ clicks: 3, leads: 1 }])
    for (const call of Object.values(send)) {
      const refused = await call()
      expect(refused).toMatchObject({ status: 429, body: { error: { code: 'rate_limited' } } })
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    }
    expect(await events()).toEqual([{ clicks: 3, leads: 1 }])
    const keyed = await api.call(leadPath, { customer_key: 'u', additional_data }, { key: full.apiKey })
    expect(keyed.status).toBe(200)
    await api.stack.sql.query(setTo, [full.programId, 1000, 1])
    expect((await send.program()).status).toBe(200)
  })

  test('a click with test_mode false is a real click', async () => {
    const clickId = await api.click(program, { additional_data: { test_mode: false } })
    expect(await eventsOf(clickId)).toHaveLength(1)
  })
})

/** Sends clicks as one isolate of a Worker would, and records its counting requests. */
async function clicking(fetch: () => Promise<Response>) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: Date.now() + 3_600_000 })
  const waited: Promise<unknown>[] = []
  const context = {
    waitUntil: (promise: Promise<unknown>) => waited.push(promise),
    passThroughOnException() {},
    props: {},
  }
  const init = {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ affiliate_url: url }),
  }
  const click = async () => {
    const response = await trackClick.request('/', init, { ...api.stack.env, COUNT: { fetch } }, context)
    expect(response.status).toBe(200)
  }
  return { click, waited }
}

describe('counting', () => {
  afterEach(() => vi.useRealTimers())

  test('is requested once for all clicks of 25 seconds, and delays no response', async () => {
    const fetch = vi.fn(() => Promise.resolve(new Response()))
    const { click, waited } = await clicking(fetch)
    await click()
    await click()
    await vi.advanceTimersByTimeAsync(24_900)
    await click()
    expect([fetch.mock.calls.length, waited.length]).toEqual([0, 1])
    await vi.advanceTimersByTimeAsync(100)
    expect(fetch).toHaveBeenCalledTimes(1)
    await click()
    await vi.advanceTimersByTimeAsync(25_000)
    expect(fetch).toHaveBeenCalledTimes(2)
  })

  test('can fail without failing a click, and is then requested again', async () => {
    const fetch = vi.fn(() => Promise.reject(new Error('unreachable')))
    const { click, waited } = await clicking(fetch)
    await vi.advanceTimersByTimeAsync(60_000)
    await click()
    await vi.advanceTimersByTimeAsync(25_000)
    await expect(Promise.all(waited)).resolves.toBeDefined()
    await click()
    await vi.advanceTimersByTimeAsync(25_000)
    expect(fetch).toHaveBeenCalledTimes(2)
  })
})
