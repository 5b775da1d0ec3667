import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { afterAll, expect, inject, test } from 'vitest'
import { findDifferences } from '../lib/audit.ts'
import { backUp, restore } from '../lib/backup.ts'
import { approveCommissions } from '../lib/commissions.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { askWithdrawal, payWithdrawal } from '../lib/withdrawals.ts'
import { createLedgerProgram } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const { db, env, sql, databaseUrl } = await startEndpoint()
const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 })
const folder = mkdtempSync(path.join(tmpdir(), 'svc-backup-'))
const file = path.join(folder, 'backup.jsonl.gz')
// Not a clone of the migrated one: a database in which nothing is.
const emptyName = `restored_${process.pid}_${Date.now()}`
const admin = new pg.Client({ connectionString: inject('adminUrl') })
await admin.connect()
await admin.query(`create database ${emptyName} template template0`)
const emptyUrl = new URL(databaseUrl)
emptyUrl.pathname = emptyName
afterAll(async () => {
  await admin.query(`drop database ${emptyName} with (force)`)
  await admin.end()
  await pool.end()
  rmSync(folder, { recursive: true })
})

/** Every row of every table as text. */
async function everything(client: pg.Client): Promise<string[]> {
  const { rows: tables } = await client.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
    and not relispartition and relname <> 'schema_migrations' order by 1`,
  )
  const parts = tables.map(({ name }) => `select '${name} ' || t::text as row from ${name} t`)
  return (await client.query<{ row: string }>(`${parts.join(' union all ')} order by 1`)).rows.map(({ row }) => row)
}

test(
  'a backup restored into an empty database is the same, agrees, and goes on from there',
  { timeout: 60_000 },
  async () => {
    await createSandbox(db, { ...env, AUTH_SECRET: 'secret' }, { name: 'Ünïcode "quoted"\nand \\ more' })
    const program = await createLedgerProgram(pool, db)
    const sold = [await program.soldBy(0, 10_000), await program.soldBy(1, 77_777, 'jpy'), await program.soldBy(0, 55)]
    await approveCommissions(
      db,
      program.programId,
      sold.map(({ commissionId }) => commissionId),
    )
    const ask = {
      programId: program.programId,
      partnerId: program.partnerIds[0] ?? 0,
      currency: 'usd',
      amountCents: 500,
      requestId: crypto.randomUUID(),
    }
    await payWithdrawal(db, program.programId, await askWithdrawal(db, ask), 500)
    await program.refund(sold[0]?.id ?? '', 3000)

    const rows = await backUp(databaseUrl, file)
    expect(await restore(emptyUrl.href, file)).toBe(rows)
    const restored = new pg.Client({ connectionString: emptyUrl.href })
    await restored.connect()
    try {
      expect(rows).toBeGreaterThan(40)
      expect(await everything(restored)).toEqual(await everything(sql))
      expect(await findDifferences(restored)).toEqual([])
      const { rows: next } = await restored.query<{ id: string }>(
        `insert into workspaces (name) values ('Next') returning id`,
      )
      expect(next).toHaveLength(1)
      const partner = await restored.query<{ id: string }>(`insert into partners (name) values ('Next') returning id`)
      expect(Number(partner.rows[0]?.id)).toBeGreaterThan(Math.max(...program.partnerIds))
    } finally {
      await restored.end()
    }
    await expect(restore(emptyUrl.href, file)).rejects.toThrow('holds data')
  },
)
