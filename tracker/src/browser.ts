/**
 * The script that partners' visitors load: `<script async src="{base_url}/js/svc-tracker.js" data-svc-program-id="1"></script>`.
 *
 * Attributes, all but the first optional:
 * - `data-svc-program-id`: the program's id. The service refuses links and clicks of another program.
 * - `data-svc-consent="required"`: the script reads, stores and sends nothing before `svc.consent()`. `/js/svc-tracker-consent.js` always
 *   waits, and also has `svc.revokeConsent()`.
 * - `data-svc-params="via,ref,fpr"`: further parameters that carry a partner code besides `aff`.
 * - `data-svc-name="partners"`: the name of a further program on the same site. Its helper is `window.partners` and its cookie
 *   `partners_click_id`. The defaults are `window.svc` and `svc_click_id`. Each program has its own tag.
 *
 * The script sends its calls to the service that it was loaded from. If its address is not the service's `/js/`, a proxy on the page's
 * own domain serves it, and that address receives the calls too.
 *
 * Every page view loads every byte, so the build fails if the script is larger than 1 KB after brotli. For the same reason, only pages that
 * ask for consent load the code that revokes it.
 */

/** Whether this is `svc-tracker-consent.js`. See build.ts. */
declare const SVC_REVOKES: boolean

/**
 * The result of a signup is the service's response. If the visitor has no click, `error.code` is `no_attribution` and no request is sent.
 * If the service couldn't be reached, `success` is false without an `error`.
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
  /** The click id, or null if the visitor did not come through a partner's link or has not consented. */
  getClickId(): string | null
  /**
   * Records the signup after the response to the pending click and the visitor's consent, so don't make visitors wait for it. Never
   * rejects.
   */
  signup(customerKey: string, email?: string): Promise<SignupResult>
  /** Starts a script that is waiting because of `data-svc-consent="required"`. */
  consent(): void
  /**
   * Revokes the consent: deletes the cookie, and stores and sends nothing before the next `consent()`. Only
   * in `svc-tracker-consent.js`.
   */
  revokeConsent(): void
}

/** A call to the stub before the script has loaded: method, arguments, and a callback for the result. */
export type StubCall = [
  method: 'signup' | 'consent' | 'revokeConsent',
  args: [string, string?],
  resolve: Settle['with'],
]
interface Settle {
  with(result: unknown): void
}

/** `window.svc`, from the stub or from the script. The script sets `v`, and `q` contains the stub's calls. */
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
  const { svcProgramId, svcConsent, svcName = 'svc', svcParams } = script.dataset
  // oxlint-disable-next-line no-unsafe-type-assertion -- keeps everything that the page has under this name
  const svc = ((window as unknown as Record<string, object>)[svcName] ??= {}) as StubbedSvc
  if (svcProgramId && !svc.v) {
    // Sent with clicks and signups, so that the service refuses clicks and signups of another program. In JSON, it is null if the tag
    // has no number.
    const program_id = +svcProgramId
    // oxlint-disable-next-line no-non-null-assertion -- `aff` matches
    const names = (['aff', svcParams] + '').match(/[\w-]+/g)!.join('|')
    // Captures the address up to the end of the query with the code, the address without its query and hash, and the code. Also finds the
    // code inside the hash, because some routers keep their query there, and in links that a mail program garbled: `?a=b?aff=c`,
    // `&amp;aff=c`. Runs in linear time: the anchor allows one start, and the lookahead never backtracks into another part.
    const codePattern = RegExp(`^(?=([^?#;]*)).*?[&?#;](${names})=([^?#;&]+)[^#]*`)
    let consented: 0 | 1 | undefined,
      unsavedClickId: string | null = null,
      lastCode: string | undefined
    // In session storage: the click without a response so far, and the session's id.
    const clickKey = svcName + '_click'
    const sessionKey = svcName + '_session'
    let store: Record<string, string> = {}
    let consent: (value: unknown) => void
    let queue = new Promise<unknown>((resolve) => (consent = resolve))

    /** Runs jobs one after the other, so that a signup waits for the click and no click is sent twice. */
    const enqueue = (job: () => unknown) =>
      (queue = queue
        .then(SVC_REVOKES ? () => (consented ? job() : Promise.reject()) : job)
        .catch(() => ({ success: false })))

    const getClickId = () => {
      try {
        // oxlint-disable-next-line no-non-null-assertion -- throws if there is no such cookie
        if (consented) return document.cookie.match(`(^| )${clickKey}_id=([^;]+)`)![2]!
      } catch {}
      return unsavedClickId
    }

    // The proxy on the page's own domain replaces the path with `#`, so that all calls are sent to the script's own address.
    const post = (path: string, body: object) =>
      fetch(script.src.split('/js/')[0] + '/api/v1/track/' + path, {
        keepalive: true,
        method: 'POST',
        // This is sent as text, which doesn't need a preflight request.
        body: JSON.stringify(body),
      })

    /**
     * Writes the cookie on the widest domain that the browser accepts, which is the registrable one, and last on the bare host.
     * Adds `Secure` if the protocol has a sixth character (`https:`). An empty id clears the cookie on every domain, so that no
     * older cookie on a narrower domain hides the new one.
     */
    const writeCookie = (clickId: string, seconds: number) => {
      let domain = ''
      // oxlint-disable-next-line no-array-reverse -- the array is local; not every browser has `toReversed`
      for (const label of ('.' + location.hostname).split('.').reverse())
        if (getClickId() != clickId)
          document.cookie = `${clickKey}_id=${clickId};path=/;max-age=${seconds};samesite=lax;domain=${(domain =
            label && '.' + label + domain)};${location.protocol[5] && 'secure'}`
    }

    const sendClick = async () => {
      if (store[clickKey]) {
        const response = await post('click', {
          // This makes the service refuse with 200, so that the visitor's console doesn't show an error.
          quiet: 1,
          ...JSON.parse(store[clickKey]),
          existing_click_id: getClickId(),
        })
        // If another server responds, for example with a page of the shop, this throws. In that case, the click is kept for the next page.
        const { cookie_set, click_id, cookie_window_days } = await response.json()
        // A refusal is final and also has status 200. After 429, 5xx or no response, the next page sends the click again.
        if (response.ok) delete store[clickKey]
        // The visitor has revoked consent while the click was being sent, and the proxy's response has set the cookies again.
        if (SVC_REVOKES && !consented) return svc.revokeConsent()
        // A proxy on the page's own domain sets the cookie itself. That cookie lasts longer, so the script keeps it.
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
      // First reads the raw address, then the decoded one, because something may have encoded it: `/page%3Faff=c`. `unescape` does not read UTF-8.
      const [query, url, , code] = text.match(codePattern) ?? unescape(text).match(codePattern) ?? []
      if (code && code != lastCode) {
        lastCode = code
        void enqueue(() => {
          // With consent, the previous page has already stored its code.
          if (isBefore && (store[sessionKey] || getClickId())) return
          store[clickKey] = JSON.stringify({
            // Sends only the campaign from the query. Other parameters can contain private data.
            affiliate_url:
              // oxlint-disable-next-line no-non-null-assertion -- as `aff` does
              url + '?' + ('aff=' + code + '&' + query).match(/\b(^aff|sub.|utm_\w+)=[^?#;&]+/g)!.join('&'),
            session_id: (store[sessionKey] ??= Math.random() + ''),
            referrer_url: document.referrer,
            page_url: url,
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
    // A change of the hash also fires `popstate`.
    for (const event of ['online', 'popstate']) addEventListener(event, look)
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
                  session_id: store[sessionKey],
                  program_id,
                  page_url: location.href.match(/[^?#;]*/) + '',
                  email,
                  click_id,
                })
              ).json()
            : { error: { code: 'no_attribution' }, success: false }
        }),
      q: { push: run },
    })
    if (SVC_REVOKES)
      svc.revokeConsent = () => {
        const wasConsented = consented
        // `getClickId` reads the cookie.
        consented = 1
        if (getClickId()) {
          unsavedClickId = null
          writeCookie('', 0)
          // Only the proxy can delete its copy, which no script can read.
          if (!script.src.split('/js/')[1]) post('', { revoked: true }).catch(() => {})
        }
        delete store[clickKey]
        delete store[sessionKey]
        consented = 0
        // Calls without consent stay in the queue until there is consent.
        if (wasConsented) queue = new Promise((resolve) => (consent = resolve))
      }

    // The visitor may not have consented on the previous page of this site. That page stored nothing, but the browser reports its address.
    if (document.referrer.split('/')[2] == location.host) look(document.referrer, 1)
    // The router may have changed the address before this script loaded. The navigation entry still has the original.
    look(performance.getEntriesByType('navigation')[0]?.name)
    // This comes after the click, because a signup from the stub needs the click.
    q?.map(run)
    if (!SVC_REVOKES && svcConsent != 'required') svc.consent()
  }
} catch {}
