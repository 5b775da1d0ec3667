import { type DatabaseEnv, openDatabase } from '../../lib/database.ts'
import { type Click, recordClick } from '../../lib/tracking/clicks.ts'
import { clickOn } from './calls.ts'

const click = clickOn('')

/** A click in a Worker without checks or a framework. It parses JSON, makes the same call with the same driver, and responds with JSON. */
export default {
  async fetch(request: Request, env: DatabaseEnv): Promise<Response> {
    const sent: Partial<Click> & { affiliate_url: string } = await request.json()
    const partner_code = sent.affiliate_url.slice(sent.affiliate_url.indexOf('aff=') + 4, -'&utm_source=blog'.length)
    return Response.json(await recordClick(openDatabase(env), { ...click, ...sent, partner_code }, null))
  },
}
