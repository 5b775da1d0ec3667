import * as z from 'zod/mini'
import type { KeyScope } from '../access/api-keys.ts'
import { inputSchema } from '../api/openapi.ts'
import type { Operation } from '../api/operation.ts'
import { operations } from '../api/operations.ts'

/**
 * The functions that agents can call: the first segment of their paths below `/api/v1/`, with the name of the service binding. There
 * are no tools for payouts, imports, webhook secrets and tracking calls, because an agent must not move money or credentials, or invent
 * sales.
 */
const bindings = {
  partners: 'PARTNERS',
  groups: 'GROUPS',
  rules: 'GROUPS',
  applications: 'APPLICATIONS',
  'join-page': 'APPLICATIONS',
  codes: 'CODES',
  links: 'LINKS',
  customers: 'CUSTOMERS',
  sales: 'SALES',
  events: 'EVENTS',
  commissions: 'COMMISSIONS',
  adjustments: 'ADJUSTMENTS',
  reviews: 'REVIEWS',
  performance: 'PERFORMANCE',
} as const

/** The service bindings of the MCP function. */
export type AgentEnv = Record<(typeof bindings)[keyof typeof bindings], { fetch(request: Request): Promise<Response> }>

/** Fields that tools don't have. For a partner without an account, `email` is the payout address. */
const withheldFields: Partial<Record<string, readonly string[]>> = { updatePartner: ['email'] }

/** A tool of the MCP server: one operation of the program API. Tools with `isRead` run at once. Other tools need a confirmation. */
export interface AgentTool {
  name: string
  operation: Operation
  scope: KeyScope
  isRead: boolean
  binding: keyof AgentEnv
  /** Fields of the operation that agents can't send. */
  withheld: readonly string[]
}

const confirmationField = {
  type: 'string',
  description:
    'Omit it at first. The result is a plan, and nothing changes. To apply the plan, send the same arguments with its `confirmation`.',
}

function bindingOf({ path }: Operation): keyof AgentEnv | undefined {
  const part = path.split('/')[3] ?? ''
  return Object.entries(bindings).find(([name]) => name === part)?.[1]
}

/** `listPartners` → `list_partners` */
const toolName = (id: string) => id.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** All tools by name, in the order of the reference. */
const tools: ReadonlyMap<string, AgentTool> = new Map(
  operations.flatMap((operation) => {
    const { id, method, scope } = operation
    const binding = bindingOf(operation)
    if (!scope || !binding) return []
    // Previews compute figures without changing anything.
    const isRead = method === 'get' || id === 'previewRules'
    const name = toolName(id)
    return [[name, { name, operation, scope, isRead, binding, withheld: withheldFields[id] ?? [] }] as const]
  }),
)

/** Returns true if some key can use a tool with this name. */
export const isTool = (name: string) => tools.has(name)

/** Finds a tool that the key's scopes allow. */
export function toolFor(name: string, scopes: readonly string[]): AgentTool | undefined {
  const tool = tools.get(name)
  return tool && scopes.includes(tool.scope) ? tool : undefined
}

/** Finds the operation that reads the item that a tool changes, by its path: `getPartner` for `updatePartner`. */
export function readOf({ operation }: AgentTool): AgentTool | undefined {
  const { path } = operation
  return [...tools.values()].find((tool) => tool.operation.path === path && tool.operation.id.startsWith('get'))
}

const jsonFields = z.record(z.string(), z.json())

/** Lists the tools that the key's scopes allow, as MCP describes them. */
export function listTools(scopes: readonly string[]) {
  return [...tools.values()]
    .filter(({ scope }) => scopes.includes(scope))
    .map(({ name, operation, isRead, withheld }) => {
      const { properties, ...schema } = inputSchema(operation)
      const offered = Object.entries(properties).filter(([field]) => !withheld.includes(field))
      return {
        name,
        title: operation.summary,
        description: operation.description,
        inputSchema: {
          ...schema,
          properties: jsonFields.parse({
            ...Object.fromEntries(offered),
            ...(!isRead && { confirmation: confirmationField }),
          }),
        },
        annotations: {
          readOnlyHint: isRead,
          destructiveHint: operation.method === 'delete',
          idempotentHint: operation.method !== 'post',
          openWorldHint: false,
        },
      }
    })
}
