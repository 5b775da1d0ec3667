import * as z from 'zod/mini'
import { type EventPosition, eventTypes } from '../tracking/events.ts'
import { dateParameter, dateRange, notBackwards } from './date-range.ts'
import { cursorIn, cursorOf, listParameters, listQuery, listResponse, oneOf } from './lists.ts'
import { answered, type Operation } from './operation.ts'
import { exampleEvent, trackingEvent } from './tracking-events.ts'

const { dateFrom, dateTo } = dateRange

/** The place in a cursor of the events. */
const eventCursor = () =>
  cursorIn(([at = '', type, id = '', ...more]): EventPosition | undefined => {
    const event_type = eventTypes.find((one) => one === type)
    if (!event_type || more.length > 0 || ![at, id].every((digits) => /^[1-9]\d{0,15}$/.test(digits))) return undefined
    return { at_us: Number(at), event_type, id: Number(id) }
  })

export const eventCursorOf = ({ at_us, event_type, id }: EventPosition) => cursorOf(at_us, event_type, id)

/** Query of GET /api/v1/events. */
export const eventListQuery = z
  .extend(listQuery({ event_type: z.optional(oneOf(eventTypes)), dateFrom, dateTo }), {
    cursor: z.optional(eventCursor()),
  })
  .check(notBackwards)

/** The events of a program as the reference shows them. */
export const eventOperations = (): Operation[] => [
  {
    id: 'listEvents',
    method: 'get',
    path: '/api/v1/events',
    summary: 'List clicks, leads and sales',
    description:
      'Clicks, leads and sales of the program, the newest first, at any depth. Test events and sales without a partner are not among them.',
    auth: 'key',
    scope: 'read',
    parameters: [
      listParameters(eventListQuery, {
        event_type: { description: 'Only events of this type.' },
        dateFrom: { description: 'ISO 8601 date or time: the earliest, itself included.', ...dateParameter },
        dateTo: { description: 'ISO 8601 date or time: the latest, itself included.', ...dateParameter },
      }),
    ],
    success: { schemas: [listResponse(trackingEvent())], description: 'A page of events.' },
    examples: [answered('page', 'The newest events', { data: [exampleEvent], next_cursor: null })],
  },
]
