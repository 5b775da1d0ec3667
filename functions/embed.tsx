import { html } from 'hono/html'
import { Hono } from 'hono/tiny'
import { createEmbedToken, type EmbedEnv, readEmbedToken } from '../lib/access/embed-tokens.ts'
import { createApp, limitBody, onlyMethods } from '../lib/api/app.ts'
import type { KeyedEnv } from '../lib/api/api-key.ts'
import { newEmbedToken } from '../lib/api/embed-tokens.ts'
import { accept } from '../lib/api/input.ts'
import { createProgramApi, known, withKey } from '../lib/api/program-key.ts'
import { clientAddress, enforceRateLimit } from '../lib/api/rate-limits.ts'
import { openDatabase } from '../lib/database.ts'
import { ApiError } from '../lib/errors.ts'
import { chooseLanguage } from '../lib/languages.ts'
import { findOrAddPartner, readEmbeddedPortal, readEmbedFrame } from '../lib/programs/embedding.ts'
import { RequestContext } from './dashboard/components/request.ts'
import { type PageTexts, textsIn } from './dashboard/components/text.tsx'
import { FramePage, Portal } from './embed/portal.tsx'
import { script } from './embed/script.ts'
import { style } from './embed/style.ts'

/**
 * The portal inside a program's own product. The program's server creates a token, its page passes the token to the frame by message, and
 * the frame reads the portal with it. The portal doesn't have cookies or forms that change anything.
 */
const app = createApp<KeyedEnv & EmbedEnv>()

const tokens = createProgramApi<EmbedEnv>()
const tokensPath = '/api/v1/embed-tokens'
tokens.post(tokensPath, limitBody, withKey('manage'), accept('json', newEmbedToken, known), async (c) => {
  const programId = c.get('programId')
  const partnerId = await findOrAddPartner(c.get('db'), programId, c.req.valid('json'))
  const { token, expiresAt } = createEmbedToken(c.env, { programId, partnerId })
  return c.json({ success: true, token, expires_at: expiresAt.toISOString(), partner_id: partnerId }, 201)
})
tokens.all(tokensPath, onlyMethods('POST'))
app.route('/', tokens)

app.use('/embed/*', async (c, next) => {
  await next()
  c.res.headers.set('X-Content-Type-Options', 'nosniff')
  c.res.headers.set('Referrer-Policy', 'no-referrer')
  if (!c.res.headers.has('Cache-Control')) c.res.headers.set('Cache-Control', 'no-store')
})

const fileHeaders = (type: string) => ({
  'Content-Type': `text/${type}; charset=utf-8`,
  'Cache-Control': 'public, max-age=300',
})
app.get('/embed/portal.js', (c) => c.body(script, 200, fileHeaders('javascript')))
app.get('/embed/portal.css', (c) => c.body(style, 200, fileHeaders('css')))

const idOf = (text: string): number => (/^[1-9]\d{0,14}$/.test(text) ? Number(text) : 0)

/** GET /embed/:programId, public: the empty page of the frame. Only the program's origins may show it. */
const framePath = '/embed/:programId'
app.get(framePath, async (c) => {
  await enforceRateLimit(c.env.RATE_LIMIT, clientAddress(c))
  const programId = c.req.param('programId')
  const { origins, color } = await readEmbedFrame(openDatabase(c.env), idOf(programId))
  const ancestors = origins.length === 0 ? "'none'" : origins.join(' ')
  c.header(
    'Content-Security-Policy',
    `default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors ${ancestors}`,
  )
  if (origins.length === 0) return c.html('<!doctype html><p>No page may show the portal of this program.</p>', 404)
  const texts = textsIn(chooseLanguage([], c.req.header('accept-language')))
  return c.html(
    html`<!doctype html>${<FramePage programId={programId} origins={origins} color={color} texts={texts} />}`,
  )
})
app.all(framePath, onlyMethods('GET', 'HEAD'))

/** GET /embed/:programId/portal, with a token: the portal as HTML. `page` creates a link, and `before` returns older commissions. */
const portalPath = '/embed/:programId/portal'
const portals = new Hono<{ Bindings: KeyedEnv & EmbedEnv; Variables: { texts: PageTexts } }>()
portals.get(portalPath, async (c) => {
  await enforceRateLimit(c.env.RATE_LIMIT, clientAddress(c))
  // Browsers send this header. Only the frame itself may use a token, not another page that got hold of it.
  if ((c.req.header('sec-fetch-site') ?? 'same-origin') !== 'same-origin')
    throw new ApiError('forbidden', 'Only the frame of the portal can use this token.')
  const { programId, partnerId } = await readEmbedToken(c.env, c.req.header('authorization'))
  const { page, before = '' } = c.req.query()
  const portal = await readEmbeddedPortal(openDatabase(c.env), programId, partnerId, idOf(before) || undefined)
  if (!portal || programId !== idOf(c.req.param('programId')))
    throw new ApiError('not_found', 'There is no such portal.')
  const languages = [c.req.header('svc-page-language'), portal.language]
  const texts = textsIn(chooseLanguage(languages, c.req.header('accept-language')))
  c.set('texts', texts)
  // The frame takes this origin from the browser, so a removed origin loses the portal immediately.
  if (!portal.embed_origins.includes(c.req.header('svc-page-origin') ?? ''))
    throw new ApiError('forbidden', texts.t('This page may not show the portal. Ask the program to allow it.'))
  return c.html(
    <RequestContext.Provider value={c}>
      <Portal portal={portal} page={page?.slice(0, 2048)} isFirst={before === ''} />
    </RequestContext.Provider>,
  )
})
portals.all(portalPath, onlyMethods('GET', 'HEAD'))
app.route('/', portals)

export default app
