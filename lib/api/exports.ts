import * as z from 'zod/mini'
import type { Export } from '../moving/exports.ts'
import { count, id, success, time } from '../response-fields.ts'
import { idIn, idParameter } from './lists.ts'
import { answeredCreated, type Operation } from './operation.ts'

export const exportPath = z.object({ export_id: idIn() })

const keptMilliseconds = 24 * 60 * 60 * 1000

/** Renders an export: a new row, or the stored result of a repeated request. */
export function asExport({ id: exportId, row_counts: rows, created_at }: Export) {
  const created = new Date(created_at)
  return {
    export_id: exportId,
    rows,
    created_at: created.toISOString(),
    expires_at: new Date(created.getTime() + keptMilliseconds).toISOString(),
  }
}

const example = {
  export_id: 1,
  rows: { program: 1 },
  created_at: '2026-01-01T12:00:00.000Z',
  expires_at: '2026-01-02T12:00:00.000Z',
}
const path = '/api/v1/exports'

/** Describes exports for the reference. */
export const exportOperations = (): Operation[] => [
  {
    auth: 'key',
    id: 'createExport',
    method: 'post',
    path,
    summary: 'Export the program',
    description:
      'Copies the whole program at this moment. Download its archive within a day. It replaces the previous export. A program can create six exports an hour.',
    scope: 'manage',
    idempotent: true,
    success: {
      schemas: [
        z.object({
          success: success(),
          export_id: id(),
          rows: z.record(z.string(), count()),
          created_at: time(),
          expires_at: time(),
        }),
      ],
      description: 'The export.',
      fields: { rows: 'The number of rows of each kind.', expires_at: 'When the archive is deleted.' },
    },
    examples: [answeredCreated('created', 'An empty program', example)],
  },
  {
    auth: 'key',
    id: 'downloadExport',
    method: 'get',
    path: `${path}/{export_id}/archive`,
    summary: 'Download the archive of an export',
    description:
      'A ZIP archive with JSON lines, CSV and a manifest with the SHA-256 of every file. The documentation has its schema.',
    scope: 'manage',
    parameters: [idParameter('export_id', 'Id of the export.')],
    success: { schemas: [z.string()], description: 'The archive.', media: 'application/zip' },
    errors: ['not_found'],
    examples: [],
  },
]
