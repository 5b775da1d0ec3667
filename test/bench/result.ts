/** The result of a benchmark: table rows, and figures with a goal. */
export interface Result {
  figures: Record<string, string | number>[]
  goals: Goal[]
}

export interface Goal {
  what: string
  measured: number
  least?: number
  most?: number
}

export interface Options {
  /** The maximum number of click events that `growth` and `groupings` seed. */
  events: number
  /** The one call that `serve` measures, or all if undefined. */
  call: string | undefined
  /** The one service that `moving` moves from, or all if undefined. */
  source: string | undefined
}

export function isMet({ measured, least = -Infinity, most = Infinity }: Goal): boolean {
  return measured >= least && measured <= most
}

/** Formats a number with three significant digits. */
export function round(value: number): number {
  return Number(value.toPrecision(3))
}
