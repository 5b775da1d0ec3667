/**
 * The script that partners' visitors load: `<script async src="{base_url}/js/svc-tracker.js" data-svc-program-id="1"></script>`.
 *
 * Attributes, all but the first optional:
 * - `data-svc-program-id`: the program's id, so that links and clicks of another program are refused.
 * - `data-svc-consent="required"`: nothing is read, stored or sent before `svc.consent()`.
 * - `data-svc-params="via,ref,fpr"`: further names under which a partner code is accepted beside `aff`.
 * - `data-svc-name="partners"`: the name of a further program on the same site. Its helper is `window.partners`, its cookie
 *   `partners_click_id`; without it they are `window.svc` and `svc_click_id`. Each program has a tag of its own.
 *
 * The calls go to the service that the script is from; a script at another address than the service's `/js/` is behind a proxy on the page's
 * own domain, which takes the calls at that address too.
 *
 * Every byte is paid by every page view: the build fails when the script is larger than 1 KB after brotli.
 */

/**
 * What a signup resolves to: the service's answer; `error.code` `no_attribution` without a request where the visitor has no
 * click; or `success: false` without an `error` where the service was not reached.
 */
export interface SignupResult {
  success: boolean
  lead_id?: number
  click_id?: string
  customer_status?: string
  provisional?: boolean
  error?: { code: string; message?: string }
}

/** `window.svc`. */
export interface Svc {
  /** The click id, or null where the visitor did not come through a partner's link or has not consented. */
  getClickId(): string | null
  /**
   * Records the signup, once the click under way is answered and consent is given: so make no visitor wait for it. Never
   * rejects.
   */
  signup(customerKey: string, email?: string): Promise<SignupResult>
  /** Starts a script that waits because of `data-svc-consent="required"`. */
  consent(): void
}

/** A call made through the stub before the script was there: method, arguments, and what to do with the result. */
export type StubCall = [method: 'signup' | 'consent', args: [string, string?], resolve: Settle['with']]
interface Settle {
  with(result: unknown): void
}

/** `window.svc` as stub or as script: `v` is set by the script, `q` takes the stub's calls. */
export interface StubbedSvc extends Svc {
  v?: number
  q?: StubCall[]
}

declare global {
  interface Window {
    svc?: StubbedSvc
  }
}

try {
  // oxlint-disable-next-line no-unsafe-type-assertion -- a page's script is no SVG's
  const script = document.currentScript as HTMLScriptElement
  const { svcProgramId, svcConsent, svcParams, svcName = 'svc' } = script.dataset
  // oxlint-disable-next-line no-unsafe-type-assertion -- what else the page has under this name is kept
  const svc = ((window as unknown as Record<string, StubbedSvc>)[svcName] ??= Object())
  if (svcProgramId && !svc.v) {
    // Sent with click and signup, so that those of another program are refused; JSON has null where the tag has no number.
    const program_id = +svcProgramId
    // oxlint-disable-next-line no-non-null-assertion -- `aff` matches
    const names = (['aff', svcParams] + '').match(/[\w-]+/g)!.join('|')
    // The address without its query and hash, the query that has the code, and the code.
    // Also matches inside the hash, for routers that keep their query there, and in links that a mail mixed up: `?a=b?aff=c`, `&amp;aff=c`.
    const codePattern = RegExp(`([^?#;]*)(.*?[?&#;](${names})=([^?&#;]+)[^#]*)`)
    let lastCode: string | undefined,
      consented: 1 | undefined,
      unsavedClickId: string | null = null
    // Session storage: the click not answered yet, and the session's id.
    const clickKey = svcName + '_click'
    const sessionKey = svcName + '_session'
    let store: Record<string, string> = {}
    let consent: (value: unknown) => void
    let queue = new Promise<unknown>((resolve) => (consent = resolve))

    /** Runs jobs one after the other, so that a signup waits for the click and no click is sent twice. */
    const enqueue = (job: () => unknown) => (queue = queue.then(job).catch(() => ({ success: false })))

    const getClickId = () => {
      try {
        // oxlint-disable-next-line no-non-null-assertion -- throws where there is no such cookie
        if (consented) return document.cookie.match(`(^| )${clickKey}_id=([^;]+)`)![2]!
      } catch {}
      return unsavedClickId
    }

    // The proxy on the page's own domain puts `#` in place of the path, so that all goes to the script's own address.
    const post = (path: string, body: object) =>
      fetch(script.src.split('/js/')[0] + '/api/v1/track/' + path, {
        keepalive: true,
        method: 'POST',
        // Sent as text, so that the browser does not ask first whether it may.
        body: JSON.stringify(body),
      })

    /**
     * Writes the cookie on the widest domain that the browser takes, which is the registrable one, and on the bare host at
     * last; `Secure` where the protocol has a sixth character (`https:`). With an empty id it clears every place, so that no
     * older cookie on a narrower domain hides the new one.
     */
    const writeCookie = (clickId: string, seconds: number) => {
      let domain = ''
      // oxlint-disable-next-line no-array-reverse -- of an array made here; not every browser has `toReversed`
      for (const label of ('.' + location.hostname).split('.').reverse())
        if (getClickId() != clickId)
          document.cookie = `${clickKey}_id=${clickId};path=/;max-age=${seconds};samesite=lax;domain=${(domain =
            label && '.' + label + domain)};${location.protocol[5] && 'secure'}`
    }

    const sendClick = async () => {
      if (store[clickKey]) {
        const response = await post('click', {
          ...JSON.parse(store[clickKey]),
          existing_click_id: getClickId(),
        })
        // What is not the service's answer (a page of the shop, say) throws here, and the click stays for the next page.
        const { click_id, cookie_window_days, cookie_set } = await response.json()
        // A refusal is final; anything else (429, 5xx, no answer) is tried again on the next page.
        if (response.status < 429) delete store[clickKey]
        // A proxy on the page's own domain sets the cookie itself, which lasts longer; it is not written over.
        if (click_id)
          try {
            if (!cookie_set || getClickId() != click_id) {
              writeCookie('', 0)
              writeCookie(click_id, cookie_window_days * 86400)
            }
          } finally {
            unsavedClickId = click_id
          }
      }
    }

    const look = (landing?: unknown, isBefore?: 1) => {
      const text = (isBefore ? '' : location.href + '#') + landing
      // Second as it was before something encoded it: `/page%3Faff=c`. First as it is, since this is no UTF-8.
      const [, url, query, , code] = text.match(codePattern) ?? unescape(text).match(codePattern) ?? []
      if (code && code != lastCode) {
        lastCode = code
        void enqueue(() => {
          // The page before kept its code itself, had consent been given there.
          if (isBefore && (store[sessionKey] || getClickId())) return
          store[clickKey] = JSON.stringify({
            // Of the query the campaign alone goes along; the rest can hold what is nobody's business here.
            // oxlint-disable-next-line no-non-null-assertion -- as `aff` does
            affiliate_url: url + '?' + ('aff=' + code + query).match(/\b(^aff|sub.|utm_\w+)=[^?&#;]+/g)!.join('&'),
            page_url: url,
            referrer_url: document.referrer,
            session_id: (store[sessionKey] ??= Math.random() + ''),
            additional_data: { program_id },
          })
        })
      }
      void enqueue(sendClick)
    }

    for (const method of ['pushState', 'replaceState'] as const) {
      const original = history[method]
      history[method] = (...args) => {
        original.apply(history, args)
        look()
      }
    }
    // A new hash is a `popstate` too.
    for (const event of ['popstate', 'online']) addEventListener(event, look)
    try {
      store = sessionStorage
    } catch {}

    const { q } = svc
    const run = ([method, args, resolve]: StubCall) => resolve(svc[method](...args))
    Object.assign(svc, {
      v: 1,
      consent: () => consent((consented = 1)),
      getClickId,
      signup: (customer_key: string, email?: string) =>
        enqueue(async () => {
          const click_id = getClickId()
          return click_id
            ? (
                await post('lead', {
                  customer_key,
                  click_id,
                  email,
                  page_url: location.href.match(/[^?#;]*/) + '',
                  session_id: store[sessionKey],
                  program_id,
                })
              ).json()
            : { error: { code: 'no_attribution' }, success: false }
        }),
      q: { push: run },
    })
    // The page before on this site, whose visitor had not consented yet: nothing was stored there, but the browser names it.
    if (document.referrer.split('/')[2] == location.host) look(document.referrer, 1)
    // The router may have changed the address before this script was there; the navigation entry still has it.
    look(performance.getEntriesByType('navigation')[0]?.name)
    // After the click, which a signup kept by the stub needs.
    q?.map(run)
    if (svcConsent != 'required') svc.consent()
  }
} catch {}
