import { isIP } from 'node:net'
import { parseArgs } from 'node:util'
import { openCommandDatabase, runCommand } from './command.ts'
import { OperatorError } from './operator-error.ts'
import { commandDatabase } from './running-stack.ts'

const usage = `npm run -s block -- --program 1 --hours 24 --reason "spam"              blocks the links, keys, join page and dashboard of a program
npm run -s block -- --network 198.51.100.0/24 --hours 24 --reason "flood"    blocks all requests of an address or a network (one box)
npm run -s block                                                            lists the current blocks
npm run -s block -- --end 3                                                 ends a block early`

const longestHours = 24 * 366

/**
 * `npm run -s block`: blocks an abuser for some hours, in the database of DATABASE_URL or in the running stack. Blocks end on their own,
 * and stay in the table `blocks`. The audit log of a blocked program shows them too.
 */
async function block(): Promise<void> {
  const { values } = parseArgs({
    options: {
      program: { type: 'string' },
      network: { type: 'string' },
      hours: { type: 'string' },
      reason: { type: 'string' },
      end: { type: 'string' },
    },
  })
  const { program, network, reason, end } = values
  const { blockNetwork, blockProgram, endBlock, readBlocks } = await import('../access/blocks.ts')
  const db = openCommandDatabase(commandDatabase())
  if (end !== undefined) {
    if (!(await endBlock(db, Number(end) || 0))) throw new OperatorError(`There is no current block ${end}.`)
    console.log(`Block ${end} has ended.`)
    return
  }
  if (program === undefined && network === undefined) {
    for (const { id, program_id, network: of, reason: because, ends_at } of await readBlocks(db))
      console.log(`${id}  ${of ?? `program ${program_id}`}  until ${ends_at.toISOString()}  ${because}`)
    return
  }
  const hours = Number(values.hours)
  if (!(Number.isInteger(hours) && hours > 0 && hours <= longestHours) || !reason || (program && network))
    throw new OperatorError(`Name a program or a network, --hours up to ${longestHours}, and --reason.\n${usage}`)
  if (network !== undefined && !isNetwork(network))
    throw new OperatorError('--network takes an address or a network, such as 198.51.100.0/24 or 2001:db8::/48.')
  const id =
    network === undefined
      ? await blockProgram(db, Number(program) || 0, { hours, reason })
      : await blockNetwork(db, network, { hours, reason })
  if (id === undefined) throw new OperatorError(`There is no program ${program}.`)
  console.log(`Block ${id} ends in ${hours} h. To end it now: npm run -s block -- --end ${id}`)
  if (network !== undefined)
    console.log(
      'This only affects one box. On Cloudflare, block the network there: see "Abuse" in lib/commands/README.md.',
    )
}

/** Returns whether a text is an address or a network. Refuses networks that contain a large part of the internet. */
function isNetwork(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/')
  const kind = isIP(address)
  const [least, most] = kind === 4 ? [8, 32] : [16, 128]
  const length = prefix === undefined ? most : Number(prefix)
  return kind !== 0 && rest.length === 0 && prefix !== '' && length >= least && length <= most
}

await runCommand(usage, block)
