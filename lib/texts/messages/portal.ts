import { embed } from './embed.ts'
import { frame } from './frame.ts'
import { join } from './join.ts'

/** All messages of the pages for partners. */
export const portal = { ...embed, ...frame, ...join }
