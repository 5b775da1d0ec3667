/** The binding that requests a count. */
export interface CountEnv {
  COUNT?: { fetch(url: string): Promise<Response> }
}

/** A Worker may run for thirty seconds after its response. */
const countAfterMilliseconds = 25_000

/** When the next count starts. That count includes everything that this isolate recorded before. */
let askedUntil = 0

/**
 * Requests a count shortly after the response to a click, lead, sale or refund. Sends at most one request per isolate in 25 seconds, and
 * none if nothing happens. So no schedule has to poll every minute, and an unused database can be suspended.
 */
export function countSoon({ COUNT: counting }: CountEnv, waitUntil: (work: Promise<unknown>) => void): void {
  const now = Date.now()
  if (!counting || now < askedUntil) return
  askedUntil = now + countAfterMilliseconds
  const request = new Promise<void>((resolve) => setTimeout(resolve, countAfterMilliseconds))
    .then(() => counting.fetch('https://count/'))
    // The schedule handles the rest.
    .catch(() => console.error(JSON.stringify({ error: 'count_unreachable' })))
  waitUntil(request)
}
