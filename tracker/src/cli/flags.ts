import { type Command, InvalidArgumentError } from 'commander'
import { connect, type ConnectionFlags, request } from './service.ts'

/** Parses a whole number above zero: an id, a count or an amount. */
export function wholeNumber(text: string): number {
  const number = Number(text)
  if (!Number.isSafeInteger(number) || number <= 0) throw new InvalidArgumentError('Enter a positive whole number.')
  return number
}

/** Parses an amount above or below zero. */
export function signedNumber(text: string): number {
  const number = Number(text)
  if (!Number.isSafeInteger(number) || number === 0)
    throw new InvalidArgumentError('Enter a whole number other than 0.')
  return number
}

/** Adds another id to the list. */
export const eachWholeNumber = (text: string, before: number[] = []) => [...before, wholeNumber(text)]

/** Parses a percentage as hundredths of a percent. */
export function hundredths(text: string): number {
  const number = Math.round(Number(text) * 100)
  if (!/^\d{1,3}(\.\d{1,2})?$/.test(text) || number > 10_000)
    throw new InvalidArgumentError('Enter a percentage from 0 to 100 with at most two decimals.')
  return number
}

/** Returns the given options by their names in camel case. */
export type Flags = ConnectionFlags & Record<string, unknown>
/** Prints `data` with --json, and `text` otherwise. */
export type Print = (flags: ConnectionFlags, data: object, text: string) => void
/** Adds a command with the common options. */
export type Subcommand = (parent: Command, name: string, description: string) => Command

const camel = (option: string) => option.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase())
/** Returns the text values of these options, by their names in the API. */
export const optionValues = (flags: Flags, options: string[]) =>
  Object.fromEntries(
    options.flatMap((option) => {
      const value = flags[camel(option)]
      return typeof value === 'string' ? [[option.replaceAll('-', '_'), value]] : []
    }),
  )

/** Sends a POST that creates something once per --idempotency-key. */
export async function create<Answer>(flags: Flags, path: string, body: object): Promise<Answer> {
  const key = typeof flags['idempotencyKey'] === 'string' ? flags['idempotencyKey'] : crypto.randomUUID()
  return await request<Answer>(connect(flags), `/api/v1/${path}`, { body, headers: { 'idempotency-key': key } })
}
