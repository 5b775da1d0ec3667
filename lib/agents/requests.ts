import { ApiError } from '../errors.ts'
import type { AgentTool } from './tools.ts'

export type Arguments = Record<string, unknown>

/** Serializes a value with sorted keys, so that the same arguments in another order are the same request. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const fields = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${canonicalJson(field)}`).join(',')}}`
}

/** Encodes an argument as one segment of a path. A URL drops an empty segment, resolves dots, and cannot contain a lone surrogate. */
function segmentOf(name: string, value: string): string {
  if (value.isWellFormed() && !['', '.', '..'].includes(value)) return encodeURIComponent(value)
  const message = 'must be an id of this program'
  throw new ApiError('invalid_request', `${name} ${message}.`, { details: [{ field: name, message }] })
}

/**
 * Builds the program API request of a tool. Arguments outside the path and the query become its body. Throws
 * `invalid_request` if an argument cannot be part of the path.
 */
export function requestOf({ operation }: AgentTool, args: Arguments, baseUrl: string, headers: HeadersInit): Request {
  const rest = { ...args }
  const take = (name: string): string => {
    const value = rest[name]
    delete rest[name]
    return typeof value === 'string' ? value : canonicalJson(value)
  }
  const url = new URL(baseUrl)
  url.pathname = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => segmentOf(name, take(name)))
  const fields = operation.parameters?.filter((parameter) => parameter.in === 'query') ?? []
  for (const name of fields.flatMap((parameter) => Object.keys(parameter.fields))) {
    if (rest[name] !== undefined) url.searchParams.set(name, take(name))
  }
  const sent = new Headers(headers)
  if (operation.method === 'get') {
    // The endpoint refuses the remaining arguments and lists their names.
    for (const name of Object.keys(rest)) url.searchParams.set(name, take(name))
    return new Request(url, { headers: sent })
  }
  if (operation.body) sent.set('content-type', 'application/json')
  const body = operation.body || Object.keys(rest).length > 0 ? canonicalJson(rest) : undefined
  return new Request(url, { method: operation.method.toUpperCase(), headers: sent, ...(body && { body }) })
}
