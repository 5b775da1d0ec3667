import * as z from 'zod/mini'
import { id, success } from '../response-fields.ts'
import { type FilterTexts, listParameters, listResponse } from './lists.ts'
import { answered, type Operation } from './operation.ts'

type Own = Pick<Operation, 'id' | 'summary' | 'description'> & Partial<Operation>

interface ListOptions {
  query: z.ZodMiniType
  filters?: FilterTexts
}

/** The schema of a response with one field in addition to `success`. */
export const answerOf = (name: string, schema: z.ZodMiniType) => z.object({ success: success(), [name]: schema })

/**
 * Describes the operations of one resource of the program API. The operations share its path, its response and the meaning of its fields.
 * Each operation can override these.
 */
export function resource(of: {
  path: string
  /** The field of a response with one item, such as `payout_run`. */
  name: string
  plural: string
  item: z.ZodMiniType
  fields: Record<string, string>
  example: object
  /** The id in the path of one item. Absent if the path is that of a single item. */
  inPath?: NonNullable<Operation['parameters']>[number]
}) {
  const { path, name, plural, item, fields, example, inPath } = of
  const noun = name.replaceAll('_', ' ')
  const read = { auth: 'key', scope: 'read' } as const
  const one = { success: { schemas: [answerOf(name, item)], description: `The ${noun}.`, fields } }
  const placed = inPath ? { path: `${path}/{${Object.keys(inPath.fields)[0]}}`, parameters: [inPath] } : { path }
  const change = (own: Own): Operation => ({
    ...one,
    ...placed,
    auth: 'key',
    scope: 'manage',
    method: 'patch',
    examples: [],
    ...own,
  })
  return {
    create: (own: Own): Operation => ({
      ...one,
      auth: 'key',
      scope: 'manage',
      method: 'post',
      path,
      idempotent: true,
      examples: [],
      ...own,
    }),
    list: ({ query, filters = {}, parameters = [], ...own }: Own & ListOptions): Operation => ({
      ...read,
      method: 'get',
      path,
      parameters: [...parameters, listParameters(query, filters)],
      success: { schemas: [listResponse(item)], description: `A page of ${plural}.`, fields },
      examples: [answered('page', `The newest ${plural}`, { data: [example], next_cursor: null })],
      ...own,
    }),
    get: (own: Own): Operation => ({
      ...read,
      ...one,
      ...placed,
      method: 'get',
      examples: [answered(name, `The ${noun}`, { [name]: example })],
      ...own,
    }),
    change,
    remove: (own: Own): Operation => ({
      ...change(own),
      method: 'delete',
      success: {
        schemas: [answerOf('deleted_id', id())],
        description: 'It was deleted.',
        fields: { deleted_id: `Id of the ${noun}.` },
      },
    }),
    /** A call below the path of one item, such as `/rotate-secret`. */
    act: ({ at, ...own }: Own & { at: string }): Operation => ({
      ...change(own),
      method: 'post',
      path: `${placed.path}${at}`,
    }),
  }
}
