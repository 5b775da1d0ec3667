/** The result of a benchmark: rows of the table, and figures with a goal. */
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
  /** The largest number of click events that `growth` and `groupings` seed. */
  events: number
  /** The only call that `serve` measures. */
  call: string | undefined
}

export function isMet({ measured, least = -Infinity, most = Infinity }: Goal): boolean {
  return measured >= least && measured <= most
}

/** A number for the table, with three significant digits. */
export function round(value: number): number {
  return Number(value.toPrecision(3))
}
