import { parseArgs } from 'node:util'
import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs'
import color from 'picocolors'
import { OperatorError } from './operator-error.ts'
import { readRunningStack } from './running-stack.ts'
import { parseOutboxMessage } from '../notifications/in-app.ts'
import { deadLetterUrlOf, inCalls, messagesPerCall, openQueue } from '../notifications/queue.ts'
import { runCommand } from './command.ts'

export interface DeadLetter {
  message_id: string
  sent_at: Date
  program_id: number | null
  /** The outbox row of the message, or null if the service did not write the message. */
  outbox_id: number | null
  body: string
}

/** Hides a dead letter from other readers while it is read or redriven. */
const visibilitySeconds = 60

async function receiveDeadLetters(queue: SQSClient, deadLetterUrl: string): Promise<Message[]> {
  const { Messages: messages = [] } = await queue.send(
    new ReceiveMessageCommand({
      QueueUrl: deadLetterUrl,
      MaxNumberOfMessages: messagesPerCall,
      VisibilityTimeout: visibilitySeconds,
      WaitTimeSeconds: 1,
      MessageSystemAttributeNames: ['SentTimestamp'],
    }),
  )
  return messages
}

const entryOf = ({ ReceiptHandle }: Message, index: number) => ({ Id: String(index), ReceiptHandle })

/** Reads at least the first `limit` dead letters and leaves them in the queue. Other readers can receive them a second later. */
export async function listDeadLetters(queue: SQSClient, deadLetterUrl: string, limit: number): Promise<DeadLetter[]> {
  const seen: Message[] = []
  while (seen.length < limit) {
    const messages = await receiveDeadLetters(queue, deadLetterUrl)
    if (messages.length === 0) break
    seen.push(...messages)
  }
  for (const messages of inCalls(seen)) {
    // If the timeout is 0, the emulator loses messages that it stores on disk.
    const Entries = messages.map((message, index) => ({ ...entryOf(message, index), VisibilityTimeout: 1 }))
    await queue.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl: deadLetterUrl, Entries }))
  }
  return seen.map(({ MessageId, Attributes, Body = '' }) => {
    const content = parseOutboxMessage(Body)
    return {
      message_id: MessageId ?? '',
      sent_at: new Date(Number(Attributes?.SentTimestamp)),
      program_id: content?.program_id ?? null,
      outbox_id: content?.outbox_id ?? null,
      body: Body,
    }
  })
}

/**
 * Sends all dead letters back to the queue and returns their number. The dead-letter queue drops a message after the queue has accepted it.
 * If the process stops in between, the message is in both queues, but the service still delivers it only once.
 */
export async function redriveDeadLetters(queue: SQSClient, deadLetterUrl: string, queueUrl: string): Promise<number> {
  let sent = 0
  for (;;) {
    const messages = await receiveDeadLetters(queue, deadLetterUrl)
    if (messages.length === 0) return sent
    const { Successful: taken = [] } = await queue.send(
      new SendMessageBatchCommand({
        QueueUrl: queueUrl,
        Entries: messages.map(({ Body }, index) => ({ Id: String(index), MessageBody: Body })),
      }),
    )
    const done = taken.flatMap(({ Id }) => messages[Number(Id)] ?? [])
    if (done.length === 0)
      throw new OperatorError('The queue accepted none of the messages. The dead letters remain in place.')
    await queue.send(new DeleteMessageBatchCommand({ QueueUrl: deadLetterUrl, Entries: done.map(entryOf) }))
    sent += done.length
  }
}

/** Returns the queue at QUEUE_URL, or else the running stack's queue. */
function settings() {
  const env: Record<string, unknown> = process.env['QUEUE_URL'] ? process.env : readRunningStack().environment
  const required = (name: string) => {
    const value = env[name]
    if (typeof value !== 'string' || value === '') {
      throw new OperatorError(`${name} is not set. Set it, or unset QUEUE_URL to use the local stack's queue.`)
    }
    return value
  }
  return {
    queueUrl: required('QUEUE_URL'),
    queue: openQueue({
      QUEUE_URL: required('QUEUE_URL'),
      AWS_REGION: required('AWS_REGION'),
      AWS_ACCESS_KEY_ID: required('AWS_ACCESS_KEY_ID'),
      AWS_SECRET_ACCESS_KEY: required('AWS_SECRET_ACCESS_KEY'),
      ...(env['AWS_ENDPOINT_URL'] !== undefined && { AWS_ENDPOINT_URL: required('AWS_ENDPOINT_URL') }),
    }),
  }
}

const usage = `npm run -s queue -- dead       shows the messages that the consumer could not handle
npm run -s queue -- redrive    sends them back to the queue

QUEUE_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY choose the queue. Without them, it is the queue of the running local stack.`

async function main(): Promise<void> {
  const [command] = parseArgs({ allowPositionals: true }).positionals
  if (command !== 'dead' && command !== 'redrive') throw new OperatorError(`Say what to do:\n\n${usage}`)
  const { queue, queueUrl } = settings()
  try {
    const deadLetterUrl = await deadLetterUrlOf(queue, queueUrl)
    if (!deadLetterUrl) {
      throw new OperatorError(
        `${queueUrl} has no dead-letter queue, so failing messages repeat until they expire. Create one and name it in the queue's RedrivePolicy, as lib/commands/README.md shows.`,
      )
    }
    if (command === 'dead') {
      const letters = await listDeadLetters(queue, deadLetterUrl, 100)
      if (letters.length === 0) console.log(color.green('No dead letters.'))
      else {
        console.table(letters.map((letter) => ({ ...letter, body: letter.body.slice(0, 60) })))
        console.log(color.yellow(`${letters.length} dead letters. Send them back with: npm run queue -- redrive`))
      }
    } else {
      const sent = await redriveDeadLetters(queue, deadLetterUrl, queueUrl)
      console.log(color.green(sent === 0 ? 'No dead letters.' : `Sent ${sent} messages back to the queue.`))
    }
  } finally {
    queue.destroy()
  }
}

if (import.meta.main) await runCommand(usage, main)
