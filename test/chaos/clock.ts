/**
 * Has the clock of this process jump at each SIGUSR2: an hour forward, back to right, an hour back, right again; it starts as many
 * milliseconds ahead as CLOCK_AHEAD_MS says. For `node --import`; the database keeps its own.
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
