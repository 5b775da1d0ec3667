import * as z from 'zod/mini'
import { noteAgentCall } from '../access/audit-log.ts'
import { parse } from '../api/input.ts'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { checkConfirmation, confirmationOf } from './confirmation.ts'
import { type Arguments, requestOf } from './requests.ts'
import { type AgentEnv, type AgentTool, isTool, readOf, toolFor } from './tools.ts'

interface Caller {
  db: Database
  key: { programId: number; scopes: readonly string[] }
  /** The call to the MCP server. Its headers contain the key and the address. */
  request: Request
  env: AgentEnv
}

export type ToolAnswer = Record<string, unknown>

/** The refusal of an endpoint that a tool called, passed on unchanged. */
export class EndpointRefusal extends Error {
  readonly answer: ToolAnswer
  constructor(answer: ToolAnswer) {
    super('The endpoint refused the call.')
    this.answer = answer
  }
}

export const noTools =
  'There are no tools for payouts, payout addresses, API keys, members and imports. People manage them in the dashboard.'

const fieldsOf = z.record(z.string(), z.unknown())

/**
 * Runs a tool. A read returns its endpoint's response. A change returns a plan. A later call with the plan's confirmation applies it.
 * Records each call in the audit log with the client's name. Throws an `ApiError` or an `EndpointRefusal` for a refused call.
 */
export async function callTool(caller: Caller, name: string, args: Arguments, client: string): Promise<ToolAnswer> {
  const tool = toolFor(name, caller.key.scopes)
  const shown = name.slice(0, 100).toWellFormed().replaceAll('\0', '')
  // Some clients send each optional argument, as null or as an empty text.
  const isConfirmed = (args['confirmation'] ?? '') !== ''
  const isPlan = tool?.isRead === false && !isConfirmed
  await noteAgentCall(caller.db, caller.key.programId, { tool: shown, client, is_plan: isPlan })
  if (!tool) {
    throw new ApiError(
      'not_found',
      isTool(name)
        ? `This API key can't use the tool ${shown}. List the tools that it can use.`
        : `There is no tool ${shown}. ${noTools}`,
    )
  }
  const { confirmation, ...rest } = parse(fieldsOf, args, 'json')
  const withheld = tool.withheld.find((field) => Object.hasOwn(rest, field))
  if (withheld !== undefined) {
    const message = 'can only be changed by a person, in the dashboard'
    throw new ApiError('invalid_request', `\`${withheld}\` ${message}.`, { details: [{ field: withheld, message }] })
  }
  if (tool.isRead) return await send(caller, tool, isConfirmed ? args : rest)
  if (isPlan) return await plan(caller, tool, rest)
  const state = await checkConfirmation(secretOf(caller), name, rest, String(confirmation))
  if (state === 'expired') {
    throw new ApiError(
      'conflict',
      'The plan is older than 15 minutes. Call the tool without `confirmation` for a new plan.',
    )
  }
  if (state === 'different') {
    throw new ApiError(
      'invalid_request',
      'The `confirmation` belongs to another plan. Send the arguments of that plan, or get a new plan.',
    )
  }
  return await send(caller, tool, rest, String(confirmation))
}

const secretOf = ({ request }: Caller) => request.headers.get('authorization') ?? ''

/**
 * Sends a tool's request to its function, with the caller's key and address. The confirmation serves as the idempotency key, so a repeated
 * call creates only one object.
 */
async function send(caller: Caller, tool: AgentTool, args: Arguments, confirmation?: string): Promise<ToolAnswer> {
  const { headers, url } = caller.request
  const sent = new Headers({ authorization: secretOf(caller) })
  const address = headers.get('cf-connecting-ip')
  if (address !== null) sent.set('cf-connecting-ip', address)
  if (confirmation !== undefined && tool.operation.idempotent) sent.set('idempotency-key', confirmation)
  const response = await caller.env[tool.binding].fetch(requestOf(tool, args, url, sent))
  const answer = fieldsOf.parse(await response.json())
  if (!response.ok) throw new EndpointRefusal(answer)
  return answer
}

/** Plans a change: the current item, the change of each field, and the names of the partner and group. Changes nothing. */
async function plan(caller: Caller, tool: AgentTool, args: Arguments): Promise<ToolAnswer> {
  const { summary, body, parameters = [] } = tool.operation
  const inPath = new Set(parameters.flatMap((parameter) => Object.keys(parameter.fields)))
  const [paths, changes] = [true, false].map((isPath) =>
    Object.fromEntries(Object.entries(args).filter(([field]) => inPath.has(field) === isPath)),
  )
  if (body) parse(body.schema, changes, 'json')
  const read = readOf(tool)
  const answered = read && (await send(caller, read, paths ?? {}))
  const item = fieldsOf.safeParse(Object.values(answered ?? {}).find((value) => typeof value === 'object')).data
  const names = await namesOf(caller, args)
  return {
    plan: {
      summary,
      ...(item && { current: item }),
      changes: Object.entries(changes ?? {}).map(([field, to]) => ({
        field,
        ...(item && field in item && { from: item[field] }),
        to,
      })),
      ...(Object.keys(names).length > 0 && { names }),
    },
    confirmation: await confirmationOf(secretOf(caller), tool.name, args),
    next: 'Nothing has changed. If the person agrees, call the tool again with the same arguments and this confirmation.',
  }
}

const named = z.object({ name: z.string() })

/** Looks up the names of the partner and the group that a change refers to. */
async function namesOf(caller: Caller, args: Arguments): Promise<Record<string, string>> {
  const names: Record<string, string> = {}
  for (const thing of ['partner', 'group']) {
    const id = args[`${thing}_id`]
    const read = toolFor(`get_${thing}`, caller.key.scopes)
    if (!read || id === undefined || id === null) continue
    const answer = await send(caller, read, { [`${thing}_id`]: id })
    names[thing] = named.parse(answer[thing]).name
  }
  return names
}
