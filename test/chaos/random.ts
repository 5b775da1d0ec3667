/** Random numbers (mulberry32). The same seed always results in the same numbers. */
export interface Random {
  /** Returns a number of at least 0 and below 1. */
  next(): number
  /** Returns an integer from `min` to `max`, both inclusive. */
  integer(min: number, max: number): number
  chance(probability: number): boolean
  /** Returns one of the items, or undefined if there are none. */
  pick<Item>(items: readonly Item[]): Item | undefined
}

export function seeded(...seeds: number[]): Random {
  let state = seeds.reduce((mixed, seed) => Math.imul(mixed ^ seed, 0x9e3779b1) ^ (mixed >>> 13), 0x12345678)
  const random: Random = {
    next() {
      state = (state + 0x6d2b79f5) | 0
      let t = Math.imul(state ^ (state >>> 15), 1 | state)
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296
    },
    integer: (min, max) => min + Math.floor(random.next() * (max - min + 1)),
    chance: (probability) => random.next() < probability,
    pick: (items) => items[Math.floor(random.next() * items.length)],
  }
  return random
}
