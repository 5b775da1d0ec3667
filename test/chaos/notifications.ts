import type { LedgerProgram } from '../support/ledger.ts'
import { addAccount } from '../support/joined-partner.ts'
import { type FaultyMail, mailedTo } from './mail.ts'
import type { FaultyQueue } from './queue-faults.ts'
import { seeded } from './random.ts'
import type { World } from './world.ts'

/**
 * Creates accounts with mail for the first partner and a workspace member. The partner gets immediate mails, and the member gets a daily
 * mail about reviews.
 */
export async function addReaders(world: World, { programId, partnerIds }: LedgerProgram): Promise<void> {
  const { pool, service, db } = world
  const [partner, member] = await Promise.all([addAccount(pool, 'Partner 0'), addAccount(pool, 'Owner')])
  await pool.query(
    `with tied as (update partners set user_id = $3 where program_id = $1 and id = $2)
    insert into workspace_members (workspace_id, user_id, role) select workspace_id, $4, 'owner' from programs where id = $1`,
    [programId, partnerIds[0], partner.id, member.id],
  )
  await service.saveMailChoices(db, member.id, { application: 'at_once', review: 'daily' })
}

/**
 * Sends, delivers and mails the rest of the outbox, as the scheduled functions do minutes later, first with the faulty queue and mail API,
 * and then without faults. Returns missing and repeated notifications and mails.
 */
export async function deliverEverything(
  world: World,
  faults: FaultyQueue,
  queueUrl: string,
  mail: FaultyMail,
): Promise<string[]> {
  const { service, db, pool, env } = world
  const mailEnv = {
    ...env,
    BASE_URL: 'http://svc.test',
    AUTH_SECRET: 'x'.repeat(32),
    MAIL_API_URL: mail.url,
    MAIL_API_KEY: 'key',
    MAIL_FROM: 'Chaos <chaos@example.com>',
  }
  const sendMails = (round: number, sender: number) =>
    world.during(seeded(round, sender), () =>
      world.settle(async () => void (await service.sendNotificationMails(db, mailEnv, Date.now() + 60_000))),
    )
  const queue = service.openQueue(env as never)
  const wrong: string[] = []
  for (let round = 0; round < 8; round++) {
    faults.faulty = mail.faulty = round < 3
    // Skips the waits of ten seconds and fifteen minutes.
    await pool.query(
      `update outbox set created_at = created_at - interval '1 hour', sent_at = null where delivered_at is null`,
    )
    try {
      await service.relayOutbox(db, service.queuesOf(queue, { QUEUE_URL: queueUrl }), Date.now() + 60_000)
      await service.drainQueue(db, queue, queueUrl, Date.now() + 60_000)
    } catch (error) {
      if (!faults.faulty) wrong.push(`delivery failed without a fault: ${String(error)}`)
    }
    await pool.query("update notification_mails set due_at = due_at - interval '2 days'")
    await Promise.all([sendMails(round, 1), sendMails(round, 2)])
  }
  queue.destroy()
  const { rows } = await pool.query<{ rows: string; notified: string }>(
    'select count(*) as rows, count(n.id) as notified from outbox o full join notifications n on n.program_id = o.program_id and n.id = o.id',
  )
  const [row] = rows
  if (row?.rows !== row?.notified) wrong.push(`of ${row?.rows} notifications ${row?.notified} were delivered`)
  const mailed = mailedTo(mail)
  // There is no mail about a notification if somebody made the decision before the mail was due.
  const { rows: readers } = await pool.query<{ email: string; notified: string; decided: string }>(
    `select u.email, count(*) as notified, count(*) filter (where is_decided(n)) as decided
    from outbox o join notifications n using (program_id, id) join programs p on p.id = o.program_id
    left join partners r on r.program_id = o.program_id and r.id = o.partner_id and o.audience = 'partner'
    left join workspace_members m on m.workspace_id = p.workspace_id and o.audience = 'advertiser'
    join users u on u.id = coalesce(r.user_id, m.user_id)
    group by u.email`,
  )
  for (const { email, notified, decided } of readers) {
    const count = mailed.get(email) ?? 0
    if (count > Number(notified) || count < Number(notified) - Number(decided))
      wrong.push(`${email} was mailed ${count} of ${notified} notifications, of which ${decided} were decided on`)
  }
  if (mailed.size > readers.length) wrong.push(`${mailed.size} were mailed, ${readers.length} are to be`)
  return [...wrong, ...mail.wrong]
}
