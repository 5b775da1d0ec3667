import type { Page } from 'playwright-core'

/** Texts that make up hostile addresses, because a backtracking pattern would try many ways to match them. */
const repeated = ['a', '?', '&aff', 'aff=', '?aff;', '%3Faff=', '&utm_', 'sub1', '#?&;']

/** The times of one long address, in milliseconds. `pushed` is what the script adds to `history.pushState`. */
export interface LongAddressTimes {
  text: string
  loaded_ms: number
  pushed_ms: number
}

/**
 * Measures how long the tracker script takes to read long addresses on an open page: when it loads, and after `history.pushState`. Each
 * time is the fastest of five runs. On a busy machine, runs at or above `limit_ms` are repeated up to 25 times.
 */
export async function timeLongAddresses(
  page: Page,
  script: string,
  kilobytes: number,
  limit_ms: number,
): Promise<LongAddressTimes[]> {
  return await page.evaluate(
    ({ source, texts, length, limit }) => {
      // oxlint-disable-next-line consistent-function-scoping -- it runs in the page
      const fastest = (work: () => void, below = Infinity) => {
        let best = Infinity
        for (let runs = 0; runs < 5 || (best >= below && runs < 25); runs++) {
          const started = performance.now()
          work()
          best = Math.min(best, performance.now() - started)
        }
        return best
      }
      // Each run has its own name, because the script runs once per name.
      let name = 0
      const load = () => {
        const element = Object.assign(document.createElement('script'), { text: source })
        Object.assign(element.dataset, { svcProgramId: '1', svcName: `svc${(name += 1)}`, svcParams: 'via,ref,fpr' })
        document.head.append(element)
      }
      // oxlint-disable-next-line consistent-function-scoping -- it runs in the page
      const plainPushState = (address: string) => History.prototype.pushState.call(history, {}, '', address)
      return texts.map((text) => {
        const address = `/?${text.repeat(length / text.length)}`
        delete (history as Partial<History>).pushState
        const plain = fastest(() => plainPushState(address))
        const loaded_ms = fastest(load, limit)
        delete (history as Partial<History>).pushState
        load()
        return { text, loaded_ms, pushed_ms: fastest(() => history.pushState({}, '', address), limit + plain) - plain }
      })
    },
    { source: script, texts: repeated, length: kilobytes * 1024, limit: limit_ms },
  )
}
