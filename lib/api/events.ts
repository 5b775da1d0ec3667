import * as z from 'zod/mini'
import { type EventPosition, eventTypes } from '../tracking/events.ts'
import { fromTo, fromToFields, toNotBeforeFrom } from './date-range.ts'
import { cursorIn, cursorOf, listQuery, oneOf } from './lists.ts'
import type { Operation } from './operation.ts'
import { resource } from './resource.ts'
import { exampleEvent, trackingEvent } from './tracking-events.ts'

/** The position in a cursor of the event list. */
const eventCursor = () =>
  cursorIn(([at = '', type, id = '', ...more]): EventPosition | undefined => {
    const event_type = eventTypes.find((one) => one === type)
    if (!event_type || more.length > 0 || ![at, id].every((digits) => /^[1-9]\d{0,15}$/.test(digits))) return undefined
    return { at_us: Number(at), event_type, id: Number(id) }
  })

export const eventCursorOf = ({ at_us, event_type, id }: EventPosition) => cursorOf(at_us, event_type, id)

/** Query of GET /api/v1/events. */
export const eventListQuery = z
  .extend(listQuery({ event_type: z.optional(oneOf(eventTypes)), ...fromTo }), {
    cursor: z.optional(eventCursor()),
  })
  .check(toNotBeforeFrom)

/** Describes events for the reference. */
export function eventOperations(): Operation[] {
  const { list } = resource({
    path: '/api/v1/events',
    name: 'event',
    plural: 'events',
    item: trackingEvent(),
    fields: {},
    example: exampleEvent,
  })
  return [
    list({
      id: 'listEvents',
      summary: 'List clicks, leads and sales',
      description:
        'Lists clicks, leads and sales of the program, newest first. Test events and unattributed sales are not included.',
      query: eventListQuery,
      filters: {
        event_type: 'Only events of this type.',
        ...fromToFields('events'),
      },
    }),
  ]
}
