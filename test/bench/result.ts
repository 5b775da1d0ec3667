/** What a bench found: rows for the table, and the ratios that have a goal. */
export interface Result {
  figures: Record<string, string | number>[]
  goals: Goal[]
}

export interface Goal {
  what: string
  measured: number
  /** The least that is good, or the most where `most` is set. */
  least?: number
  most?: number
}

export interface Options {
  /** How many click events the bench `growth` grows to. */
  events: number
  /** How long the bench `start` watches the memory of the stack under load. */
  minutes: number
  /** The one call that the bench `serve` measures; all where none is named. */
  call: string | undefined
}

export function isMet({ measured, least = -Infinity, most = Infinity }: Goal): boolean {
  return measured >= least && measured <= most
}

/** A number for the table: three digits that say something. */
export function round(value: number): number {
  return Number(value.toPrecision(3))
}
