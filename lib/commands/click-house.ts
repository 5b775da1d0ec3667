import { compareClicks } from '../tracking/click-comparison.ts'
import { sendClicks, startSink } from '../tracking/click-sink.ts'
import { openClickHouse } from '../click-house.ts'
import { openCommandDatabase, readOptions, runCommand } from './command.ts'
import { OperatorError } from './operator-error.ts'
import { commandDatabase } from './running-stack.ts'

const usage = `npm run -s clickhouse              sends the waiting rows, compares the clicks in ClickHouse and Postgres, and exits with 1 if they differ
npm run -s clickhouse -- --copy    empties ClickHouse and copies everything again, for example after a restored backup
  CLICKHOUSE_URL=https://user@host:8443/database CLICKHOUSE_PASSWORD=...`

const { values } = readOptions(usage, { options: { copy: { type: 'boolean', default: false } } })

const clicksOfBatch = 10_000

await runCommand(usage, async () => {
  const clickHouse = openClickHouse(process.env)
  if (!clickHouse) throw new OperatorError(`Set CLICKHOUSE_URL.\n${usage}`)
  const db = openCommandDatabase(commandDatabase())
  if (values.copy) await startSink(db, clickHouse)
  let total = 0
  for (let more = true; more;) {
    const part = await sendClicks(db, clickHouse, clicksOfBatch)
    total += part.sent
    more = part.more
  }
  const { total: differing, findings } = await compareClicks(db, clickHouse)
  console.log(`Sent: ${total} rows. ${differing === 0 ? 'Both databases agree.' : `${differing} differences.`}`)
  if (differing === 0) return
  console.table(findings, ['program_id', 'subject', 'found', 'expected'])
  process.exitCode = 1
})
