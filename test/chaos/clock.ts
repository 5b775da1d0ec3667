/**
 * Changes the clock of this process at each SIGUSR2: an hour ahead, then correct, then an hour behind, and then correct again. It starts
 * CLOCK_AHEAD_MS milliseconds ahead. Load it with `node --import`. The database has its own clock.
 */
const RealDate = Date
const jumps = [3_600_000, 0, -3_600_000, 0]
let jumped = 0
let offset = Number(process.env['CLOCK_AHEAD_MS'] ?? 0)

globalThis.Date = new Proxy(RealDate, {
  construct: (target, args: unknown[]): Date =>
    Reflect.construct(target, args.length === 0 ? [RealDate.now() + offset] : args) as Date,
  get: (target, name) => (name === 'now' ? () => RealDate.now() + offset : Reflect.get(target, name)),
})
process.on('SIGUSR2', () => {
  offset = jumps[jumped % jumps.length] ?? 0
  jumped += 1
})
