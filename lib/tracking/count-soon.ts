/** The binding by which whatever is counted asks for counting. */
export interface CountEnv {
  COUNT?: { fetch(url: string): Promise<Response> }
}

/** A Worker may go on for thirty seconds after its answer. */
const countAfterMilliseconds = 25_000

/** Until when a count is on its way that sees what this isolate records. */
let askedUntil = 0

/**
 * Has this click, lead, sale or refund counted a moment after its answer, together with all that the isolate records until then: one request for counting in
 * 25 seconds of an isolate, and none where nobody clicks. So no schedule has to ask every minute whether there was a click, and
 * a database that rests when it is left alone may rest.
 */
export function countSoon({ COUNT: counting }: CountEnv, waitUntil: (asked: Promise<unknown>) => void): void {
  const now = Date.now()
  if (!counting || now < askedUntil) return
  askedUntil = now + countAfterMilliseconds
  const asked = new Promise<void>((resolve) => setTimeout(resolve, countAfterMilliseconds))
    .then(() => counting.fetch('https://count/'))
    // The schedule counts what this did not.
    .catch(() => console.error(JSON.stringify({ error: 'count_unreachable' })))
  waitUntil(asked)
}
